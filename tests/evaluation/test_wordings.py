"""Wordings: reports that are known, in an order that is counted by hand."""

import types

import pytest

from helpers.evaluation import by_wording
from helpers.evaluation import evaluator as room
from helpers.evaluation.evaluator import with_wording

ROWS = [{"question": q, "answer": f"#### {n}", "id": q} for q, n in ("Q3", "R4")]


@pytest.mark.parametrize("wording", ["no place", "{question} {question}"])
def test_a_wording_without_one_place_is_refused(wording):
    with pytest.raises(ValueError, match="must hold {question} once"):
        with_wording(ROWS, wording)


def test_strict_answers_decide_then_lenient_ones_then_length(monkeypatch):
    right = {"strict": (0.5, 0.5), "lenient": (0.0, 0.9), "long": (0.0, 0.1)}
    right |= {"short": (0.0, 0.1)}
    wordings = {"long": "{question}!!", "short": "{question}!", "lenient": "{question}"}
    wordings |= {"strict": "Please: {question}"}

    def evaluate(model, tokenizer, rows, samples, max_tokens):
        asked = rows[0]["question"].replace("Q", "{question}")
        (name,) = [name for name, text in wordings.items() if text == asked]
        assert (samples, max_tokens) == (0, 5)
        return types.SimpleNamespace(greedy=right[name][0], lenient=right[name][1])

    monkeypatch.setattr(room, "evaluate", evaluate)
    found = by_wording(None, None, ROWS, wordings, max_tokens=5)
    assert list(found) == ["strict", "lenient", "short", "long"]
