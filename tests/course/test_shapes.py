"""Both shapes of `scripts.shapes` differ in nothing but what it says they differ in."""

import csv

import numpy as np
from flax import nnx

from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer, count_params
from helpers.text import chat
from scripts import shapes, tiny


def test_the_two_have_as_many_parameters_to_one_percent():
    vocab = len(chat.load_tokenizer(tiny.TINY / "base"))
    three, *four = (
        count_params(Transformer(ModelConfig(vocab_size=vocab, **sizes), nnx.Rngs(0)))
        for sizes in shapes.SHAPES.values()
    )
    assert all(abs(count / three - 1) < 0.01 for count in four)


def test_attention_begins_as_flat_as_that_of_the_other():
    """The queries' norms are divided by √d, as Gemma 3 divides scores; nothing else."""
    sizes = shapes.SHAPES["like Gemma 4"]
    model = Transformer(ModelConfig(vocab_size=64, **sizes), nnx.Rngs(0))
    before = dict(nnx.to_flat_state(nnx.state(model)))
    before = {path: x[...].copy() for path, x in before.items()}
    shapes.begin_flat(model)
    for path, x in nnx.to_flat_state(nnx.state(model)):
        by = x.shape[-1] ** -0.5 if path[-1] == "q_norm" else 1.0
        np.testing.assert_allclose(x[...], before[path] * by, rtol=1e-6)


def test_the_table_has_both_with_three_seeds():
    with open(shapes.TABLE, newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["shape"], row["seed"]) for row in rows} == {
        *((shape, str(seed)) for shape in [*shapes.SHAPES][:2] for seed in range(3)),
        ("like Gemma 4, sharp", "0"),
    }
    assert {row["steps"] for row in rows} == {str(shapes.STEPS)}
