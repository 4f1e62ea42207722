"""The self-checks of notebook 02 refuse the mistakes they are there to find."""

import jax.numpy as jnp
import numpy as np
import pytest

from helpers.exercises import model as checks


def cached_logits(model, tokens_T, position=lambda t: t, keep=lambda t: True):
    """One token at a time; a mistake is a wrong position, or a KV that is dropped."""
    pieces, rows = (), []
    for t, token in enumerate(tokens_T):
        token, where = jnp.full((1, 1, 1), token), jnp.full((1, 1, 1), position(t))
        hidden, kv = model(token, where, earlier=pieces)
        pieces = (*pieces, kv) if keep(t) else pieces
        rows.append(model.logits(hidden)[0, 0, 0])
    return jnp.stack(rows)


def whole_text(model, tokens_T):
    hidden, _ = model(tokens_T[None, None], np.arange(len(tokens_T))[None, None])
    return model.logits(hidden)[0, 0]


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (whole_text, "once per token"),
        (lambda m, t: cached_logits(m, t, position=lambda t: 0), "positions"),
        (lambda m, t: cached_logits(m, t, keep=lambda t: t == 0), "earlier tokens"),
        (lambda m, t: cached_logits(m, t)[0], "shape"),
    ],
)
def test_cached_logits_are_refused_with_the_reason(answer, complaint):
    check = checks.check_cached_logits(answer)
    assert not check.passed and complaint in check.message


def gemma_parameters(hf, *, tables=1, matrices=3, norms=4):
    D, H = hf["hidden_size"], hf["head_dim"]
    heads = 2 * hf["num_attention_heads"] + 2 * hf["num_key_value_heads"]
    layer = D * H * heads + matrices * D * hf["intermediate_size"] + norms * D + 2 * H
    return tables * hf["vocab_size"] * D + hf["num_hidden_layers"] * layer + D


@pytest.mark.parametrize(
    "mistake, complaint",
    [
        ({"tables": 2}, "table"),
        ({"matrices": 2}, "three feed-forward"),
        ({"norms": 2}, "norms"),
    ],
)
def test_parameters_are_refused_with_the_reason(mistake, complaint):
    check = checks.check_parameters(lambda hf: gemma_parameters(hf, **mistake))
    assert not check.passed and complaint in check.message
    assert checks.check_parameters(gemma_parameters).passed


def test_positions_after_padding_are_refused():
    def from_width(mask_PT, steps):
        return np.full((len(mask_PT), 1), mask_PT.shape[1]) + np.arange(steps)

    check = checks.check_answer_positions(from_width)
    assert not check.passed and "padding" in check.message


def laid_out(Tp, Tc, G, behind=True, others=False, prompt=True):
    """A group in one row; a mistake changes what tokens of an answer see, or where."""
    text = np.repeat(np.arange(G + 1), [Tp] + [Tc] * G)
    places = np.concatenate([np.arange(Tp), *[Tp * behind + np.arange(Tc)] * G])
    mask = np.tri(len(text)) * ((text == text[:, None]) | (text == 0) & prompt | others)
    return places, mask > 0


@pytest.mark.parametrize(
    "mistake, complaint",
    [
        ({"behind": False}, "count on"),
        ({"others": True}, "hide the other answers"),
        ({"prompt": False}, "the whole prompt"),
    ],
)
def test_a_group_in_one_row_is_refused_with_the_reason(mistake, complaint):
    check = checks.check_one_row(lambda *sizes: laid_out(*sizes, **mistake))
    assert not check.passed and complaint in check.message
    assert checks.check_one_row(laid_out).passed
