"""The models that the food app offers, and what is known of each of them.

A local model doubts by its own probabilities: `python -m scripts.doubt` chose SURE on
training drawings and measured, on others, what it finds.
"""

import csv
import functools
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
UNKNOWN = "what its makers say; the server does not tell"
DRAWINGS = "drawings of sixteen foods, and not one photo"
DOUBT = runtime.ROOT / "data" / "results" / "doubt.csv"
# Probability of the first turn that nine in ten training drawings reach.
SURE = {"food_grpo": 0.83, "food_sft": 0.28}


class Choice(NamedTuple):
    """A model that can be asked.

    make: function without arguments that gives the backend. runs: where, with which
    weights. seen: what it was trained on. draws: whether that was drawings alone. sure:
    probability of its first turn, 0 to 1, below which it is not sure.
    """

    make: Callable[[], Backend]
    runs: str
    seen: str = UNKNOWN
    draws: bool = False
    sure: float = 0.0


def course_models() -> dict[str, Choice]:
    """The models of the food lessons by name; each is loaded when first asked."""
    return {
        name: Choice(
            functools.partial(local_model.load, stage, name),
            _weights(stage),
            DRAWINGS,
            draws=True,
            sure=SURE[stage],
        )
        for name, stage in STUDENTS.items()
    }


def on_server(address, model, key="") -> Choice:
    """A model behind an OpenAI-compatible server; see `OpenAIServer`."""
    draws = model.strip() in STUDENTS.values()  # such as notebook 14 serves
    return Choice(
        lambda: OpenAIServer(address, model, key=key or None, tools=[TOOL]),
        f"at {address.strip() or '(no address)'}, as {model.strip() or '(no name)'}",
        DRAWINGS if draws else UNKNOWN,
        draws,
    )


def doubt(stage):
    """What was measured of a stage's doubt: rows of data/results/doubt.csv, as text."""
    text = DOUBT.read_text(encoding="utf-8")
    return [row for row in csv.DictReader(text.splitlines()) if row["model"] == stage]


def _weights(stage):
    """Where the weights of a stage come from, and how many they are."""
    try:
        folder = stages.stage_folder(stage)
    except FileNotFoundError as error:
        return str(error)
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        sizes = [file.get_slice(name).get_shape() for name in file.keys()]
    count = sum(functools.reduce(int.__mul__, size, 1) for size in sizes)
    shipped = folder.is_relative_to(runtime.ROOT / "data")
    whose = "shipped with the course" if shipped else "of your own run"
    return f"on this computer: {stage}, {count:,} weights, {whose}"
