"""Self-checks of notebook 00: where work is saved, and a broken cell."""

import os
import pathlib
from unittest import mock

import numpy as np

from helpers import runtime
from helpers.exercises.check import Check, check_properties, filled

DRIVE = pathlib.Path("/content/drive/MyDrive")


def check_drive(environment) -> Check:
    """Where runs go when the course is told to save on Google Drive."""

    def folder():
        with mock.patch.dict(os.environ, environment):
            return runtime.run_folder("sft")

    properties = {
        "be filled in": filled(environment, what="a dict of one entry"),
        "have one entry, named like the variable that the course reads": lambda: (
            list(environment) == ["COURSE_BUILD"]
        ),
        "put the runs under /content/drive/MyDrive, which outlives the machine": (
            lambda: DRIVE in folder().parents
        ),
        "have a folder of its own there": lambda: folder().parents[1] != DRIVE,
    }
    return check_properties(properties)


def check_scores(answer) -> Check:
    """The scores of a vocabulary: a matmul whose inner sizes agree."""
    rng = np.random.default_rng(0)
    sizes = [(2, 4, 3), (2, 3, 3), (4, 4, 4), (5, 2, 4)]  # T, V, D; some are square
    cases = [(rng.normal(size=(T, D)), rng.normal(size=(V, D))) for T, V, D in sizes]
    properties = {
        "give one score per token and word, shape (2, 4)": lambda: (
            answer(*cases[0]).shape == (2, 4)
        ),
        "be the product of each token's row with each word's row": cases[:1],
        "work for other sizes, also for as many words as numbers": cases,
    }
    return check_properties(properties, answer, lambda h, t: h @ t.T, 1e-4)
