"""Self-checks of notebook 00: where it runs, a broken cell, and where work is saved."""

import os
import pathlib
from unittest import mock

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
    properties = {
        "keep the five keys": lambda: set(here) == set(truth),
        "be filled in": filled(here, what="a short text"),
    }
    for key, name in truth.items():
        phrase = f"give the right {key}, as the cells above print or say it"
        properties[phrase] = lambda key=key, name=name: here[key] == name
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
        with mock.patch.dict(os.environ, environment):
            return runtime.run_folder("sft")

    properties = {
        "be filled in": filled(environment, what="a dict of one entry"),
        "have one entry, named like the variable that the course reads": lambda: (
            list(environment) == ["COURSE_BUILD"]
        ),
        "put the runs under /content/drive/MyDrive, which outlives the machine": (
            lambda: DRIVE in run_folder().parents
        ),
        "have a folder of its own there": lambda: run_folder().parents[1] != DRIVE,
    }
    return check_properties(properties)
