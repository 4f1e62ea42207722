"""What this course writes, read by transformers and peft: both halves of `make parity`.

    python tests/golden/exports.py write FOLDER   in the course's environment
    python tests/golden/exports.py check FOLDER   where torch, transformers and peft are

For every golden model: the model in bfloat16, a LoRA adapter on it, and the two merged,
each with the logits that this course's decoder gives.
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent


def write(folder):
    """Our folders, and our logits beside them."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from helpers.model import lora, weights

    def logits(model, tokens):
        positions = np.broadcast_to(np.arange(tokens.shape[-1]), tokens.shape)
        hidden, _ = model(jnp.asarray(tokens[:, None]), jnp.asarray(positions[:, None]))
        return np.asarray(model.logits(hidden))[:, 0]

    for golden in sorted(path.parent for path in HERE.glob("*/reference.npz")):
        tokens = np.load(golden / "reference.npz")["tokens"].astype(np.int32)
        half = weights.load(golden, dtype=jnp.bfloat16, activations=jnp.float32)
        base = jax.tree.map(lambda x: x.astype(jnp.float32), nnx.state(half))
        base = nnx.merge(nnx.graphdef(half), base)
        model = lora.add(base, 3, alpha=5, seed=1)
        graph, adapters, rest = nnx.split(model, lora.Adapter, ...)
        adapters = jax.tree.map(lambda x: x + 0.1, adapters)
        model = nnx.merge(graph, adapters, rest)
        place = folder / golden.name
        weights.save(half, place / "bfloat16")
        weights.save(base, place / "base")
        lora.save(model, place / "adapter", place / "base")
        weights.save(lora.merge(model), place / "merged")
        np.savez(
            place / "ours.npz",
            tokens=tokens,
            base=logits(base, tokens),
            adapted=logits(model, tokens),
        )


def check(folder):
    """Their logits of our folders; bfloat16 tensors bit for bit those of the base."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    def load(path):
        return AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        ).eval()

    def gap(model, tokens, expected):
        with torch.no_grad():
            return np.abs(model(torch.tensor(tokens)).logits.numpy() - expected).max()

    for place in sorted(path.parent for path in folder.glob("*/ours.npz")):
        ours = np.load(place / "ours.npz")
        tokens = ours["tokens"].astype(np.int64)
        adapted = PeftModel.from_pretrained(load(place / "base"), place / "adapter")
        gaps = {
            "bfloat16": gap(load(place / "bfloat16"), tokens, ours["base"]),
            "adapter": gap(adapted.eval(), tokens, ours["adapted"]),
            "merged": gap(load(place / "merged"), tokens, ours["adapted"]),
        }
        said = ", ".join(f"{name} {value:.1e}" for name, value in gaps.items())
        print(f"{place.name}: {said}", flush=True)
        assert max(gaps.values()) <= 1e-4, place.name
        moved = np.abs(ours["adapted"] - ours["base"]).max()
        assert moved > 0.1, f"{place.name}: the adapter changes nothing"


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
