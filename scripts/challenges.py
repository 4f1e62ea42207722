"""The course's best attempts at its challenges, into `data/results/challenges.csv`.

    python -m scripts.challenges [--notebooks 07 09 11] [--seeds 0 1 2]

An attempt is the code that is folded under a notebook's challenge, as it stands there.
It runs with the imports of the notebook, with each seed, from the shipped models, and
the notebook's own cell judges it. What the table has already is not run again unless
asked for by `--again`. Once a notebook has all three seeds, the sentence that states
them is written into its folded text, in the place of the old one, and its line into
docs/teaching.md.
"""

import argparse
import os
import pathlib
import re
import textwrap
import time
from typing import NamedTuple

import nbformat

from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "challenges.csv"
TEACHING = ROOT / "docs" / "teaching.md"
BEGIN, END = "<!-- challenges -->", "<!-- /challenges -->"
SEEDS = (0, 1, 2)
FIELDS = ("notebook", "seed", "reached", "to_beat", "spent", "budget", "cpu_seconds")
BUDGETS = {  # what the numbers count
    "04": "demonstrations",
    "05": "gold answers",
    "07": "scored answers",
    "08": "scored answers",
    "08b": "judged answers",
    "09": "demonstrations",
    "10": "scored conversations",
    "11": "questions without answers",
    "15": "labelled answers",
}
STATED = r"It reached [^<]*? of [\d,]+\."
FOLDED = r"<details><summary>The course's best attempt</summary>(.*?)</details>"


class Challenge(NamedTuple):
    """The challenge of one notebook, as source.

    Attributes:
      imports: the cell of imports.
      stub: what the learner replaces.
      check: the cell that judges it, one expression.
      told: what is folded behind it, in words and code.
      attempt: the code of it.
    """

    imports: str
    stub: str
    check: str
    told: str
    attempt: str


def challenges() -> dict[str, Challenge]:
    """Every notebook's challenge by the notebook's number, where there is one.

    Raises:
      ValueError: a notebook has a stub without a cell that judges it right after, or
        not exactly one attempt folded behind.
    """
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        tags = [cell.metadata.get("tags", []) for cell in cells]
        for i, own in enumerate(tags):
            if "challenge" in own:
                found[path.name.partition("_")[0]] = _read(path.name, cells, tags, i)
    return found


def _read(name, cells, tags, place):
    (imports,) = (
        cell.source for cell, own in zip(cells, tags, strict=True) if "imports" in own
    )
    check, behind = cells[place + 1 : place + 3]
    told = re.findall(FOLDED, behind.source, re.DOTALL)
    code = re.findall(r"```python\n(.*?)```", "".join(told), re.DOTALL)
    if "challenge-check" not in tags[place + 1] or len(told) != 1 or len(code) != 1:
        raise ValueError(
            f"{name} has a challenge without its check right after it, or without one "
            "attempt folded behind the check."
        )
    return Challenge(imports, cells[place].source, check.source, told[0], code[0])


def judged(challenge: Challenge, answer: str, seed: int):
    """The outcome of an answer in place of the stub, a `challenge.Outcome`."""
    names: dict = {"__name__": "__main__"}
    exec(challenge.imports, names)
    names["seed"] = seed
    exec(answer, names)
    return eval(challenge.check, names)


def row(number: str, seed: int, outcome, cpu_seconds: float) -> dict[str, str]:
    """A line of the table.

    Raises:
      ValueError: the attempt failed: it is no best attempt.
    """
    if not outcome.passed:
        raise ValueError(f"Notebook {number}, seed {seed}: {outcome.message}")
    shown = {name: getattr(outcome, name) for name in FIELDS[2:6]}
    shown["reached"] = round(outcome.reached, 4)
    shown |= {"notebook": number, "seed": seed, "cpu_seconds": round(cpu_seconds)}
    return {name: str(shown[name]) for name in FIELDS}


def read() -> list[dict[str, str]]:
    """The rows of the table so far."""
    return tables.read(TABLE)


def write(fresh: dict[str, str]) -> None:
    """Puts a row into the table, in the place of an older one of the same run."""
    runs = {(old["notebook"], old["seed"]): old for old in [*read(), fresh]}
    tables.write(TABLE, [runs[key] for key in sorted(runs)], FIELDS)


def sentence(rows: list[dict]) -> str:
    """What the table says of one notebook's attempt, as its text has to state it."""
    reached = [f"{float(row['reached']):.1%}" for row in rows]
    spent = " and ".join(dict.fromkeys(f"{int(row['spent']):,}" for row in rows))
    return (
        f"It reached {', '.join(reached[:-1])} and {reached[-1]} with seeds 0, 1 and 2,"
        f" and spent {spent} of {int(rows[0]['budget']):,}."
    )


def tell(number: str) -> None:
    """Writes a notebook's sentence anew from the table.

    Raises:
      ValueError: the folded text has not exactly one such sentence.
    """
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if re.search(FOLDED, cell.source, re.DOTALL):
            told = sentence([old for old in read() if old["notebook"] == number])
            parts = cell.source.split("\n\n")
            lines = [" ".join(part.split()) for part in parts]
            (place,) = (i for i, line in enumerate(lines) if re.search(STATED, line))
            words = re.sub(STATED, told, lines[place])
            parts[place] = textwrap.fill(words, 88, break_on_hyphens=False)
            cell.source = "\n\n".join(parts)
    nbformat.write(notebook, path)


def homework(rows: list[dict]) -> str:
    """The challenges as a table for teachers, in Markdown."""
    lines = [
        "| notebook | budget | beat | the course's own attempt, three seeds | CPU-s |",
        "|---|---|--:|---|--:|",
    ]
    for number in dict.fromkeys(row["notebook"] for row in rows):
        own = [row for row in rows if row["notebook"] == number]
        reached = ", ".join(f"{100 * float(row['reached']):.1f}" for row in own)
        longest = max(int(row["cpu_seconds"]) for row in own)
        budget = f"{int(own[0]['budget']):,} {BUDGETS[number]}"
        beat = f"{float(own[0]['to_beat']):.0%}"
        lines.append(f"| {number} | {budget} | {beat} | {reached}% | {longest} |")
    return "\n".join(lines)


def teach() -> None:
    """Writes the table of docs/teaching.md anew."""
    before, rest = TEACHING.read_text().split(BEGIN)
    after = rest.split(END)[1]
    TEACHING.write_text(f"{before}{BEGIN}\n{homework(read())}\n{END}{after}")


def main():
    """Runs what the command line asks for and the table lacks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    there = challenges()
    parser.add_argument("--notebooks", nargs="+", choices=there, default=list(there))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--again", action="store_true", help="also what is there")
    given = parser.parse_args()
    os.environ["COURSE_BUILD"] = str(ROOT / "build" / "challenges")  # shipped models
    for number in given.notebooks:
        for seed in given.seeds:
            have = {(old["notebook"], old["seed"]) for old in read()}
            if (number, str(seed)) in have and not given.again:
                continue
            print(f"Notebook {number}, seed {seed}", flush=True)
            started = time.process_time()
            outcome = judged(there[number], there[number].attempt, seed)
            write(row(number, seed, outcome, time.process_time() - started))
        if {(number, str(seed)) for seed in SEEDS} <= {
            (old["notebook"], old["seed"]) for old in read()
        }:
            tell(number)
    teach()


if __name__ == "__main__":
    main()
