"""Notebook 12's tables: whole, and made by programs that measure what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx

from helpers.course import recorded
from scripts import copying, pass_cost, speculative


def test_every_drafter_was_run_with_every_block_and_seed():
    rows = [row for row in recorded.rows("speculative") if row["target"] == "grpo"]
    seen = {
        (row["drafter"], row["block"], row["temperature"], row["at_once"], row["seed"])
        for row in rows
    }
    assert len(seen) == len(rows)
    drafters = {row["drafter"] for row in rows}
    assert len(drafters) == 6
    assert seen == {
        (name, block, warm, at_once, seed)
        for name in drafters
        for block in speculative.BLOCKS
        for warm in speculative.TEMPERATURES
        for at_once in (1, speculative.N)
        for seed in speculative.SEEDS
    }


def test_figures_of_a_row_fit_together():
    for row in recorded.rows("speculative"):
        assert 1 <= row["accepted_per_pass"] <= row["block"] + 1
        # A pass gives what is kept and one token more, unless an answer ends within.
        most = 1 + row["acceptance"] * row["block"]
        assert most - 0.35 < row["accepted_per_pass"] < most + 0.01
        assert row["seconds"] > 0 and row["plain_seconds"] > 0


def test_the_goals_of_the_table_are_reached():
    rows = [row for row in recorded.rows("speculative") if row["at_once"] == 64]

    def best(name):
        found = [row for row in rows if name in row["drafter"]]
        by_seed = recorded.spread(found, "seed", "accepted_per_pass")
        return min(highest for _, _, highest in by_seed.values())

    assert best("student") >= 2.5 and best("block drafter") >= 3.5


def test_guesses_cost_the_tiny_target_the_time_that_12_says():
    """0.1 to 0.7 times as fast with 64 texts at once, 0.3 to 1.3 with one."""
    rows = [row for row in recorded.rows("speculative") if row["target"] == "grpo"]
    spans = []
    for at_once in (64, 1):
        own = [row for row in rows if row["at_once"] == at_once]
        faster = [row["plain_seconds"] / row["seconds"] for row in own]
        spans.append((round(min(faster), 1), round(max(faster), 1)))
    assert spans == [(0.1, 0.7), (0.3, 1.3)]


def test_wide_passes_were_measured_here_and_modelled_there():
    rows = recorded.rows("pass_cost")
    assert len({(r["machine"], r["model"], r["rows"], r["tokens"]) for r in rows}) == (
        len(rows)
    )
    for machine, models in (("laptop", 2), ("v5e-1", 2)):
        own = [row for row in rows if row["machine"] == machine]
        assert len({row["model"] for row in own}) == models
        for rows_at_once in pass_cost.ROWS:
            found = {r["tokens"] for r in own if r["rows"] == rows_at_once}
            assert found == set(pass_cost.widths(rows_at_once))
        assert all(row["ms"] > 0 for row in own)


@pytest.mark.parametrize("count", [1, 3])
def test_a_pass_reads_its_tokens_after_those_in_the_cache(count, monkeypatch):
    monkeypatch.setattr(pass_cost, "SEEN", 5)
    monkeypatch.setattr(pass_cost, "ROOM", 4)
    model = tiny_models.model("qwen2")
    graph, state = nnx.split(model)
    rng = np.random.default_rng(0)
    text = jnp.asarray(rng.integers(1, 19, (2, 1, 5 + count)), jnp.int32)
    places = jnp.broadcast_to(jnp.arange(5 + count), text.shape)
    truth, kv = model(text, places)
    cache = pass_cost.empty(model.config, 2, "float32", count)
    cache = cache._replace(
        keys=cache.keys.at[..., :5].set(kv.keys[..., :5]),
        values=cache.values.at[..., :5, :].set(kv.values[..., :5, :]),
    )
    found, cache = pass_cost.program(graph)(state, cache, text[..., 5:])
    best = model.logits(truth).argmax(axis=-1)
    np.testing.assert_array_equal(found, best[..., 5:])
    np.testing.assert_allclose(cache.keys[..., : 5 + count], kv.keys, atol=1e-5)


def test_the_truncated_model_has_the_first_layer_and_the_last():
    target = tiny_models.model("gemma3_text", layers=4)
    short = speculative.truncated(target)
    assert short.config.layers == speculative.LAYERS == 2
    for own, all_layers in zip(
        jax.tree.leaves(nnx.state(short.layers)),
        jax.tree.leaves(nnx.state(target.layers)),
        strict=True,
    ):
        np.testing.assert_array_equal(own, all_layers[jnp.array([0, 3])])
    np.testing.assert_array_equal(short.embed[...], target.embed[...])


def test_questions_that_ask_for_a_copy_are_eight_and_hold_their_text():
    asked = copying.copied()
    assert len(set(asked)) == 8 and len(set(copying.free())) == 4
    for question in asked:
        text = question.partition("\n\n")[2]
        assert text.count(".") == 5 and len(text.split()) >= 30
