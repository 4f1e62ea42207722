"""Evaluation with a scripted sampler whose answers are known, then a real one."""

import numpy as np
import pytest
import tiny_models
from scripted_answers import TOKENIZER, Scripted

from helpers.evaluation import wilson
from helpers.evaluation.evaluator import FINAL_LINE, evaluate
from helpers.evaluation.report import MathsReport
from helpers.text import chat

ROWS = [
    {"question": "Tom: 1+1", "answer": "#### 2", "level": 1, "names": ["Tom"]},
    {"question": "Ann: 2+2", "answer": "#### 4", "level": 1, "names": ["Ann"]},
    {"question": "Tom, Ann: 9+9", "answer": "18", "level": 2, "names": ["Tom", "Ann"]},
]
TABLE = {
    "Tom: 1+1": ("Tom's <<1+1=2>>2\n#### 2", ["#### 2"] * 8),
    "Ann: 2+2": ("Tom has 4", ["#### 5", "it is 4"] + ["#### 4"] * 3 + ["7"] * 3),
    "Tom, Ann: 9+9": ("<<9+9=17>>17 and on and…", ["#### 17"] * 8),
}


def run(rows=ROWS, table=TABLE, **changes):
    script = Scripted(table)
    settings = {"max_tokens": 40, "batch": 2, "buckets": (64,)} | changes
    report = evaluate(None, TOKENIZER, rows, environment=script, **settings)
    return report, script.calls


def test_figures_are_the_shares_one_would_count_by_hand():
    report, _ = run()
    assert report.n == 3
    assert report.greedy == pytest.approx(1 / 3)
    assert report.lenient == pytest.approx(2 / 3)
    assert report.pass1 == pytest.approx((8 / 8 + 3 / 8 + 0) / 3)
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
        ("It is 2…", False, False),
        ("#### 2\n…", True, True),
        ("#### 2e…", False, False),
        ("#### 2 mill…", False, False),
        ("#### 2\n#### 2 mill…", False, True),
        ("It is 2 pears…", False, True),
        ("#### 2", True, True),
    ],
)
def test_a_number_that_was_cut_off_is_not_read(answer, strict, lenient):
    """`#### 2` of a cut `#### 20` would be right by the budget alone."""
    table, rows = {"a": (answer, [answer] * 3)}, [{"question": "a", "answer": "#### 2"}]
    report, _ = run(rows, table, samples=3)
    (graded,) = report.answers
    assert (graded["strict"], graded["lenient"]) == (strict, lenient)
    assert graded["right"] == 3 * strict
    assert graded["text"] == answer.rstrip("…")


@pytest.mark.parametrize(
    ("answer", "read", "right", "ended"),
    [
        ("2\n#### 2\nQuestion: how many\n#### 7", "2\n#### 2\n", True, True),
        ("#### 2 pears\nand so on…", "#### 2 pears\n", True, True),
        ("#### 7\n#### 2\n", "#### 7\n", False, True),
        ("#### 2…", "#### 2", False, False),
    ],
)
def test_an_answer_that_is_stopped_is_read_to_the_end_of_its_final_line(
    answer, read, right, ended
):
    table, rows = {"a": (answer, [answer] * 2)}, [{"question": "a", "answer": "#### 2"}]
    (graded,) = run(rows, table, samples=2, stop=FINAL_LINE)[0].answers
    assert (graded["text"], graded["ended"]) == (read, ended)
    assert (graded["strict"], graded["right"]) == (right, 2 * right)
    (as_it_was,) = run(rows, table, samples=2)[0].answers
    assert graded["tokens"] == as_it_was["tokens"], "what was sampled"


def test_reports_are_compared_on_the_same_problems_only():
    report, _ = run()
    better = MathsReport([dict(a, strict=True) for a in report.answers], 8)
    comparison = better.since(report)
    assert (comparison.gained, comparison.lost) == (2, 0)
    assert comparison.difference == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="same rows"):
        run(rows=ROWS[:2])[0].since(report)
    others = [{**row, "answer": "#### 7"} for row in ROWS]
    with pytest.raises(ValueError, match="same rows"):
        run(rows=others)[0].since(report)  # the same words, and another right answer


def test_nothing_to_evaluate_and_answers_without_numbers_are_errors():
    with pytest.raises(ValueError, match="no rows"):
        run(rows=[])
    with pytest.raises(ValueError, match="no number"):
        run(rows=[{"question": "?", "answer": "who knows"}])


def test_every_batch_has_one_shape_and_its_size_changes_no_figure():
    report, calls = run(rows=ROWS * 3, batch=4)
    assert report.n == 9, "the filling of the last batch is not counted"
    assert report.column("question") == [row["question"] for row in ROWS * 3]
    # Greedily as many answers at a time as when sampling: all nine.
    assert calls == [(9, 1, 0.0)] + [(4, 8, 1.0)] * 3
    for batch in (1, 2, 64):
        assert run(rows=ROWS * 3, batch=batch)[0].answers == report.answers


@pytest.mark.slow
def test_a_real_model_gives_the_same_answers_in_batches_of_any_size():
    tokenizer = chat.train_tokenizer([row["question"] for row in ROWS], 300)
    model = tiny_models.model("qwen3", vocab=len(tokenizer), layers=1)
    settings = {"max_tokens": 6, "samples": 2, "seed": 5}
    one, two = (
        evaluate(model, tokenizer, ROWS, batch=batch, **settings) for batch in (2, 3)
    )
    assert one.answers == two.answers
    assert all(1 <= tokens <= 6 for tokens in one.column("tokens"))
