"""Both shapes of `scripts.shapes` differ in nothing but what it says they differ in."""

import csv

from flax import nnx

from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer, count_params
from helpers.text import chat
from scripts import shapes, tiny


def test_the_two_have_as_many_parameters_to_one_percent():
    vocab = len(chat.load_tokenizer(tiny.TINY / "base"))
    three, four = (
        count_params(Transformer(ModelConfig(vocab_size=vocab, **sizes), nnx.Rngs(0)))
        for sizes in shapes.SHAPES.values()
    )
    assert abs(four / three - 1) < 0.01


def test_the_table_has_both_with_three_seeds():
    with open(shapes.TABLE, newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["shape"], row["seed"]) for row in rows} == {
        (shape, str(seed)) for shape in shapes.SHAPES for seed in range(3)
    }
    assert {row["steps"] for row in rows} == {str(shapes.STEPS)}
