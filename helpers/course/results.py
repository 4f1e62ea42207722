"""Results: the rows of this learner's runs, and the tables that scripts measured.

Shares are fractions of 1; `low` and `high` are the 95% interval of `greedy`. A table of
several seeds shows the mean, and in brackets the lowest and the highest.
"""

import collections
import contextlib
import csv
import fcntl
import json
import os
import pathlib
import platform
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from helpers import runtime
from helpers.course.syllabus import STAGES
from helpers.plots import plotting
from helpers.tpu.topology import SLICES

FOLDER = runtime.ROOT / "data" / "results"
FIELDS: dict[str, type] = {"stage": str, "params": int, "n": int, "seed": int}
FIELDS |= dict.fromkeys("greedy pass1 pass8 low high seconds".split(), float)
TASKS = {  # of real.csv
    "one_step": "one step",
    "two_step": "two steps",
    "three_step": "three steps",
    "gsm8k": "GSM8K",
}
GATED = "google/gemma-3", "meta-llama/"  # their licence must be accepted first


def measured(table: str) -> list[dict]:
    """The rows of data/results/TABLE.csv in its order, with numbers as numbers."""

    def number(text):
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
        return text

    with open(FOLDER / f"{table}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: number(text) for name, text in row.items()} for row in rows]


def spread(rows: Sequence[Mapping], by: str, column: str) -> dict[Any, tuple]:
    """{name: (mean, lowest, highest)} of a column over seeds, as `plotting.bars` draws.

    Args:
      by: the column that names the runs; they stay in the order in which they come.
    """
    values_of: dict[Any, list[float]] = {}
    for row in rows:
        values_of.setdefault(row[by], []).append(row[column])
    return {
        name: (sum(values) / len(values), min(values), max(values))
        for name, values in values_of.items()
    }


def _markdown(align: str, head: Sequence[str], rows: Sequence[Sequence]) -> str:
    """A Markdown table; `align` has a letter a column: l, c or r."""
    rules = {"l": "---", "c": ":-:", "r": "--:"}
    rule = f"|{'|'.join(rules[letter] for letter in align)}|"
    first, *lines = (f"| {' | '.join(map(str, line))} |" for line in (head, *rows))
    return "\n".join([first, rule, *lines])


def _span(runs: Sequence[Mapping], column: str) -> str:
    """The mean of a column, and in brackets lowest to highest, in percent."""
    values = [row[column] for row in runs if row[column] != ""]
    if not values:
        return "–"
    mean, low, high = sum(values) / len(values), min(values), max(values)
    return f"{mean:.1%} ({100 * low:.1f} to {100 * high:.1f})"


def path() -> pathlib.Path:
    """The file of this learner's rows, one per stage and seed."""
    return runtime.build_folder() / "results.json"


def rows() -> list[dict]:
    """All rows recorded so far, in the order of the walk; empty without a file."""
    return json.loads(path().read_text()) if path().exists() else []


def record(row: dict) -> None:
    """Adds a row, replacing an earlier one of the same stage and seed.

    The file is replaced in one step, and two notebooks may record at once.

    Args:
      row: `FIELDS`, shares as fractions; `pass1` and `pass8` are None if nothing was
        sampled. More keys are saved as they are. Versions and the machine's load of the
        last 15 minutes are added.
    """
    clean: dict[str, Any] = {
        name: None if row[name] is None else kind(row[name])
        for name, kind in FIELDS.items()
    }
    versions = [f"{name} {metadata.version(name)}" for name in ("jax", "flax", "optax")]
    clean["versions"] = " ".join([*versions, f"python {platform.python_version()}"])
    clean["load"] = round(os.getloadavg()[2], 1)
    clean |= {name: value for name, value in row.items() if name not in FIELDS}
    path().parent.mkdir(parents=True, exist_ok=True)
    with open(path().with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = {(old["stage"], old["seed"]): old for old in rows()}
        table[clean["stage"], clean["seed"]] = clean
        order = [*STAGES, *sorted({stage for stage, _ in table} - STAGES.keys())]
        keys = sorted(table, key=lambda key: (order.index(key[0]), key[1]))
        partial = path().with_suffix(".partial")
        partial.write_text(json.dumps([table[key] for key in keys], indent=1) + "\n")
        os.replace(partial, path())


def markdown(table: list[dict]) -> str:
    """Rows of one run as a Markdown table, as README and `make course` show them."""
    form = "{params:,}|{greedy:.1%}|{low:.1%} – {high:.1%}|{pass1}|{pass8}"
    form += "|{n}|{seconds:.0f}"

    def cells(row):
        shares = {name: row[name] for name in ("pass1", "pass8")}
        texts = {k: "–" if x is None else f"{x:.1%}" for k, x in shares.items()}
        return form.format(**row | texts).split("|")

    lines = [[STAGES.get(row["stage"], row["stage"]), *cells(row)] for row in table]
    head = "stage, parameters, pass@1 (greedy), 95% interval, pass@1 (sampled), pass@8"
    return _markdown("lrrcrrrr", [*head.split(", "), "n", "seconds"], lines)


def real(seeds: Sequence[int] | None = None, **stages: str) -> str:
    """What a model of 135M parameters got right, by real.csv, as Markdown.

    A single run shows its 95% interval, several seeds their range. Where the runs of a
    task had different numbers of problems, each cell gives its own.

    Args:
      seeds: of the runs to show; None shows all.
      stages: stage of `make real` = name of its row. Stages without runs are left out.
    """
    table = [row for row in measured("real") if row["stage"] in stages]
    table = [row for row in table if seeds is None or row["seed"] in seeds]
    tasks = [task for task in TASKS if any(row["task"] == task for row in table)]

    def cell(stage, task):
        of_task = [row for row in table if row["task"] == task]
        runs = [row for row in of_task if row["stage"] == stage]
        text = _span(runs, "greedy")
        if len(runs) == 1:
            low, high = 100 * runs[0]["low"], 100 * runs[0]["high"]
            text = f"{runs[0]['greedy']:.1%} ({low:.1f} to {high:.1f})"
        differ = runs and len({row["n"] for row in of_task}) > 1
        return text + (f" of {runs[0]['n']:,}" if differ else "")

    there = {row["stage"] for row in table}
    names = {stage: name for stage, name in stages.items() if stage in there}
    lines = [[names[x], *(cell(x, task) for task in tasks)] for x in names]
    return _markdown("l" + "r" * len(tasks), ["", *(TASKS[x] for x in tasks)], lines)


def _tpu_fit() -> list[dict]:
    """Rows of tpu_fit.csv by the compiler that has most; others have a few."""
    table = measured("tpu_fit")
    ((most, _),) = collections.Counter(x["versions"] for x in table).most_common(1)
    return [row for row in table if row["versions"] == most]


def compiled(preset: str, **columns) -> str:
    """What a preset's programs need on each chip, as Markdown.

    These are the TPU compiler's estimates in tpu_fit.csv (`make tpu-check`), not
    measurements. The compiler's sum leaves out kernels of Pallas; what they take at
    least stands behind a plus. The share of peak is by the longer of both times.

    Args:
      preset: as in `recipes.PRESETS`, such as "v5e-1".
      columns: choose other programs of the same machine by columns of the table. Bases
        in NF4 are left out unless `trained` names them.
    """
    wanted = {"topology": preset, **columns} if columns else {"preset": preset}
    lines = []
    form = "{tokens:,}|{hbm_percent:.0f}%|{arguments_gb:.2f} GiB"
    form += "|{temporaries_gb:.2f} GiB|{tflop:.1f} TFLOP|{modelled_ms:,.0f}{kernels} ms"
    form += "|{roofline_ms:,.0f} ms|{unpriced_calls:,}|{modelled_peak_percent:.0f}%"
    for row in _tpu_fit():
        matches = all(str(row[name]) == str(value) for name, value in wanted.items())
        if not matches or ("trained" not in wanted and row["trained"].endswith("NF4")):
            continue
        beside = re.sub(r"^(LoRA \d+|all|nothing)?,?\s*", "", row["trained"])
        photos = "with photos" if row["pictures"] == 1 else ""
        program = ", ".join(filter(None, (row["program"], photos, beside)))
        cells = [row["model"].split("/")[-1], program]
        kernels = f" + {row['kernels_ms']:,.0f}" if row["kernels_ms"] else ""
        lines.append([*cells, *form.format(**row, kernels=kernels).split("|")])
    if not lines:
        return f"Not compiled yet for {preset}: `make tpu-check` asks the TPU compiler."
    head = "model, program, tokens, of HBM, arguments, temporaries, work, "
    head += "compiler's sum, roofline, without a price, of peak"
    table = _markdown("ll" + "r" * 9, head.split(", "), lines)
    return f"Modelled by the compiler for {preset}, not measured:\n\n{table}"


def quoted_ms(row: Mapping) -> float:
    """The compiler's sum with kernels, or the roofline where that is longer."""
    priced = float(row["modelled_ms"]) + float(row["kernels_ms"] or 0)
    return max(priced, float(row["roofline_ms"] or 0))


def fits() -> list[dict]:
    """GRPO's updates with adapters in tpu_fit.csv that fit a chip or a host of v5e."""
    return [
        row
        for row in _tpu_fit()
        if row["program"] == "grpo" and row["topology"] in SLICES and row["group"] > 1
        # No recipe places a table on the host or cuts each matrix.
        if re.match("LoRA(?!.*(on the host|each matrix))", row["trained"])
    ]


def choices() -> str:
    """Which model fits which machine, by size, as Markdown.

    A cell is the share of a chip's memory that GRPO's update with adapters takes, or GB
    on a laptop (laptop_fit.csv), with prompts × answers and the tokens of one prompt
    and all its answers. The compilers estimate it; nothing is measured.
    """
    table = fits()

    def cell(model, topology):
        rows = [r for r in table if (r["model"], r["topology"]) == (model, topology)]
        if not rows:
            return "–"
        best = min(rows, key=lambda row: (not row["preset"], row["pictures"] != 0))
        photo = " with a photo" if best["pictures"] else ""
        tokens = f"{best['tokens'] // best['prompts']:,} tokens{photo}"
        share = f"{best['hbm_percent']:.0f}%"
        return f"{share} ({best['prompts']} × {best['group']}, {tokens})"

    lines = []
    for row in sorted(measured("laptop_fit"), key=lambda row: row["parameters"]):
        size = row["parameters"]
        short = f"{size / 1e9:.1f}B" if size >= 9.5e8 else f"{size / 1e6:.0f}M"
        gated = "yes" if row["model"].startswith(GATED) else "no"
        need = row["arguments_gb"] + row["temporaries_gb"]
        laptop = f"{need:.1f} GB ({row['prompts']} × {row['group']})"
        cells = [cell(row["model"], topology) for topology in SLICES]
        lines.append([row["model"], short, gated, *cells, laptop])
    head = ["model", "parameters", "token", *SLICES, "float32 on a laptop"]
    return _markdown("lrl" + "l" * len(SLICES) + "r", head, lines)


def walk(rows: Sequence[Mapping], title: str | None = None) -> Figure:
    """The walk from the base model to the distilled student, as a figure.

    Args:
      rows: as `results.rows()` has them; of several seeds the first is drawn.
      title: defaults to a sentence with the first and the best greedy share.
    """
    first = {row["stage"]: row for row in reversed(rows)}
    in_order = [first[stage] for stage in dict.fromkeys(row["stage"] for row in rows)]
    food = [row for row in in_order if row["stage"].startswith("food_")]
    maths = [row for row in in_order if row not in food]
    shown = maths + food
    best = max(maths or shown, key=lambda row: row["greedy"])
    gain = f"From {shown[0]['greedy']:.0%} to {best['greedy']:.0%}"
    fig, axes = plotting.figure(
        title or f"{gain}: what each stage of post-training adds",
        x="",
        y="test problems solved, %",
        width=9.0 + 0.9 * len(food),
        height=4.2,
    )
    # The other world stands after a gap: its figures are not to be compared.
    places = [i + 0.5 * (i >= len(maths)) for i in range(len(shown))]
    greedy, low, high, pass8 = (
        # Nothing was sampled where pass8 is None: no point is drawn there.
        [np.nan if row[name] is None else 100 * row[name] for row in shown]
        for name in ("greedy", "low", "high", "pass8")
    )
    axes.bar(places, greedy, width=0.55, alpha=0.14, color=plotting.BLUE)
    axes.vlines(places, low, high, linewidth=2.2, color=plotting.BLUE)
    label = "greedy, with 95% interval"
    axes.plot(places, greedy, "o", markersize=7, color=plotting.BLUE, label=label)
    diamond: dict = {"color": plotting.ORANGE, "fillstyle": "none", "markersize": 7}
    axes.plot(places, pass8, "D", label="any of 8 samples (pass@8)", **diamond)
    for x, solved, any_of_8 in zip(places, greedy, pass8, strict=True):
        away = 9, (-4 if any_of_8 - solved > 8 else -9)
        style: dict = {"fontsize": 10, "fontweight": "bold", "color": plotting.BLUE}
        style |= {"xytext": away, "textcoords": "offset points"}
        axes.annotate(f"{solved:.0f}", (x, solved), **style)
    names = [
        f"{STAGES.get(row['stage'], row['stage'])}\n{row['params'] / 1e6:.2f} M"
        for row in shown
    ]
    names = [name.replace(", ", ",\n").replace(" from ", "\nfrom ") for name in names]
    axes.set_xticks(places, names, fontsize=9)
    axes.set(xlim=(-0.5, places[-1] + 0.65), ylim=(0, 119), yticks=range(0, 101, 20))
    for name, world in {"maths": maths, "food": food}.items():
        if world:
            n = ", ".join(sorted({str(row["n"]) for row in world}))
            x = places[shown.index(world[0])] - 0.4
            axes.text(x, 103, f"{name}, n = {n}", fontsize=9, color=plotting.GREY)
    axes.legend(loc="upper left", fontsize=9, frameon=False, ncols=2)
    return fig


def ladder(world: str = "maths", title: str | None = None) -> Figure:
    """What worked solutions buy, and what GRPO adds: the course's first figure.

    Points are means over the seeds of ladder.csv, with bars from the lowest to the
    highest.

    Args:
      world: "maths" or "food".
      title: a sentence that states the finding; None: how many demonstrations SFT
        needs for what GRPO reaches from the fewest.
    """
    points = {
        (method, careless): spread(
            [
                row
                for row in measured("ladder")
                if (row["world"], row["method"]) == (world, method)
                and (row["careless"] > 0) == careless
            ],
            "demonstrations",
            "greedy",
        )
        for method in ("sft", "grpo")
        for careless in (False, True)
    }
    sft, grpo = points["sft", False], points["grpo", False]
    fewest = min(grpo)
    enough = [n for n in sft if sft[n][0] > grpo[fewest][0] - 0.02]
    rival = f"beats SFT with {max(sft):,}"
    if enough:
        rival = f"does what SFT does with {min(enough):,}"
    what = "demonstrations" if world == "maths" else "conversations"
    fig, axes = plotting.figure(
        title or f"GRPO from {fewest} {what} {rival}",
        x=f"{what} (log scale)",
        y="test problems solved, %" if world == "maths" else "conversations right, %",
    )
    axes.set(xscale="log", xlim=(fewest / 1.3, max(sft) * 1.3), ylim=(0, 100))
    axes.set_xticks(sorted(sft), [f"{count:,}" for count in sorted(sft)])
    axes.minorticks_off()
    # Name, colour, line, and where the name stands: at which point, and how far away.
    styles = {
        ("sft", False): ("SFT", plotting.BLUE, "o-", -1, (0, -18)),
        ("sft", True): ("SFT,\n36% careless", plotting.BLUE, "o--", -1, (52, -8)),
        ("grpo", False): ("then GRPO", plotting.ORANGE, "s-", 0, (42, -15)),
        ("grpo", True): ("careless, then GRPO", plotting.ORANGE, "s--", -1, (0, 11)),
    }
    for (method, careless), (name, colour, style, at, away) in styles.items():
        if not (line := points[method, careless]):
            continue
        mean, low, high = 100 * np.array([line[n] for n in sorted(line)]).T
        x = [n * (1.04 if careless else 1) for n in sorted(line)]  # beside the others
        axes.vlines(x, low, high, color=colour, linewidth=1.5)
        fill = "white" if careless else colour
        axes.plot(x, mean, style, color=colour, linewidth=2, markerfacecolor=fill)
        axes.annotate(
            name,
            (x[at], mean[at]),
            xytext=away,
            textcoords="offset points",
            ha="center",
            color=colour,
            fontsize=10,
            fontweight="bold",
        )
    return fig
