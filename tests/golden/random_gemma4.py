"""Gemma 4 decoders of random shapes, here and in transformers: a part of `make parity`.

    python tests/golden/random_gemma4.py write FOLDER   in the course's environment
    python tests/golden/random_gemma4.py check FOLDER   where torch and peft are

Every switch alone, then shapes that hypothesis draws with any of them on: our folders,
with logits of the text at once and in pieces beside them; adapters on some of them.
"""

import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, LENGTH, DRAWN = 2, 11, 12


def shapes():
    """{name: arguments of gemma4_shapes.config}; the same ones every time."""
    import gemma4_shapes
    from hypothesis import HealthCheck, Phase, given, settings

    drawn = []

    # On a busy machine a draw may take a second, which is no fault of the shapes.
    @settings(
        max_examples=DRAWN,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(gemma4_shapes.together())
    def collect(shape):
        drawn.append(shape)

    collect()
    named = {f"drawn {i:02}": shape for i, shape in enumerate(drawn)}
    return gemma4_shapes.ALONE | {"as E2B": gemma4_shapes.E2B} | named


def write(folder):
    """Our folders, and our logits beside them."""
    sys.path.insert(0, str(ROOT / "tests"))
    import gemma4_shapes
    import jax
    import jax.numpy as jnp
    import tiny_models
    from flax import nnx

    from helpers.model import lora, weights

    def logits(model, tokens, cuts):
        """Of the text in pieces, each of which sees those before it."""
        graph, state = nnx.split(model)

        @jax.jit
        def all_pieces(state):
            model, earlier, parts = nnx.merge(graph, state), [], []
            for start, end in zip((0, *cuts), (*cuts, LENGTH), strict=True):
                positions = jnp.broadcast_to(
                    jnp.arange(start, end), (ROWS, 1, end - start)
                )
                piece = jnp.asarray(tokens[:, None, start:end])
                hidden, kv = model(piece, positions, earlier=tuple(earlier))
                earlier.append(kv)
                parts.append(model.logits(hidden)[:, 0])
            return jnp.concatenate(parts, axis=1)

        return np.asarray(all_pieces(state))

    tokens = tiny_models.texts(ROWS, LENGTH)
    for name, shape in shapes().items():
        place = folder / name.replace(" ", "_")
        model = tiny_models.of_config(gemma4_shapes.config(**shape))
        weights.save(model, place)
        ours = {"tokens": tokens, "whole": logits(model, tokens, ())}
        ours["pieces"] = logits(model, tokens, (6, 7))
        if not name.startswith("drawn") or name.endswith("0"):
            adapted = tiny_models.adapted(model)
            lora.save(adapted, place / "adapter", place)
            ours["adapted"] = logits(adapted, tokens, ())
        np.savez(place / "ours.npz", **ours)


def check(folder):
    """Their logits of our folders in float64; prints the largest difference of each."""
    import torch
    from make_golden import load, logits_of
    from peft import PeftModel

    worst = 0.0
    for place in sorted(path.parent for path in folder.glob("*/ours.npz")):
        ours, model = np.load(place / "ours.npz"), load(place, dtype="float64")
        inputs = {"input_ids": torch.tensor(ours["tokens"].astype(np.int64))}
        # Without this, transformers 5.23 cuts off inputs that some shapes lack.
        inputs["output_hidden_states"] = True
        theirs, gaps = logits_of(model, **inputs), {}
        for name in ("whole", "pieces"):
            gaps[name] = np.abs(theirs - ours[name]).max()
        if "adapted" in ours:
            model = PeftModel.from_pretrained(model, place / "adapter").eval()
            theirs = logits_of(model, **inputs)
            gaps["adapted"] = np.abs(theirs - ours["adapted"]).max()
            assert np.abs(ours["adapted"] - ours["whole"]).max() > 0.1
        print(
            place.name, {name: f"{gap:.1e}" for name, gap in gaps.items()}, flush=True
        )
        worst = max(worst, *gaps.values())
    assert 0 < worst <= 1e-4, worst


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
