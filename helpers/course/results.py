"""The results table of the walk: `build/results.json`, one row per stage and seed."""

import contextlib
import csv
import fcntl
import json
import math
import numbers
import os
import pathlib
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata

from helpers import runtime
from helpers.course.syllabus import STAGES

# Figures are fractions of 1; low and high are the 95% interval of `greedy`.
FIELDS = {
    "stage": str,
    "params": int,
    "greedy": float,
    "pass1": float,
    "pass8": float,
    "low": float,
    "high": float,
    "n": int,
    "seed": int,
    "seconds": float,
}
_KEPT = runtime.ROOT / "data" / "results"
LEARNING = _KEPT / "learning.csv"
TPU_FIT = _KEPT / "tpu_fit.csv"
LABELS = _KEPT / "labels.csv"
REAL = _KEPT / "real.csv"
TASKS = {  # of that file
    "one_step": "one step",
    "two_step": "two steps",
    "three_step": "three steps",
    "gsm8k": "GSM8K",
}


def path() -> pathlib.Path:
    """The file the rows are in."""
    return runtime.build_folder() / "results.json"


def rows() -> list[dict]:
    """All rows recorded so far, in the order of the walk; empty when there is no file.

    Raises:
      ValueError: the file is not what this module writes.
    """
    try:
        return json.loads(path().read_text())
    except FileNotFoundError:
        return []
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path()} is not valid JSON ({error}). Delete it and run `make course`."
        ) from error


def record(row: dict) -> None:
    """Add one row, replacing an earlier one of the same stage and seed.

    The file is replaced in one step, so a reader or a kill never sees half of it, and
    two notebooks that record at once both keep their row.

    Args:
      row: the keys of `FIELDS`, figures as fractions; more keys are kept as they are.
        The versions and the load (15 minutes) of the machine are added.
    Raises:
      ValueError: a field is missing, of the wrong type, or not a fraction.
    """
    made = {"versions": _versions(), "load": round(os.getloadavg()[2], 1)}
    more = {name: value for name, value in row.items() if name not in FIELDS}
    clean = _checked(row) | made | more
    with _lock():
        same = (clean["stage"], clean["seed"])
        kept = [old for old in rows() if (old["stage"], old["seed"]) != same]
        table = sorted([*kept, clean], key=_order)
        aside = path().with_suffix(".partial")
        aside.write_text(json.dumps(table, indent=1) + "\n")
        os.replace(aside, path())


def markdown(table: list[dict]) -> str:
    """The rows as a Markdown table, as README and `make course` show them."""
    lines = [
        "| stage | parameters | pass@1 (greedy) | 95% interval "
        "| pass@1 (sampled) | pass@8 | n | seconds |",
        "|---|--:|--:|:-:|--:|--:|--:|--:|",
    ]
    for row in table:
        name = STAGES.get(row["stage"], row["stage"])
        lines.append(
            f"| {name} | {row['params']:,} | {row['greedy']:.1%} "
            f"| {row['low']:.1%} – {row['high']:.1%} | {row['pass1']:.1%} "
            f"| {row['pass8']:.1%} | {row['n']} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines)


def across_seeds(*stages: str) -> str:
    """Three seeds beside your run, as a Markdown table.

    The seeds are those of data/results/learning.csv (`make seeds`): mean, and lowest to
    highest. Your run is the row of `rows()` with the seed of this run.

    Args:
      stages: names as in `STAGES`.
    """
    if not LEARNING.exists():
        return "Not measured yet: `make seeds` runs three seeds."
    with open(LEARNING, newline="") as file:
        measured = list(csv.DictReader(file))
    lines = [
        "| stage | seeds | pass@1 (greedy) | your run | pass@1 (sampled) | pass@8 |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    own = [row for row in rows() if row["seed"] == runtime.seed()]
    for stage in stages:
        runs = [row for row in measured if row["stage"] == stage]
        yours = [f"{row['greedy']:.1%}" for row in own if row["stage"] == stage]
        spans = {}
        for name in ("greedy", "pass1", "pass8"):
            values = [float(row[name]) for row in runs]
            low, high = 100 * min(values, default=0), 100 * max(values, default=0)
            mean = sum(values) / max(len(values), 1)
            spans[name] = f"{mean:.1%} ({low:.1f} to {high:.1f})" if values else "–"
        lines.append(
            f"| {STAGES[stage]} | {len(runs)} | {spans['greedy']} "
            f"| {yours[0] if yours else '–'} | {spans['pass1']} | {spans['pass8']} |"
        )
    return "\n".join(lines)


def labels_by_compute() -> list[dict]:
    """What compute buys in perfect labels: rows with `cpu_seconds` and `greedy`.

    Means over the seeds of data/results/labels.csv (`python -m scripts.labels_curve`),
    one row per stop of these runs, the first before any training.
    """
    stops: dict[int, list] = {}
    with open(LABELS, newline="") as file:
        for row in csv.DictReader(file):
            pair = float(row["cpu_seconds"]), float(row["greedy"])
            stops.setdefault(int(row["step"]), []).append(pair)
    return [
        {
            "step": step,
            "cpu_seconds": sum(seconds for seconds, _ in pairs) / len(pairs),
            "greedy": sum(greedy for _, greedy in pairs) / len(pairs),
        }
        for step, pairs in sorted(stops.items())
    ]


def real(seeds: Sequence[int] | None = None, **stages: str) -> str:
    """What a model of 135M parameters got right, as a Markdown table.

    In a cell: the share, and in brackets its 95% interval; of several seeds the mean,
    and lowest to highest. Where a column's cells are of unlike numbers of problems,
    each says of how many.

    Args:
      seeds: those of the runs to show; None: all.
      stages: a stage of `make real` = what its row is called. A stage that was not
        measured has no row.
    """
    with open(REAL, newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["stage"] in stages]
    if seeds is not None:
        measured = [row for row in measured if int(row["seed"]) in seeds]
    tasks = [task for task in TASKS if any(row["task"] == task for row in measured)]
    unlike = {t: len({r["n"] for r in measured if r["task"] == t}) > 1 for t in tasks}
    lines = [["", *(TASKS[task] for task in tasks)], ["---", *["--:" for _ in tasks]]]
    for stage, name in stages.items():
        own = [row for row in measured if row["stage"] == stage]
        cells = [
            _share([row for row in own if row["task"] == task], unlike[task])
            for task in tasks
        ]
        if own:
            lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _share(rows, tell_count):
    if not rows:
        return "–"
    shares = [float(row["greedy"]) for row in rows]
    low, high = min(shares), max(shares)
    if len(rows) == 1:
        low, high = float(rows[0]["low"]), float(rows[0]["high"])
    mean = sum(shares) / len(shares)
    count = f" of {int(rows[0]['n']):,}" if tell_count else ""
    return f"{mean:.1%} ({100 * low:.1f} to {100 * high:.1f}){count}"


def compiled(preset: str, **columns) -> str:
    """What a preset's programs ask of each chip, as a Markdown table.

    The TPU compiler's words, not measurements: data/results/tpu_fit.csv
    (`make tpu-check`). Time is a pair, the compiler's own sum and what products and
    bytes take at least; the share of peak is by the longer one. Behind a + stands what
    kernels of Pallas take at least, which the sum leaves out. "–": of a row from before
    it was asked for.

    Args:
      preset: as in `recipes.PRESETS`, such as "v5e-1".
      columns: for other programs on the same machine, what their rows hold, such as
        model="google/gemma-3-4b-it", prompts=16; those beside a frozen base in NF4
        are left out unless `trained` names them.
    """
    wanted = {"topology": preset, **columns} if columns else {"preset": preset}
    if not TPU_FIT.exists():
        return (
            "Not compiled yet: `make tpu-check` asks the TPU compiler, without a TPU."
        )
    with open(TPU_FIT, newline="") as file:
        programs = [
            row
            for row in csv.DictReader(file)
            if all(row[name] == str(value) for name, value in wanted.items())
            and ("trained" in wanted or not row.get("trained", "").endswith("on NF4"))
        ]
    if not programs:
        return f"Not compiled yet for {preset}: `make tpu-check` asks the TPU compiler."
    # Colab's older compiler was asked too (`make tpu-floor`); the newest stands first.
    newest = programs[0].get("versions")
    programs = [row for row in programs if row.get("versions") == newest]
    lines = [
        f"Modelled by the compiler for {preset}, not measured:",
        "",
        "| model | program | tokens | of HBM | arguments | temporaries | work "
        "| compiler's sum | roofline | without a price | of peak |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in programs:
        name = row["model"].split("/")[-1]
        if not row["hbm_percent"]:
            lines.append(f"| {name} | {_told(row)} | does not fit |{' |' * 8}")
            continue
        cells = (
            name,
            _told(row),
            f"{int(row['tokens']):,}",
            f"{float(row['hbm_percent']):.0f}%",
            f"{float(row['arguments_gb']):.2f} GiB",
            f"{float(row['temporaries_gb']):.2f} GiB",
            f"{float(row['tflop']):.1f} TFLOP",
            _sum(row),
            _known(row, "roofline_ms", " ms"),
            _known(row, "unpriced_calls", ""),
            f"{float(row['modelled_peak_percent']):.0f}%",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _told(row):
    """A program, with what its row has besides: photos, and where its weights are."""
    beside = re.sub(r"^(LoRA \d+|all|nothing)?,?\s*", "", row.get("trained", ""))
    photos = "with photos" if row.get("pictures") == "1" else ""
    return ", ".join(filter(None, (row["program"], photos, beside)))


def _known(row, column, unit):
    """A cell of a column that older rows lack."""
    return f"{float(row[column]):,.0f}{unit}" if row.get(column) else "–"


def _sum(row):
    """The compiler's sum, and behind it what kernels take that it leaves out."""
    kernels = float(row.get("kernels_ms") or 0)
    added = f" + {kernels:,.0f}" if kernels else ""
    return _known(row, "modelled_ms", f"{added} ms")


def quoted_ms(row: dict) -> float:
    """The compiler's sum and kernels, or the roofline where that is longer."""
    priced = float(row["modelled_ms"]) + float(row.get("kernels_ms") or 0)
    return max(priced, float(row.get("roofline_ms") or 0))


def _checked(row: dict) -> dict:
    clean = {}
    for field, kind in FIELDS.items():
        if field not in row:
            raise ValueError(f"A results row needs {field!r}; it has {sorted(row)}.")
        value = row[field]
        number = isinstance(value, numbers.Real) and math.isfinite(value)
        if kind is not str and not number:
            raise ValueError(f"{field} of the stage {row['stage']!r} is {value}.")
        clean[field] = kind(value)
    for field in ("greedy", "pass1", "pass8", "low", "high"):
        if not 0 <= clean[field] <= 1:
            raise ValueError(
                f"{field} = {clean[field]} of the stage {clean['stage']!r} is not a "
                "fraction between 0 and 1; divide percentages by 100."
            )
    return clean


def _versions() -> str:
    packages = ("jax", "flax", "optax")
    found = [f"{name} {metadata.version(name)}" for name in packages]
    return " ".join([*found, f"python {platform.python_version()}"])


def _order(row: dict) -> tuple:
    known = list(STAGES)
    stage = row["stage"]
    return (known.index(stage) if stage in known else len(known), stage, row["seed"])


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    path().parent.mkdir(parents=True, exist_ok=True)
    with open(path().with_suffix(".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
