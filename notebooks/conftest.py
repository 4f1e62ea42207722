"""Give every notebook under nbval a build folder of its own.

Notebooks run side by side there, and each must stand alone: it starts from the shipped
checkpoints and never from what another notebook is training at the moment.
"""

import os
import pathlib

import pytest

from helpers.course.syllabus import LESSONS

ROOT = pathlib.Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items):
    """The longest notebooks first, so that the last one to end is a short one."""
    minutes = {row.file: row.minutes["laptop"] for row in LESSONS.values()}
    items.sort(key=lambda item: -minutes.get(item.path.stem, 0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Before nbval starts the kernel of a notebook, which inherits this environment."""
    if item.path.suffix == ".ipynb":
        folder = ROOT / "build" / "test" / item.path.stem
        os.environ["COURSE_BUILD"] = str(folder)
        os.environ["COURSE_PRESET"] = "laptop"
        # Notebook 15 takes a real model else, for ten minutes.
        os.environ["COURSE_MODEL"] = str(ROOT / "data" / "tiny" / "base")
        os.environ["JAX_PLATFORMS"] = "cpu"
