"""A report that is kept: read where it is about the same, measured anew elsewhere."""

import errno
import os
import pathlib

import jax
import numpy as np
import pytest
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.evaluation import kept as module
from helpers.evaluation.kept import kept
from helpers.evaluation.report import MathsReport
from helpers.evaluation.scored import Scores
from helpers.evaluation.tool_evaluate import ToolReport
from helpers.generation.calculator_use import CalculatorUse
from helpers.model import weights
from helpers.text import chat
from helpers.tools import tool
from helpers.tools.calls import HERMES

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
    return lambda about: kept(path, about, measure, MathsReport), times


def test_it_is_measured_once_and_comes_back_as_it_was(measured, capsys):
    ask, times = measured
    first, again = ask({"model": {"": "a"}}), ask({"model": {"": "a"}})
    assert first == again and len(times) == 1
    assert again.greedy == 1 and again.since(first).difference == 0
    assert capsys.readouterr().out.count("measured before") == 1


def test_of_anything_else_it_is_measured_anew_and_replaced(measured):
    ask, times = measured
    ask({"model": "a"})
    assert ask({"model": "b"}).answers[0]["right"] == 2
    assert ask({"model": "b"}).answers[0]["right"] == 2
    assert ask({"model": "a"}).answers[0]["right"] == 3 == len(times)


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"about": 1}', '{"about": {}, "samples": 8', "\xff"]
)
def test_what_is_no_report_is_said_and_measured_anew(measured, tmp_path, text):
    ask, times = measured
    ask({})
    (tmp_path / "new" / "it.json").write_bytes(text.encode("latin-1"))
    with pytest.warns(UserWarning, match="is no report, so it is measured anew"):
        ask({})
    assert ask({}).answers and len(times) == 2


def test_a_measurement_that_fails_leaves_no_file(tmp_path):
    def measure():
        raise MemoryError

    with pytest.raises(MemoryError):
        module.kept(tmp_path / "it.json", {}, measure, MathsReport)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_found_out_before_it_is_measured(
    tmp_path,
):
    (tmp_path / "file").write_text("in the way")
    times = []
    with pytest.raises(OSError, match="file/new: Not a directory.*COURSE_BUILD"):
        path = tmp_path / "file" / "new" / "it.json"
        with pytest.warns(UserWarning, match="no report"):
            kept(path, {}, lambda: times.append(1), MathsReport)
    assert times == []


def test_a_disk_that_is_full_afterwards_costs_the_file_and_not_the_report(
    measured, tmp_path, monkeypatch
):
    def full(self, text, encoding):
        self.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    ask, times = measured
    with pytest.warns(UserWarning, match="No space left on device.*Make room"):
        assert ask({}).n == 1
    assert list((tmp_path / "new").iterdir()) == []


def test_a_report_on_conversations_is_kept_without_their_traces(tmp_path):
    answer = {"question": "?", "gold": [{"food": "pizza", "grams": 80}], "text": "a"}
    answer |= {"tokens": 3, "ended": True, "strict": True, "right": 0}
    answer |= {"valid": 1.0, "food": 1.0, "grams": 0.0, "declined": None}
    found = [
        kept(
            tmp_path / "it.json",
            {},
            lambda: ToolReport([answer | {"trace": object()}], 0),
            ToolReport,
        )
        for _ in range(2)
    ]
    assert found[1].answers == [answer] and found[1].since(found[0]).n == 1
    assert str(found[1]) == str(found[0])


def long(prompts, completions, **_):
    return [float(len(text)) for text in completions]


def short(prompts, completions, **_):
    return [-float(len(text)) for text in completions]


def test_a_score_is_kept_for_the_same_model_rows_reward_and_budget(tmp_path, capsys):
    path, rows = tmp_path / "s.json", [{"question": f"{i} apples?"} for i in range(2)]
    model = weights.load(stage_folder("base"))
    tokenizer = chat.load_tokenizer(stage_folder("base"))

    def ask(rows=rows, reward=long, **budget):
        budget = {"max_tokens": 4, "buckets": (48,)} | budget
        found = module.kept_score(path, model, tokenizer, rows, reward, **budget)
        return found, "measured before" in capsys.readouterr().out

    first, again = ask(), ask()
    assert first == (again[0], False) and again[1] and again[0].since(first[0]).n == 2
    for other in ({"reward": short}, {"rows": rows[:1]}, {"max_tokens": 5}):
        assert not ask(**other)[1] and ask(**other)[1]
    other |= {"tools": CalculatorUse()}
    assert not ask(**other)[1] and ask(**other)[1], "a calculator is another setting"
    nnx.update(model, jax.tree.map(lambda x: 1.01 * x, nnx.state(model)))
    assert not ask(**other)[1]


def test_a_score_of_conversations_is_kept_as_their_text(tmp_path):
    held = tool.trace(HERMES, ["Eleven."], [])
    answer = {"question": "?", "completion": held, "reward": 1.0, "tokens": 2}
    scores = Scores([answer | {"ended": True}], {"reward/x": 1.0})
    path = tmp_path / "it.json"
    first, again = (kept(path, {}, lambda: scores, Scores) for _ in range(2))
    assert first.answers[0]["completion"] is held
    assert again.answers == [answer | {"ended": True, "completion": str(held)}]
    assert again.since(first).n == 1


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path):
    odd = {"level": np.int64(2), "share": np.float32(0.5), "ids": np.arange(2)}
    report = MathsReport([ANSWER | odd | {"made": pathlib.PurePosixPath("a")}], 8)
    path = tmp_path / "it.json"
    assert kept(path, {}, lambda: report, MathsReport) is report
    (again,) = kept(path, {}, lambda: None, MathsReport).answers
    assert again == ANSWER | {"level": 2, "share": 0.5, "ids": [0, 1], "made": "a"}
