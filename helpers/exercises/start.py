"""Self-checks of notebook 00: where it runs, a broken cell, and where work is saved."""

import contextlib
import os
import pathlib

import jax
import numpy as np

from helpers import runtime
from helpers.exercises.check import Check, check_properties, filled, leaves_alone
from helpers.recipes import presets

DRIVE = pathlib.Path("/content/drive/MyDrive")
_SIZES = ((4, 4), (1, 6), (5, 2))  # tokens and words of further tables of width 4


def check_here(here) -> Check:
    """Where this notebook runs, read off its banner; and what a switch would change."""
    known = ("place", "platform", "preset", "preset with 1 chip", "preset with 8 chips")
    return check_properties(
        ("keep the five keys", lambda: set(here) == set(known)),
        ("be filled in", lambda: filled(*here.values(), what="a short text")()),
        (
            "name the place: colab, kaggle or laptop (anything else)",
            lambda: here["place"] == runtime.where(),
        ),
        (
            "name the kind of device that JAX computes on, as it is printed above",
            lambda: here["platform"] == jax.devices()[0].platform,
        ),
        (
            "name the preset that the banner says is in force",
            lambda: here["preset"] == presets.preset().name,
        ),
        (
            "name the preset of one TPU chip, as on Colab",
            lambda: here["preset with 1 chip"] == "v5e-1",
        ),
        (
            "name the preset of eight TPU chips, as on Kaggle",
            lambda: here["preset with 8 chips"] == "v5e-8",
        ),
    )


def check_scores(answer) -> Check:
    """The scores of a vocabulary: a product whose inner sizes agree."""
    hidden_TD = np.arange(6.0).reshape(2, 3)
    table_VD = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    rng = np.random.default_rng(0)
    others = [(rng.normal(size=(T, 4)), rng.normal(size=(V, 4))) for T, V in _SIZES]

    def right(hidden, table):
        truth = [[sum(row * word) for word in table] for row in hidden]
        found = answer(hidden.copy(), table.copy())
        return np.allclose(found, truth, rtol=1e-4, atol=1e-5)

    return check_properties(
        (
            "give one score per token and word, shape (2, 4)",
            lambda: answer(hidden_TD.copy(), table_VD.copy()).shape == (2, 4),
        ),
        (
            "be the product of each token's row with each word's row",
            lambda: right(hidden_TD, table_VD),
        ),
        (
            "work for a table of as many words as numbers, too",
            lambda: right(hidden_TD, table_VD[:3]),
        ),
        (
            "work for other numbers and sizes, square ones too",
            lambda: all(right(*pair) for pair in others),
        ),
        (
            "leave both as they are",
            lambda: leaves_alone(answer, hidden_TD, table_VD),
        ),
    )


def check_drive(environment) -> Check:
    """Where runs go when the course is told to save on Google Drive."""

    def run_folder():
        with _environment(environment):
            return runtime.run_folder("sft")

    return check_properties(
        ("be filled in", filled(environment, what="a dict of one entry")),
        ("be a dict of one entry", lambda: len(dict(environment)) == 1),
        (
            "name the variable that the course reads",
            lambda: list(environment) == ["COURSE_BUILD"],
        ),
        (
            "be a whole path, from / on",
            lambda: next(iter(environment.values())).startswith("/"),
        ),
        (
            "have no spaces around the path: they would be part of its name",
            lambda: all(path == path.strip() for path in environment.values()),
        ),
        (
            "put the runs under /content/drive/MyDrive, which outlives the machine",
            lambda: DRIVE in run_folder().parents,
        ),
        (
            "keep the course in a folder of its own there",
            lambda: run_folder().parents[1] != DRIVE,
        ),
    )


@contextlib.contextmanager
def _environment(changes):
    """The process's environment with these changes, put back afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
