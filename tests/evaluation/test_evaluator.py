"""Evaluation with a scripted sampler whose answers are known, then a real one."""

import numpy as np
import pytest
import tiny_models

from helpers.evaluation import answers, wilson
from helpers.evaluation.evaluator import FINAL_LINE, evaluate
from helpers.evaluation.report import MathsReport
from helpers.generation import dialogue
from helpers.generation.sampling import Completions
from helpers.text import chat

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
    {"question": "Ann: 2+2", "answer": "#### 4", "level": 1, "names": ["Ann"]},
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
def test_a_number_that_was_cut_off_is_not_read(script, answer, strict, lenient):
    """`#### 2` of a cut `#### 20` would be right by the budget alone."""
    script.table = {"a": (answer, [answer] * 3)}
    report = run([{"question": "a", "answer": "#### 2"}], samples=3)
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
    script, answer, read, right, ended
):
    script.table = {"a": (answer, [answer] * 2)}
    rows = [{"question": "a", "answer": "#### 2"}]
    (graded,) = run(rows, samples=2, stop=FINAL_LINE).answers
    assert (graded["text"], graded["ended"]) == (read, ended)
    assert (graded["strict"], graded["right"]) == (right, 2 * right)
    (as_it_was,) = run(rows, samples=2).answers
    assert graded["tokens"] == as_it_was["tokens"], "what was sampled"


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


def test_every_batch_has_one_shape_and_its_size_changes_no_figure(script):
    report = run(rows=ROWS * 3, batch=4)
    assert report.n == 9, "the filling of the last batch is not counted"
    assert report.column("question") == [row["question"] for row in ROWS * 3]
    assert len(script.calls) == 4  # greedily, as many answers at a time: all nine
    assert set(script.calls) == {((9, 16), (9, 1), 0.0), ((4, 16), (4, 8), 1.0)}
    for batch in (1, 2, 64):
        assert run(rows=ROWS * 3, batch=batch).answers == report.answers


def test_a_long_evaluation_prints_how_far_it_is(script, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 11))
    monkeypatch.setattr(answers.time, "monotonic", lambda: float(next(clock)))
    run(rows=ROWS * 3, batch=1)
    lines = capsys.readouterr().out.splitlines()
    assert any("greedy answers: 8 of 9" in line for line in lines)
    assert any("samples:" in line and "s left" in line for line in lines)
    run(rows=ROWS * 3, batch=2, log=False)
    assert capsys.readouterr().out == ""


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
