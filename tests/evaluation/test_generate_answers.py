"""Greedy and sampled answers in batches: from a scripted sampler, then a real model."""

import types

import jax
import numpy as np
import pytest
from test_evaluator import ROWS, TABLE, run, scripted

from helpers.evaluation import answers
from helpers.evaluation.evaluator import evaluate


@pytest.fixture
def script(monkeypatch):
    return scripted(monkeypatch, TABLE)


def test_every_batch_has_one_shape_and_the_filling_is_not_counted(script):
    report = run(rows=ROWS * 3, batch=4)
    assert report.n == 9
    assert report.column("question") == [row["question"] for row in ROWS * 3]
    assert len(script.calls) == 4  # greedily, as many answers at a time: all nine
    assert set(script.calls) == {((9, 16), (9, 1), 0.0), ((4, 16), (4, 8), 1.0)}


def test_the_same_figures_in_batches_of_any_size(script):
    reports = [run(batch=batch).answers for batch in (1, 2, 3, 64)]
    assert reports[0] == reports[1] == reports[2] == reports[3]


def test_no_batch_and_fewer_than_no_samples_are_refused(script):
    wrong = {"batch": (0, None, 2.5), "samples": (-1, None), "max_tokens": (-1, "9")}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=f"{name}={value!r}: pass a whole"):
                run(**{name: value})
    assert not script.calls


def test_a_long_evaluation_says_how_far_it_is(script, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 11))
    monkeypatch.setattr(
        answers, "time", types.SimpleNamespace(monotonic=lambda: float(next(clock)))
    )
    run(rows=ROWS * 3, batch=1)
    said = capsys.readouterr().out.splitlines()
    assert any("greedy answers: 8 of 9" in line for line in said)
    assert any("samples:" in line and "s left" in line for line in said)
    run(rows=ROWS * 3, batch=2, log=False)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_a_real_model_gives_the_same_answers_in_batches_of_any_size():
    from flax import nnx

    from helpers.model.config import ModelConfig
    from helpers.model.transformer import Transformer
    from helpers.text import chat

    tokenizer = chat.train_tokenizer([row["question"] for row in ROWS], 300)
    config = ModelConfig(
        family="qwen3", vocab_size=len(tokenizer), width=16, layers=1, heads=2,
        kv_heads=1, head_dim=8, ff=16,
    )  # fmt: skip
    model = Transformer(config, rngs=nnx.Rngs(0))
    settings = {"max_tokens": 6, "samples": 2, "seed": 5, "temperature": 3.0}
    one, two = (
        evaluate(model, tokenizer, ROWS, batch=batch, **settings) for batch in (2, 3)
    )
    assert one.answers == two.answers
    assert all(1 <= tokens <= 6 for tokens in one.column("tokens"))
    keys = [
        jax.random.key_data(answers.row_keys(jax.random.key(seed), 0, 3, 2))
        for seed in (5, 6)
    ]
    assert not np.array_equal(*keys)
