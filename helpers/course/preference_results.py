"""What notebook 08b measured of its methods: rows of one run, and a table of seeds."""

import csv
import json

from helpers import runtime

TABLE = runtime.ROOT / "data" / "results" / "preferences.csv"
FIELDS = "method seed greedy low high names_kept n seconds".split()


def keep(rows: list[dict]) -> None:
    """Keeps the rows of this run, for `python -m scripts.preferences` to collect.

    Args:
      rows: one dict for each method: method, seed, greedy with its interval low and
        high, names_kept (fractions of 1), n, seconds (of training, in CPU-seconds).

    Raises:
      ValueError: a row has other entries, or a share is none.
    """
    for row in rows:
        if list(row) != FIELDS:
            raise ValueError(f"A row has {', '.join(row)}; give {', '.join(FIELDS)}.")
        for name in ("greedy", "low", "high", "names_kept"):
            if not 0 <= row[name] <= 1:
                raise ValueError(
                    f"{name} = {row[name]} of {row['method']} is no share."
                )
    path = runtime.build_folder() / "preferences.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))


def across_seeds() -> str:
    """The methods over the seeds of data/results/preferences.csv, as Markdown.

    In a cell: the mean, and in brackets lowest to highest.
    """
    if not TABLE.exists():
        return "Not measured yet: `python -m scripts.preferences` runs three seeds."
    with open(TABLE, newline="") as file:
        measured = list(csv.DictReader(file))
    lines = [
        "| method | seeds | right, greedy | names kept | CPU-seconds |",
        "|---|--:|--:|--:|--:|",
    ]
    for method in dict.fromkeys(row["method"] for row in measured):
        runs = [row for row in measured if row["method"] == method]
        spent = sum(float(row["seconds"]) for row in runs) / len(runs)
        lines.append(
            f"| {method} | {len(runs)} | {_span(runs, 'greedy')} "
            f"| {_span(runs, 'names_kept')} | {spent:.0f} |"
        )
    return "\n".join(lines)


def _span(runs, name):
    shares = [float(row[name]) for row in runs]
    mean, low, high = sum(shares) / len(shares), 100 * min(shares), 100 * max(shares)
    return f"{mean:.1%} ({low:.1f} to {high:.1f})"
