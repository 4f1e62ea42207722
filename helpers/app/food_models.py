"""The models that the food app offers, and what is known of each of them.

A local model doubts by its own probabilities: `python -m scripts.doubt` chose SURE on
training drawings and measured, on others, what it finds.
"""

import contextlib
import functools
import math
import threading
from collections.abc import Callable
from typing import NamedTuple

from safetensors import safe_open

from helpers import runtime
from helpers.app import local_model
from helpers.app.assistant import Backend
from helpers.app.openai_server import OpenAIServer
from helpers.course import stages
from helpers.tools.nutrition import TOOL

STUDENTS = {  # name: stage of the course
    "the student, after rewards (GRPO)": "food_grpo",
    "the student, before them (SFT)": "food_sft",
}
UNKNOWN = "A server does not tell what its model has seen: ask those who trained it."
DRAWINGS = "It has seen drawings of sixteen foods, and not one photo."
# Probability of the first turn that nine in ten training drawings reach.
SURE = {"food_grpo": 0.83, "food_sft": 0.28}


class Choice(NamedTuple):
    """A model that can be asked.

    make: function without arguments that gives the backend. runs: where, with which
    weights. seen: a sentence on what it was trained on. sure: probability of its first
    turn, 0 to 1, below which it is not sure. lock: held while it works.
    """

    make: Callable[[], Backend]
    runs: str
    seen: str = UNKNOWN
    sure: float = 0.0
    lock: contextlib.AbstractContextManager = contextlib.nullcontext()


def course_models() -> dict[str, Choice]:
    """The models of the food lessons by name.

    Each is loaded when it is first asked, and works for one person at a time.
    """
    models = {}
    for name, stage in STUDENTS.items():
        load = functools.cache(functools.partial(local_model.load, stage, name))
        known = _weights(stage), DRAWINGS, SURE[stage]
        models[name] = Choice(load, *known, threading.Lock())
    return models


def on_server(address, model, key="") -> Choice:
    """A model behind an OpenAI-compatible server; see `OpenAIServer`."""
    return Choice(
        lambda: OpenAIServer(address, model, key=key, tools=[TOOL]),
        f"on the server at {address}, as {model}",
        DRAWINGS if model in STUDENTS.values() else UNKNOWN,  # notebook 14 serves one
    )


def _weights(stage):
    """Where the weights of a stage come from, and how many they are."""
    folder = stages.stage_folder(stage)
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        count = sum(math.prod(file.get_slice(n).get_shape()) for n in file.keys())
    shipped = folder.is_relative_to(runtime.ROOT / "data")
    whose = "shipped with the course" if shipped else "of your own run"
    return f"on this computer: {stage}, {count:,} weights, {whose}"
