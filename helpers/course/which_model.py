"""Which model fits which machine: what the TPU's compiler said of one GRPO update."""

import csv
import math

import jax
from flax import nnx

from helpers.course.results import TPU_FIT
from helpers.model.known import KNOWN
from helpers.model.transformer import Transformer
from helpers.tpu.generations import SLICES

GATED = "google/gemma-3", "meta-llama/"  # need a licence accepted, and a token


def choices() -> str:
    """A Markdown table: models by size, and the share of a chip's memory they take.

    Of each model the update of GRPO with adapters, its largest program; a preset's
    where there is one. Behind the share stand prompts × answers. Modelled by the
    compiler (`make tpu-check`), not measured.
    """
    rows = _rows()
    sizes = {name: _parameters(name) for name in {row["model"] for row in rows}}
    lines = [
        f"| model | parameters | token | {' | '.join(SLICES)} | float32 on a laptop |",
        f"|---|--:|---|{'---|' * len(SLICES)}--:|",
    ]
    for name in sorted(sizes, key=lambda name: sizes[name]):
        cells = (
            name,
            _short(sizes[name]),
            "yes" if name.startswith(GATED) else "no",
            *(_told([r for r in rows if _is_of(r, name, part)]) for part in SLICES),
            f"{4 * sizes[name] / 1e9:.1f} GB of weights",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def largest_that_fits(machine: str, spare: float) -> str:
    """The largest model without a token that leaves `spare` percent of a chip free.

    Args:
      machine: "v5e-1" or "v5e-8".
      spare: percent of its memory.
    """
    open_ones = {
        row["model"]
        for row in _rows()
        if row["topology"] == machine
        and float(row["hbm_percent"]) <= 100 - spare
        and not row["model"].startswith(GATED)
    }
    return max(open_ones, key=_parameters)


def _rows():
    with open(TPU_FIT, newline="") as file:
        rows = list(csv.DictReader(file))
    newest = rows[0]["versions"]  # Colab's older compiler was asked too
    return [row for row in rows if row["versions"] == newest and _is_choice(row)]


def _is_choice(row):
    return (
        row["program"] == "grpo"
        and row["topology"] in SLICES
        and row["trained"].startswith("LoRA")
        and "on the host" not in row["trained"]  # which no recipe does,
        and "each matrix" not in row["trained"]  # nor this
        and int(row["group"]) > 1
        and not row["verdict"]
    )


def _is_of(row, name, part):
    return row["model"] == name and row["topology"] == part


def _told(rows):
    """A model on a machine: a preset's row first, then one of text alone."""
    if not rows:
        return "–"
    best = min(rows, key=lambda r: (not r["preset"], r["pictures"] != "0"))
    photos = ", with a photo" if best["pictures"] != "0" else ""
    share = float(best["hbm_percent"])
    return f"{share:.0f}% ({best['prompts']} × {best['group']}{photos})"


def _parameters(name):
    """How many numbers a model has, from its shapes alone."""
    config = KNOWN[name]
    shapes = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def _short(count):
    return f"{count / 1e9:.1f}B" if count >= 9.5e8 else f"{count / 1e6:.0f}M"
