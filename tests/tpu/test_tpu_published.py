"""Measurements of others beside the compiler's: counted alike, of the same shape."""

import math

import pytest

from helpers.tpu import GENERATIONS
from scripts import tables, tpu_published
from scripts.tpu_published import PUBLISHED, SHAPES


def weights(config):
    """Numbers that multiply: all matrices, the one of the vocabulary once."""
    c = config
    attention = 2 * c.width * c.head_dim * (c.heads + c.kv_heads)
    return c.layers * (attention + 3 * c.width * c.ff) + c.width * c.vocab_size


# Of logs in AI-Hypercomputer/tpu-recipes, trillium: model, length, TFLOP/s of a chip,
# tokens/s of a chip.
LOGS = (
    ("Llama-3.1-8B", 8192, 413.433, 7138.890),
    ("Llama-2-70B", 4096, 402.274, 905.021),
)


@pytest.mark.parametrize("model, length, tflops, tokens", LOGS)
def test_published_shares_count_attention_to_all_tokens(model, length, tflops, tokens):
    """Six FLOPs a weight and token, 12 for each pair of tokens, layer and number."""
    config = SHAPES[model]
    pairs = 12 * config.layers * config.heads * config.head_dim * length
    per_token = 1e12 * tflops / tokens
    assert per_token == pytest.approx(6 * weights(config) + pairs, rel=2e-4)
    causal = 6 * weights(config) + pairs / 2
    one = PUBLISHED[0]._replace(model=model, length=length, share=0.5)
    assert tpu_published.by_our_count(one) == pytest.approx(
        0.5 * causal / per_token, rel=2e-4
    )


@pytest.mark.parametrize(
    "name, billions", [("Llama-3.1-8B", 8.03), ("Llama-2-70B", 69)]
)
def test_shapes_are_those_of_the_models(name, billions):
    config = SHAPES[name]
    total = weights(config) + config.width * config.vocab_size
    assert total / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.topology)
def test_our_batch_is_the_published_one(one):
    chips = math.prod(int(n) for n in one.topology.partition(":")[2].split("x"))
    case = tpu_published.case(one)
    assert case.tokens == chips * one.rows * one.length
    assert case.rank == 0 and case.config is SHAPES[one.model]
    assert one.rows * one.cut % one.pieces == 0, "as many rows of each piece"
    peak = GENERATIONS[one.topology.partition(":")[0]].tflops
    assert 0.3 * peak < one.share * peak < peak


def test_a_measured_step_is_the_published_one():
    """The log of Llama 3.1 8B on v6e-8 says 3.443 s a step."""
    row = tpu_published.published(PUBLISHED[0])
    assert row["published_ms"] == pytest.approx(3443, rel=2e-3)
    assert row["chips"] == 8 and row["published_percent"] == 45.0


def test_only_the_slices_asked_for_are_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(tpu_published, "TABLE", tmp_path / "tpu_published.csv")
    monkeypatch.setattr(tpu_published.util, "find_spec", lambda _: True)
    monkeypatch.setattr(tpu_published, "compiled", lambda one: {"modelled_ms": 7})
    assert tpu_published.main(["v6e:2x4"]) == 0
    monkeypatch.setattr(tpu_published, "compiled", lambda one: {"modelled_ms": 8})
    assert tpu_published.main(["v5p:4x4x4"]) == 0
    rows = tables.read(tpu_published.TABLE)
    assert [row["modelled_ms"] for row in rows] == ["7", "8", ""]
    assert [row["topology"] for row in rows] == [one.topology for one in PUBLISHED]
    other = [PUBLISHED[0]._replace(cut=2), *PUBLISHED[1:]]
    monkeypatch.setattr(tpu_published, "PUBLISHED", other)
    assert tpu_published.main(["nowhere"]) == 0
    rows = tables.read(tpu_published.TABLE)
    assert [row["modelled_ms"] for row in rows] == ["", "8", ""], "of another program"
