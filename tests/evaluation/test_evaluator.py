"""Evaluation with a scripted sampler whose answers are known, then a real one."""

import json
import re

import numpy as np
import pytest

from helpers.course import results
from helpers.evaluation import answers, wilson
from helpers.evaluation.evaluator import FINAL_LINE, evaluate
from helpers.evaluation.report import MathsReport
from helpers.generation import dialogue
from helpers.generation.calculator_use import CalculatorUse
from helpers.generation.sampling import Completions

EOS = 1


class Letters:
    """Instead of a tokenizer and chat template: a token is a letter's code."""

    @staticmethod
    def prompts_tokens(tokenizer, questions, tools=None, vision=None):
        return [[ord(letter) for letter in question] for question in questions]

    @staticmethod
    def decode(tokenizer, ids):
        return "".join(chr(i) for i in ids if i != EOS)

    @staticmethod
    def eos_ids(tokenizer):
        return (EOS,)


class Script:
    """A sampler that answers from a table: {question: (greedy, [samples])}.

    An answer that ends in "…" runs out of budget there.
    """

    def __init__(self, table):
        self.table, self.calls = table, []

    def __call__(
        self, model, prompt, mask, keys, *, max_tokens, eos_ids, temperature, images
    ):
        self.calls.append((prompt.shape, keys.shape, temperature))
        P, G = keys.shape
        tokens = np.zeros((P, G, max_tokens), np.int32)
        masks, ended = np.zeros_like(tokens), np.zeros((P, G), bool)
        for p in range(P):
            question = "".join(map(chr, prompt[p][mask[p] > 0]))
            greedy, samples = self.table[question]
            for g, text in enumerate([greedy] if temperature == 0 else samples):
                ended[p, g] = not text.endswith("…")
                ids = [ord(c) for c in text.rstrip("…")] + [EOS] * int(ended[p, g])
                tokens[p, g, : len(ids)], masks[p, g, : len(ids)] = ids, 1
        assert eos_ids == (EOS,)
        return Completions(tokens, masks, np.zeros(tokens.shape, np.float32), ended)


ROWS = [
    {"question": "Tom: 1+1", "answer": "#### 2", "level": 1, "names": ["Tom"]},
    {
        "question": "Ann: 2+2",
        "answer": "<<2+2=4>>\n#### 4",
        "level": 1,
        "names": ["Ann"],
    },
    {"question": "Tom, Ann: 9+9", "answer": "18", "level": 2, "names": ["Tom", "Ann"]},
]
TABLE = {
    "Tom: 1+1": ("Tom's <<1+1=2>>2\n#### 2", ["#### 2"] * 8),
    "Ann: 2+2": ("Tom has 4", ["#### 5", "it is 4"] + ["#### 4"] * 3 + ["7"] * 3),
    "Tom, Ann: 9+9": ("<<9+9=17>>17 and on and…", ["#### 17"] * 8),
}


def scripted(monkeypatch, table):
    """A Script of this table in place of model and tokenizer."""
    script = Script(table)
    monkeypatch.setattr(answers, "chat", Letters)
    monkeypatch.setattr(dialogue, "chat", Letters)
    monkeypatch.setattr(dialogue, "generate", script)
    return script


@pytest.fixture
def script(monkeypatch):
    return scripted(monkeypatch, TABLE)


def run(rows=ROWS, **changes):
    arguments = {"max_tokens": 40, "batch": 2, "buckets": (16, 32)} | changes
    return evaluate(None, None, rows, **arguments)


def test_figures_are_the_shares_one_would_count_by_hand(script):
    report = run()
    assert report.n == 3
    assert report.greedy == pytest.approx(1 / 3)
    assert report.lenient == pytest.approx(2 / 3)
    assert report.pass1 == pytest.approx((8 / 8 + 3 / 8 + 0) / 3)
    assert report.pass_at(1, "right_lenient") == pytest.approx((8 / 8 + 4 / 8 + 0) / 3)
    assert report.pass8 == pytest.approx(2 / 3)
    assert (report.low, report.high) == wilson(1, 3)
    assert report.truncated == pytest.approx(1 / 3)
    assert report.step_by_step == pytest.approx(2 / 3)
    assert report.right_step_by_step == pytest.approx(1 / 2)
    assert report.names_kept == pytest.approx(1 / 2)
    lengths = [len("Tom's <<1+1=2>>2\n#### 2") + 1, len("Tom has 4") + 1, 23]
    assert report.length == pytest.approx(np.mean(lengths))


@pytest.mark.parametrize(
    ("answer", "strict", "lenient"),
    [
        ("#### 2…", False, False),
        ("1 and 2\n#### 2…", False, True),
        ("#### 2 0…", False, False),
        ("It is 2…", False, False),
        ("#### 2\n…", True, True),
        ("#### 2e…", False, False),
        ("#### 2 mill…", False, False),
        ("#### 2 and a h…", False, False),
        ("#### 2\xa0…", False, False),
        ("#### 2\n#### 2 mill…", False, True),
        ("**#### 2**…", False, False),
        ("It is 2e…", False, False),
        ("It is 2 pears…", False, True),
        ("#### 2 pears\nand so…", True, True),
        ("#### 2", True, True),
    ],
)
def test_a_number_that_was_cut_off_is_not_read(script, answer, strict, lenient):
    """`#### 2` of a cut `#### 20` would be right by the budget alone."""
    script.table = {"a": (answer, [answer] * 3)}
    report = run([{"question": "a", "answer": "#### 2"}], samples=3)
    (graded,) = report.answers
    assert (graded["strict"], graded["lenient"]) == (strict, lenient)
    assert (graded["right"], graded["right_lenient"]) == (3 * strict, 3 * lenient)
    assert graded["text"] == answer.rstrip("…")


@pytest.mark.parametrize(
    ("answer", "kept", "right", "ended"),
    [
        ("2\n#### 2\nQuestion: how many\n#### 7", "2\n#### 2\n", True, True),
        ("#### 2 pears\nand so on…", "#### 2 pears\n", True, True),
        ("#### 7\n#### 2\n", "#### 7\n", False, True),
        ("####\n#### 2\n7", "####\n#### 2\n", True, True),
        ("#### 2…", "#### 2", False, False),
        ("it is 2", "it is 2", False, True),
    ],
)
def test_an_answer_that_is_stopped_is_read_to_the_end_of_its_final_line(
    script, answer, kept, right, ended
):
    script.table = {"a": (answer, [answer] * 2)}
    asked = [{"question": "a", "answer": "#### 2"}]
    (graded,) = run(asked, samples=2, stop=FINAL_LINE).answers
    assert (graded["text"], graded["ended"]) == (kept, ended)
    assert (graded["strict"], graded["right"]) == (right, 2 * right)
    (as_it_was,) = run(asked, samples=2).answers
    assert graded["tokens"] == as_it_was["tokens"], "what was sampled"


@pytest.mark.parametrize(
    "settings",
    [{"stop": FINAL_LINE, "tools": CalculatorUse()}, {"stop": re.compile("x*")}],
)
def test_a_stop_that_would_end_every_answer_or_a_turn_is_refused(script, settings):
    with pytest.raises(ValueError, match="must not match an empty text"):
        run(**settings)
    assert not script.calls


def test_levels_are_reports_of_their_own(script):
    levels = run().by_level()
    assert list(levels) == [1, 2]
    assert [levels[1].n, levels[2].n] == [2, 1]
    assert [levels[1].greedy, levels[2].greedy] == [0.5, 0]
    assert levels[2].names_kept is None and levels[2].pass8 == 0
    assert "step by step" in str(levels[1])


def test_the_row_is_one_of_the_table_of_results(script, tmp_path, monkeypatch):
    monkeypatch.setattr(results.runtime, "build_folder", lambda: tmp_path)
    results.record(run().row("sft", params=410_000, seed=3, seconds=12.5))
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert row["stage"] == "sft" and row["params"] == 410_000 and row["n"] == 3
    assert row["greedy"] == pytest.approx(1 / 3) and row["pass8"] == pytest.approx(
        2 / 3
    )
    assert row["low"] < row["greedy"] < row["high"]
    assert (row["seed"], row["seconds"]) == (3, 12.5)


def test_reports_are_compared_on_the_same_problems_only(script):
    report = run()
    better = MathsReport([dict(a, strict=True) for a in report.answers], 8)
    comparison = better.since(report)
    assert (comparison.gained, comparison.lost) == (2, 0)
    assert comparison.difference == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="same rows"):
        run(rows=ROWS[:2]).since(report)
    others = [{**row, "answer": "#### 7"} for row in ROWS]
    with pytest.raises(ValueError, match="same rows"):
        run(rows=others).since(report)  # the same words, and another right answer


def test_nothing_to_evaluate_and_answers_without_numbers_are_errors(script):
    with pytest.raises(ValueError, match="no rows"):
        run(rows=[])
    with pytest.raises(ValueError, match="no number"):
        run(rows=[{"question": "?", "answer": "who knows"}])
