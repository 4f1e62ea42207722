"""`make gguf-check`: what it lets pass and what not, and the table that it wrote."""

import csv
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "golden"))

import llama_cases  # noqa: E402
import llama_cpp  # noqa: E402
from llama_cpp import MOST_APART, MOST_BEHIND, Answer, Differs, judged  # noqa: E402

# Of two tokens: 1 leads, then 0 by little, then 1.
SCORES = np.array([[0.0, 5.0], [2.002, 2.0], [0.0, 5.0]])
EXACT = SCORES - np.log(np.exp(SCORES).sum(axis=1, keepdims=True))


def answered(tokens, off=0.0):
    """llama.cpp's answer, whose log-probabilities are off by so much."""
    logprobs = [{i: x + off for i, x in enumerate(row)} for row in EXACT[: len(tokens)]]
    return Answer(tokens, logprobs)


def test_the_same_answer_has_no_gap_and_log_probabilities_are_compared():
    row = judged("F32", [1, 0, 1], answered([1, 0, 1], off=0.25), SCORES)
    assert (row["tokens"], row["equal_tokens"], row["first_differences"]) == (3, 3, 0)
    assert row["largest_gap"] == 0
    np.testing.assert_allclose(row["apart"], [0.25] * 6, rtol=1e-4)


def test_a_near_tie_is_counted_and_what_leads_by_far_is_refused():
    row = judged("F16", [1, 0, 0], answered([1, 1, 1]), SCORES)
    assert (row["equal_tokens"], row["first_differences"]) == (2, 1)
    np.testing.assert_allclose(row["largest_gap"], 0.002, rtol=1e-6)
    with pytest.raises(Differs, match="token 0 is 0, by 5 less likely to us than 1"):
        judged("Q8_0", [1, 0, 1], answered([0, 0, 1]), SCORES)
    with pytest.raises(Differs, match="token 1 is 1"):  # a larger gap than rounding
        judged("F32", [1, 0, 1], answered([1, 1, 1]), SCORES)


@pytest.mark.parametrize("mine, theirs", [([1, 0, 1], [1, 0]), ([1, 0], [1, 0, 1])])
def test_who_goes_on_where_the_other_ends_is_refused(mine, theirs):
    with pytest.raises(Differs, match="one goes on where the other ends"):
        judged("F16", mine, answered(theirs), SCORES[: len(theirs)])


def test_log_probabilities_of_only_some_tokens_are_left_out():
    part = Answer([1, 0, 1], answered([1, 0]).likeliest)
    assert judged("F32", [1, 0, 1], part, SCORES)["apart"] == []


def test_the_table_has_every_case_within_its_bounds():
    rows = list(csv.DictReader(llama_cpp.TABLE.open()))
    kinds = [(case.name, kind) for case in llama_cases.CASES for kind in case.kinds]
    assert [(row["model"], row["type"]) for row in rows] == kinds
    for row in rows:
        assert float(row["largest_gap"]) <= MOST_BEHIND[row["type"]]
        assert float(row["mean_logprob_gap"] or 0) <= MOST_APART[row["type"]]
        assert row["versions"].startswith(llama_cpp.NEEDS[0][0])
        assert int(row["prompts"]) >= 8 and int(row["tokens"]) >= 72
