"""Gemma 4s that see, of random shapes, here and in transformers: of `make parity`.

    python tests/golden/random_gemma4_vision.py write FOLDER   here
    python tests/golden/random_gemma4_vision.py check FOLDER   where torch and peft are

Every switch of the tower alone, then shapes that hypothesis draws of tower and decoder:
our folders, with logits beside them of prompts with pictures and without, at once and
with what follows the pictures, or stands before them, in a piece of its own; adapters
on some of them.
"""

import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAWN, BEFORE, CUT = 6, 2, 22  # before and after all pictures of all rows
UNBOUND = "not calibrated"
sys.path.insert(0, str(ROOT / "tests"))


def configs():
    """{name: config}; the same ones every time."""
    import gemma4_shapes
    import gemma4_sights
    from hypothesis import Phase, given, settings

    found = []

    @settings(max_examples=DRAWN, derandomize=True, phases=[Phase.generate])
    @given(gemma4_sights.together())
    def collect(drawn):
        found.append(drawn)

    collect()
    alone = {
        name: (gemma4_shapes.SMALL, changes)
        for name, changes in gemma4_sights.ALONE.items()
    }
    every = {"both_ways": True, "clipped": True, "standardized": True}
    alone["as E2B"] = gemma4_shapes.E2B, every
    alone[UNBOUND] = gemma4_shapes.SMALL, {"clipped": True}
    drawn = {f"drawn {i:02}": shape for i, shape in enumerate(found)}
    return {
        name: gemma4_sights.config(shape, **changes)
        for name, (shape, changes) in (alone | drawn).items()
    }


def write(folder):
    """Our folders, and our logits beside them."""
    import gemma4_sights
    import jax
    import jax.numpy as jnp
    import tiny_models
    from flax import nnx

    from helpers.model import lora, weights

    def logits(model, tokens, mask, strips, cut=None, shown=0):
        """Of the text at once, or of what follows `cut` in a second piece.

        `shown` says in which piece the pictures are.
        """
        graph, state = nnx.split(model)

        @jax.jit
        def all_pieces(state):
            model = nnx.merge(graph, state)
            seen, earlier, parts = None, [], []
            if strips is not None:
                seen = model.see(jnp.asarray(strips))
            for here in (slice(0, cut), slice(cut, None)) if cut else (slice(None),):
                piece = jnp.asarray(tokens[:, None, here])
                places = jnp.arange(tokens.shape[1])[here]
                places = jnp.broadcast_to(places, piece.shape)
                segments = jnp.asarray(mask[:, None, here])
                own = seen if len(parts) == shown else None
                hidden, kv = model(piece, places, segments, tuple(earlier), own)
                earlier.append(kv)
                parts.append(model.logits(hidden)[:, 0])
            return jnp.concatenate(parts, axis=1)

        return np.asarray(all_pieces(state))

    for name, config in configs().items():
        place = folder / name.replace(" ", "_")
        model = gemma4_sights.of_config(config, unbound=name == UNBOUND)
        weights.save(model, place)
        again = weights.load(place, vision=True)
        tokens, mask, pixels, strips = gemma4_sights.batch(config.vision)
        text = np.where(tokens >= gemma4_sights.END, 3, tokens)
        found = {"tokens": tokens, "mask": mask, "budget": config.vision.budget}
        found["whole"] = logits(again, tokens, mask, strips)
        found["pieces"] = logits(model, tokens, mask, strips, CUT)
        found["later"] = logits(model, tokens, mask, strips, BEFORE, 1)
        found["text"] = logits(model, text, mask, None)
        seen = [picture for row in pixels for picture in row]
        found |= {f"picture_{i}": picture for i, picture in enumerate(seen)}
        if not name.startswith("drawn") or name.endswith("0"):
            adapted = tiny_models.adapted(model)
            lora.save(adapted, place / "adapter", place)
            found["adapted"] = logits(adapted, tokens, mask, strips)
        np.savez(place / "ours.npz", **found)


def rounding(model, logits):
    """How far their own logits move when each weight is rounded the other way.

    Some drawn shapes let half a digit in the last place of their weights grow to more
    than 1e-4 in a logit, and so does any other order of the same sums.
    """
    import torch

    before, moves = logits(model), []
    for seed in range(4):
        rng = torch.Generator().manual_seed(seed)
        kept = {name: x.clone() for name, x in model.state_dict().items()}
        with torch.no_grad():
            for x in model.parameters():
                signs = torch.randint(0, 2, x.shape, generator=rng) * 2 - 1
                x.mul_(1 + signs * 1.01 * 2.0**-24)
        moves.append(np.abs(logits(model) - before).max())
        model.load_state_dict(kept)
    return max(moves)


def check(folder):
    """Their logits of our folders in float64; prints the largest difference of each.

    Raises AssertionError where one is over 1e-4 and over what rounding explains.
    """
    import gemma4_sights_torch as theirs
    from peft import PeftModel

    worst = 0.0
    for place in sorted(path.parent for path in folder.glob("*/ours.npz")):
        ours = dict(np.load(place / "ours.npz"))
        names = sorted(name for name in ours if name.startswith("picture_"))
        pictures, budget = [ours[name] for name in names], int(ours["budget"])
        tokens, mask = ours["tokens"], ours["mask"]
        model = theirs.load(place, "float64")

        def seen(model, tokens=tokens, mask=mask, pictures=pictures, budget=budget):
            found = theirs.logits(model, tokens, mask, pictures, budget)
            return found * mask[..., None]

        def gap(name, model, ours=ours, mask=mask, seen=seen, **asked):
            size = np.abs(seen(model, **asked) - ours[name] * mask[..., None]).max()
            if size > 1e-4:
                moved = rounding(model, lambda model: seen(model, **asked))
                print(f"{name} {size:.1e}, by rounding their own: {moved:.1e}")
                assert size <= min(3 * moved, 1e-3), (name, size, moved)
            return size

        gaps = {name: gap(name, model) for name in ("whole", "pieces", "later")}
        blank = [255 - picture for picture in pictures]
        moved = seen(model, pictures=blank) - seen(model)
        assert (np.abs(moved[[0, 1, 3]]).max(axis=(1, 2)) > 0.01).all()
        text = np.where(tokens >= model.config.eoi_token_id, 3, tokens)
        gaps["text"] = gap("text", model, tokens=text, pictures=[])
        if "adapted" in ours:
            moved = (ours["adapted"] - ours["whole"]) * mask[..., None]
            assert np.abs(moved).max() > 0.1
            model = PeftModel.from_pretrained(model, place / "adapter").eval()
            gaps["adapter"] = gap("adapted", model)
        said = ", ".join(f"{name} {value:.1e}" for name, value in gaps.items())
        print(f"gemma4 seeing, {place.name}: {said}", flush=True)
        worst = max(worst, *gaps.values())
    assert worst > 0


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
