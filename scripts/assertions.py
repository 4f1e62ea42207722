"""How far the notebooks' assertions stand from their bounds, over several seeds.

    python -m scripts.assertions --seeds 0 1 2 3 4 [--notebooks 04 07]
    python -m scripts.assertions --report        print what stands near its bound

It runs the notebooks of the walk as `make course` does, each seed in a build folder of
its own (build/assertions/<seed>), one notebook at a time and with the lowest priority;
a seed takes about as long as `make course`. Assertions are recorded instead of raised
(scripts/recording.py), so that a run goes on. After every notebook the tables are
written:

    data/results/assertions.csv   one row per comparison and seed, with its margin
    data/results/learning.csv     what was learned, of the seeds that are quoted

Stopped and started again it goes on where it was: a notebook that ran, with the same
code, data and stages before it, is not run again. At the end, the assertions that stand
nearest to their bounds are printed.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

from scripts import recording, seeds, tables

ROOT = recording.ROOT
sys.path.insert(0, str(ROOT / "notebooks"))

import publish  # noqa: E402
import walk  # noqa: E402

from helpers.course.syllabus import LESSONS  # noqa: E402

TABLE = ROOT / "data" / "results" / "assertions.csv"
WORK = ROOT / "build" / "assertions"
WALK = tuple(number for number, row in LESSONS.items() if row.walk)
WHERE = ("notebook", "cell", "assertion", "seed")
FIELDS = (*WHERE, "held", "value", "bound", "margin", "relative_margin")


def records_of(seed: int, number: str) -> pathlib.Path:
    """Where a notebook's assertions are recorded while it runs."""
    return WORK / str(seed) / "records" / f"{number}.jsonl"


def walk_seed(seed: int, numbers) -> list[str]:
    """Run these notebooks with a seed, those done already excepted.

    Returns:
      The numbers of the notebooks that ended with an error.
    """
    os.environ["COURSE_BUILD"] = str(WORK / str(seed))
    os.environ["COURSE_SEED"] = str(seed)
    os.environ["COURSE_PRESET"] = "laptop"
    publish.prepare_environment()
    failed, base = [], walk.fingerprint()
    for number in numbers:
        records = records_of(seed, number)
        if not records.exists():
            walk.Copy(LESSONS[number].file).forget()
        try:
            walk.run(
                number,
                base,
                lambda notebook, to=records: recording.rewrite(notebook, to),
            )
        except walk.NotebookFailed as error:
            print(error, file=sys.stderr, flush=True)
            failed.append(number)
            continue
        add(rows_of(seed, number))
        if seed in seeds.SEEDS:
            seeds.add(seeds.rows_of(WORK / str(seed), seed))
    return failed


def rows_of(seed: int, number: str) -> list[dict]:
    """The recorded comparisons of one notebook, each as it stood nearest to its bound.

    An assertion in a loop is recorded many times; the row is the worst of them.
    """
    worst = {}
    for line in records_of(seed, number).read_text().splitlines():
        record = json.loads(line) | {"notebook": number, "seed": seed}
        place = tuple(record[name] for name in WHERE)
        if place not in worst or _nearness(record) < _nearness(worst[place]):
            worst[place] = record
    for row in worst.values():
        bound, margin = row["bound"], row["margin"]
        row["relative_margin"] = margin / abs(bound) if bound else None
    return list(worst.values())


def _nearness(record):
    """Sorts what did not hold first, then by the margin."""
    margin = record["margin"]
    return record["held"], 0.0 if margin is None else margin


def add(rows: list[dict]) -> None:
    """Put rows into the table; older ones of the same notebook and seed go.

    The file is replaced in one step.
    """
    fresh = {(row["notebook"], str(row["seed"])) for row in rows}
    kept = [r for r in read() if (r["notebook"], r["seed"]) not in fresh]
    text = [{name: _written(row[name]) for name in FIELDS} for row in rows]
    table = sorted(
        [*kept, *text],
        key=lambda r: (r["notebook"], int(r["cell"]), r["assertion"], int(r["seed"])),
    )
    tables.write(TABLE, table, FIELDS)


def read() -> list[dict]:
    """The rows of the table as text; none before the first run."""
    return tables.read(TABLE)


def _written(value) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def nearest(table: list[dict]) -> list[tuple]:
    """Assertions by how near they stand: (distance, worst row, seeds), nearest first.

    The distance is the mean margin over the seeds in units of its standard deviation
    between them, -inf where one did not hold. What came out the same for all seeds does
    not depend on luck, and is left out.
    """
    places = {}
    for row in table:
        place = (row["notebook"], row["cell"], row["assertion"])
        places.setdefault(place, []).append(row)
    found = []
    for rows in places.values():
        margins = [float(row["margin"]) for row in rows if row["margin"]]
        if any(row["held"] != "True" for row in rows):
            distance = -float("inf")
        elif len(margins) > 1 and len(set(margins)) > 1:
            distance = statistics.mean(margins) / statistics.stdev(margins)
        else:
            continue
        worst = min(rows, key=lambda r: (r["held"], float(r["margin"] or 0)))
        found.append((distance, worst, len(rows)))
    return sorted(found, key=lambda entry: entry[0])


def tight(table: list[dict], share: float = 0.05) -> list[dict]:
    """Rows that hold by less than this share of their bound, equalities left out.

    Another machine's rounding may cross such a bound, also where no seed does.
    """
    return [
        row
        for row in table
        if row["relative_margin"] and 0 < float(row["relative_margin"]) < share
    ]


def report(table: list[dict], most: int = 15) -> None:
    """Print the assertions nearest to their bounds, those that did not hold first."""
    print("\nNearest to their bounds (mean margin / its deviation between seeds):")
    for distance, row, number in nearest(table)[:most]:
        said = "DID NOT HOLD" if row["held"] != "True" else f"{distance:.1f} deviations"
        print(
            f"  {row['notebook']} cell {row['cell']}: {row['assertion']}\n"
            f"      {said} over {number} seeds; worst in seed {row['seed']}: "
            f"{row['value']} against {row['bound']}"
        )
    print("\nWithin 5% of their bounds, in any seed:")
    for row in tight(table):
        print(
            f"  {row['notebook']} cell {row['cell']}, seed {row['seed']}: "
            f"{row['assertion']}: {row['value']} against {row['bound']}"
        )


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(seeds.SEEDS))
    parser.add_argument("--notebooks", nargs="+", choices=WALK, default=list(WALK))
    parser.add_argument("--report", action="store_true", help="only print the table's")
    options = parser.parse_args()
    if options.report:
        report(read())
        return
    os.nice(19)  # kernels started from here inherit it
    failed = []
    for seed in options.seeds:
        print(f"seed {seed}:", flush=True)
        for number in walk_seed(seed, sorted(options.notebooks)):
            failed.append(f"{number} with seed {seed}")
    report(read())
    if failed:
        sys.exit(f"Ended with an error of their own: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
