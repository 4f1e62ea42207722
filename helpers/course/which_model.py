"""Which model fits which machine: what the TPU's compiler said of one GRPO update."""

import csv
import functools
import math

import jax
from flax import nnx

from helpers.course.results import TPU_FIT
from helpers.model.known import KNOWN
from helpers.model.transformer import Transformer
from helpers.tpu.generations import SLICES

LAPTOP_FIT = TPU_FIT.with_name("laptop_fit.csv")
GATED = "google/gemma-3", "meta-llama/"  # need a licence accepted, and a token


def choices() -> str:
    """A Markdown table: models by size, and the share of a chip's memory they take.

    Of each model the update of GRPO with adapters, its largest program; a preset's
    where there is one. Behind the share, or the GB on a laptop, stand prompts ×
    answers, and the tokens of one prompt with all of its answers. Told by the
    compilers (`make tpu-check`, `scripts.laptop_fit`), not measured.
    """
    rows = _rows()
    laptop = {row["model"]: row for row in _read(LAPTOP_FIT)}
    lines = [
        f"| model | parameters | token | {' | '.join(SLICES)} | float32 on a laptop |",
        f"|---|--:|---|{'---|' * len(SLICES)}--:|",
    ]
    for name in offered():
        cells = (
            name,
            _short(_parameters(name)),
            "yes" if name.startswith(GATED) else "no",
            *(_told([r for r in rows if _is_of(r, name, part)]) for part in SLICES),
            _on_laptop(laptop.get(name)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def offered() -> list[str]:
    """The models of that table, by size."""
    return sorted({row["model"] for row in _rows()}, key=_parameters)


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


def _read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _rows():
    rows = _read(TPU_FIT)
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
    photos = " with a photo" if best["pictures"] != "0" else ""
    share, length = float(best["hbm_percent"]), int(best["tokens"])
    group = f"{length // int(best['prompts']):,} tokens{photos}"
    return f"{share:.0f}% ({best['prompts']} × {best['group']}, {group})"


def _on_laptop(row):
    if row is None:
        return "–"
    asked = float(row["arguments_gb"]) + float(row["temporaries_gb"])
    return f"{asked:.1f} GB ({row['prompts']} × {row['group']})"


@functools.cache
def _parameters(name):
    return count(KNOWN[name])


def count(config) -> int:
    """How many numbers a model has, from its shapes alone."""
    shapes = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def _short(count):
    return f"{count / 1e9:.1f}B" if count >= 9.5e8 else f"{count / 1e6:.0f}M"
