"""What this course writes, read by transformers and peft: both halves of `make parity`.

    python tests/golden/exports.py write FOLDER   in the course's environment
    python tests/golden/exports.py check FOLDER   where torch, transformers and peft are

For every golden model: the model in bfloat16, a LoRA adapter on it, and the two merged,
each with the logits that this course's decoder gives; of those with vision, the
adapter is on their text half, and the logits are those of a batch with pictures.
"""

import pathlib
import sys
import warnings

import numpy as np

HERE = pathlib.Path(__file__).parent
INPUTS = ("tokens", "mask", "images")
FIRST = "seen_0"  # a picture of a Gemma 4


def strips(stored, vision):
    """Gemma 4's pictures, as they are and as the strips of each row."""
    from make_gemma4_vision import OF_ROW

    seen = {f"seen_{i}": stored[f"seen_{i}"] for i in range(sum(map(len, OF_ROW)))}
    images = np.zeros((len(OF_ROW), max(map(len, OF_ROW)), *vision.shape), np.uint8)
    for row, which in enumerate(OF_ROW):
        for slot, i in enumerate(which):
            images[row, slot] = vision.strip(seen[f"seen_{i}"])
    return seen | {"images": images}


def write(folder):
    """Our folders, and our logits beside them."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from helpers.model import lora, weights

    def logits(model, batch):
        tokens = jnp.asarray(batch["tokens"], jnp.int32)[:, None]
        positions = jnp.broadcast_to(jnp.arange(tokens.shape[-1]), tokens.shape)
        segments = jnp.asarray(batch["mask"], jnp.int32)[:, None]
        seen = model.see(jnp.asarray(batch["images"])) if "images" in batch else None
        hidden, _ = model(tokens, positions, segments, images_PID=seen)
        return np.asarray(model.logits(hidden))[:, 0]

    for path in sorted(HERE.glob("*/*.npz")):
        golden, stored = path.parent, np.load(path)
        batch = {name: stored[name] for name in INPUTS if name in stored}
        batch = {"mask": np.ones_like(batch["tokens"])} | batch
        options = {"dtype": jnp.bfloat16, "activations": jnp.float32}
        sees = "images" in batch or FIRST in stored
        half = weights.load(golden, vision=sees, **options)
        if FIRST in stored:
            batch |= strips(stored, half.config.vision)
        base = jax.tree.map(lambda x: x.astype(jnp.float32), nnx.state(half))
        base = nnx.merge(nnx.graphdef(half), base)
        model = lora.add(base, 3, alpha=5, seed=1)
        graph, adapters, rest = nnx.split(model, lora.Adapter, ...)
        adapters = jax.tree.map(lambda x: x + 0.05, adapters)
        model = nnx.merge(graph, adapters, rest)
        place = folder / golden.name
        weights.save(half, place / "bfloat16")
        weights.save(base, place / "base")
        lora.save(model, place / "adapter", place / "base")
        weights.save(lora.merge(model), place / "merged")
        np.savez(
            place / "ours.npz",
            **batch,
            base=logits(base, batch),
            adapted=logits(model, batch),
        )


def check(folder):
    """Their logits of our folders; bfloat16 tensors bit for bit those of the base."""
    import make_gemma4_vision
    import make_vision
    import torch
    from make_golden import load, logits_of
    from peft import PeftModel

    def gap(model, expected):
        if FIRST in ours:
            seen = [ours[name] for name in sorted(ours) if name.startswith("seen_")]
            batch = ours["tokens"], ours["mask"], seen, make_gemma4_vision.BUDGET
            logits = make_gemma4_vision.logits(model, *batch)
        elif "images" in ours:
            inputs = make_vision.inputs(*(ours[name] for name in INPUTS))
            logits = logits_of(model, **inputs)
        else:
            tokens = torch.tensor(ours["tokens"].astype(np.int64))
            logits = logits_of(model, input_ids=tokens)
        return (np.abs(logits - expected) * ours["mask"][..., None]).max()

    for place in sorted(path.parent for path in folder.glob("*/ours.npz")):
        ours, kind = np.load(place / "ours.npz"), "AutoModelForCausalLM"
        if "images" in ours:
            kind = (make_gemma4_vision if FIRST in ours else make_vision).KIND
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*adapter keys.*")  # none is missing
            base = load(place / "base", kind)
            adapted = PeftModel.from_pretrained(base, place / "adapter")
        gaps = {
            "bfloat16": gap(load(place / "bfloat16", kind), ours["base"]),
            "adapter": gap(adapted.eval(), ours["adapted"]),
            "merged": gap(load(place / "merged", kind), ours["adapted"]),
        }
        print(place.name, {name: f"{x:.1e}" for name, x in gaps.items()}, flush=True)
        assert max(gaps.values()) <= 1e-4, place.name
        moved = np.abs(ours["adapted"] - ours["base"]).max()
        assert moved > 0.1, f"{place.name}: the adapter changes nothing"


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
