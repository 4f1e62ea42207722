"""Three models on 1 to 256 chips of four kinds, on paper.

    python -m scripts.tpu_sweep

Writes `data/results/tpu_sweep.csv` by the formulas of `helpers/tpu/scaling_model.py`;
nothing is compiled or measured. Weak scaling: each chip has the same work. Strong: the
slice has. A slice whose chips do not hold the state is left out.
"""

import pathlib

from helpers.model.known import KNOWN
from helpers.tpu.scaling_model import Work, spread
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "tpu_sweep.csv"
LARGE = "meta-llama/Llama-3.1-70B-Instruct"
MODELS = ("Qwen/Qwen3-0.6B", "google/gemma-3-4b-it", LARGE)
FLAT = "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16".split()
DEEP = "1x1x1 2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8".split()
SHAPES = {"v5e": FLAT, "v6e": FLAT, "v5p": DEEP, "tpu7x": DEEP}
FULL = 90  # percent of memory: activations need the rest
STRONG = 256  # prompts
AXES = (1, 2, 4, 8)


def chips(shape):
    """Chips of a slice, by its shape."""
    count = 1
    for size in shape.split("x"):
        count *= int(size)
    return count


def rows():
    """The table: every model, kind, slice, way to scale, and mesh that is possible."""
    for model in MODELS:
        for kind, shapes in SHAPES.items():
            for scaling in ("weak", "strong"):
                for axis in AXES if model == LARGE else (1,):
                    yield from curve(model, kind, shapes, scaling, axis)


def curve(model, kind, shapes, scaling, axis):
    """One line over the slices that hold the state; 100%: products take all of it."""
    for shape in shapes:
        if int(shape.rpartition("x")[2]) % axis:
            continue
        count, each = chips(shape), 1 if model == LARGE else 16
        prompts = each * count if scaling == "weak" else STRONG
        found = spread(KNOWN[model], f"{kind}:{shape}", Work(prompts), axis)
        if found.state_percent > FULL:
            continue
        yield {
            "model": model,
            "kind": kind,
            "topology": f"{kind}:{shape}",
            "chips": count,
            "scaling": scaling,
            "model_axis": axis,
            "prompts": prompts,
            "pieces": found.pieces,
            "state_percent": round(found.state_percent, 1),
            "products_ms": round(found.products_ms, 1),
            "gathers_ms": round(found.gathers_ms, 1),
            "sums_ms": round(found.sums_ms, 1),
            "step_ms": round(found.step_ms, 1),
            "in_turn_ms": round(found.in_turn_ms, 1),
            "efficiency_percent": round(100 * found.products_ms / found.step_ms, 1),
            "in_turn_percent": round(100 * found.products_ms / found.in_turn_ms, 1),
        }


def main():
    """Writes the table, and says how the meshes of the largest model compare."""
    found = list(rows())
    tables.write(TABLE, found, found[0])
    for row in found:
        if (row["model"], row["chips"], row["scaling"]) == (LARGE, 64, "weak"):
            print(
                f"{row['topology']}, model={row['model_axis']}: a step of "
                f"{row['step_ms']:,.0f} ms, {row['efficiency_percent']:.0f}% products; "
                f"{row['in_turn_percent']:.0f}% if nothing hides"
            )


if __name__ == "__main__":
    main()
