"""Self-checks of notebook 00: where it runs, a broken cell, and where work is saved."""

import contextlib
import os
import pathlib

import jax
import numpy as np

from helpers import runtime
from helpers.exercises.check import Check, check_properties, filled
from helpers.recipes import presets

DRIVE = pathlib.Path("/content/drive/MyDrive")


def check_here(here) -> Check:
    """Where this notebook runs, and which presets other machines get."""
    truth = {
        "place": runtime.where(),
        "platform": jax.devices()[0].platform,
        "preset": presets.preset().name,
        "preset with 1 chip": "v5e-1",
        "preset with 8 chips": "v5e-8",
    }
    hints = {
        "place": "name the place: colab, kaggle or laptop (anything else)",
        "platform": "name the kind of device that JAX computes on, as printed above",
        "preset": "name the preset that the banner says is in force",
        "preset with 1 chip": "name the preset of one TPU chip, as on Colab",
        "preset with 8 chips": "name the preset of eight TPU chips, as on Kaggle",
    }
    properties = {
        "keep the five keys": lambda: set(here) == set(truth),
        "be filled in": lambda: filled(*here.values(), what="a short text")(),
    }
    for key, hint in hints.items():
        properties[hint] = lambda key=key: here[key] == truth[key]
    return check_properties(properties)


def check_scores(answer) -> Check:
    """The scores of a vocabulary: a product whose inner sizes agree."""
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


def check_drive(environment) -> Check:
    """Where runs go when the course is told to save on Google Drive."""

    def run_folder():
        with _environment(environment):
            return runtime.run_folder("sft")

    properties = {
        "be filled in": filled(environment, what="a dict of one entry"),
        "have one entry, named like the variable that the course reads": lambda: (
            list(environment) == ["COURSE_BUILD"]
        ),
        "be a whole path, from / on, without spaces around it": lambda: all(
            path == path.strip() and path[0] == "/" for path in environment.values()
        ),
        "put the runs under /content/drive/MyDrive, which outlives the machine": (
            lambda: DRIVE in run_folder().parents
        ),
        "have a folder of its own there": lambda: run_folder().parents[1] != DRIVE,
    }
    return check_properties(properties)


@contextlib.contextmanager
def _environment(changes):
    """The process's environment with these changes, put back afterwards."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
