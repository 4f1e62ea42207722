"""Saved reports are read where they are about the same, and measured anew elsewhere."""

import errno
import os
import pathlib

import jax
import numpy as np
import pytest
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.evaluation import load_or_score
from helpers.evaluation.report import FoodReport, MathsReport, Scores, load_or_run
from helpers.generation.sampling import Dialogue
from helpers.model import weights
from helpers.text import chat
from helpers.tools import tool
from helpers.tools.grammars import HERMES

ANSWER = {"question": "What is ½?", "gold": "1/2", "level": 1, "text": "#### 1/2"}
ANSWER |= {"tokens": 3, "ended": True, "strict": True, "lenient": True, "right": 2}


@pytest.fixture
def measured(tmp_path):
    """(ask(about), how often it was measured)."""
    times = []

    def measure():
        times.append(1)
        return MathsReport([ANSWER | {"right": len(times)}], 8)

    path = tmp_path / "new" / "it.json"
    return lambda about: load_or_run(path, about, measure, MathsReport), times


def test_it_is_measured_once_for_each_description_in_turn(measured, capsys):
    ask, times = measured
    first, again = ask({"model": {"": "a"}}), ask({"model": {"": "a"}})
    assert first == again and len(times) == 1
    assert again.greedy == 1 and again.since(first).difference == 0
    assert capsys.readouterr().out.count("measured before") == 1
    assert ask({"model": "b"}).answers[0]["right"] == 2
    assert ask({"model": {"": "a"}}).answers[0]["right"] == 3 == len(times)


@pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
def test_a_damaged_file_is_reported_and_measured_anew(measured, tmp_path, text):
    ask, times = measured
    ask({})
    (tmp_path / "new" / "it.json").write_bytes(text.encode("latin-1"))
    with pytest.warns(UserWarning, match="is no report: .*run anew"):
        ask({})
    assert ask({}).answers and len(times) == 2


def test_a_full_disk_costs_the_file_and_not_the_report(measured, tmp_path, monkeypatch):
    def full(self, text, encoding):
        self.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    ask, times = measured
    with pytest.warns(UserWarning, match="No space left on device.*Make room"):
        assert ask({}).n == 1
    assert list((tmp_path / "new").iterdir()) == []


def test_what_json_lacks_is_saved_as_text_and_numbers(tmp_path):
    """Traces as their text, NumPy's numbers and arrays as Python's."""
    trace = tool.trace(HERMES, ["Eleven."], [])
    food = {"question": "?", "gold": [{"food": "pizza", "grams": 80}], "text": "a"}
    food |= {"tokens": np.int64(3), "ended": True, "strict": True, "right": 0}
    food |= {"valid": np.float32(0.5), "food": 1.0, "grams": 0.0, "declined": None}
    completion = {"question": "?", "completion": trace, "reward": 1.0, "tokens": 2}
    completion |= {"ended": True}
    for made in (
        FoodReport([food | {"trace": trace}], 0),
        Scores([completion], {"reward/x": 1.0}),
    ):
        path = tmp_path / f"{type(made).__name__}.json"
        assert load_or_run(path, {}, lambda made=made: made, type(made)) is made
        again = load_or_run(path, {}, None, type(made))
        assert str(again) == str(made) and again.since(made).n == 1
        (saved,) = again.answers
        assert saved in (food, completion | {"completion": str(trace)})


def long(prompts, completions, **_):
    return [float(len(text)) for text in completions]


def short(prompts, completions, **_):
    return [-float(len(text)) for text in completions]


class Other(Dialogue):
    """The usual answers, from what calls itself another way to sample them."""

    def describe(self):
        return {"kind": "other"}


def test_a_score_is_read_for_the_same_model_rows_reward_and_budget(tmp_path, capsys):
    path, rows = tmp_path / "s.json", [{"question": f"{i} apples?"} for i in range(2)]
    model = weights.load(stage_folder("base"))
    tokenizer = chat.load_tokenizer(stage_folder("base"))

    def ask(rows=rows, reward=long, **budget):
        budget = {"max_tokens": 4, "buckets": (48,)} | budget
        scores = load_or_score(path, model, tokenizer, rows, reward, **budget)
        return scores, "measured before" in capsys.readouterr().out

    first, again = ask(), ask()
    assert first == (again[0], False) and again[1] and again[0].since(first[0]).n == 2
    for other in ({"reward": short}, {"environment": Other()}):
        assert not ask(**other)[1] and ask(**other)[1]
    rows = rows[::-1]  # as many, which compiles nothing
    assert not ask(rows=rows)[1]
    nnx.update(model, jax.tree.map(lambda x: 1.01 * x, nnx.state(model)))
    assert not ask(rows=rows)[1]
