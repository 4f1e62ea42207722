"""A course of one small notebook, and students' files of it, for tests of grading."""

import json

from scripts import grade

IMPORTS = "import numpy as np\n\nfrom helpers.exercises import template as checks"
STUBS = (
    "guess = None  # your turn",
    "def group_advantages(rewards_PG):\n    raise NotImplementedError  # your turn",
    "rewards_G = [1.0, 0.0]  # your turn",
)
CHECKS = (
    "checks.check_guess(guess)",
    "checks.check_group_advantages(group_advantages)",
    "checks.check_negative_for_right(rewards_G)",
)
RIGHT = (
    "guess = 1",
    "def group_advantages(rewards_PG):\n"
    "    return rewards_PG - rewards_PG.mean(axis=1, keepdims=True)",
    "rewards_G = [1.0, 3.0]",
)
LIMITS = {"seconds": 10.0, "gigabytes": 0.75, "start": 60.0}
ALL_RIGHT = ["right"] * 3


def notebook(answers=STUBS, imports=IMPORTS) -> dict:
    """The notebook with these answers in its three exercises, as JSON."""
    found = [cell("markdown", "# 07 · Toy"), cell("code", imports, "imports")]
    for number, (answer, check) in enumerate(zip(answers, CHECKS, strict=True), 1):
        found.append(cell("markdown", f"### Exercise {number} · toy {number}"))
        found += [cell("code", answer, "exercise"), cell("code", check, "check")]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": found}


def cell(kind, source, *tags):
    """A cell of a notebook, as JSON."""
    return {"cell_type": kind, "source": source, "metadata": {"tags": list(tags)}}


def course(folder):
    """The toy course, in a folder; gives that folder."""
    (folder / "course").mkdir()
    (folder / "course" / "07_toy.ipynb").write_text(json.dumps(notebook()))
    return folder / "course"


def results(folder, answers, *, imports=IMPORTS, **limits):
    """(results, messages) of a student's file with these answers."""
    if not (folder / "course").exists():
        course(folder)
    path = folder / "07_toy.ipynb"
    path.write_text(json.dumps(notebook(answers, imports)))
    return results_of(folder, path, **limits)


def results_of(folder, path, **limits):
    """(results, messages) of a file."""
    made, _ = grade.graded(path, folder, folder / "course", LIMITS | limits)
    return [row["result"] for row in made], [row["message"] for row in made]
