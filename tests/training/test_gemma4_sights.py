"""Gemma 4's pictures in what is sampled and trained, against a pass over all tokens."""

import gemma4_shapes
import gemma4_sights
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tiny_vision import forward, see

from helpers.generation.sampling import generate, row_keys
from helpers.model.scoring import group_logprobs, hidden_targets_mask, token_logprobs

GROUP, BUDGET = 2, 5
SWITCHES = {"both_ways": True, "clipped": True, "standardized": True}
# A layer of each kind, and one that shares keys.
SHAPE = gemma4_shapes.SMALL | {"kinds": "lff", "sharing": 1}
CONFIG = gemma4_sights.config(SHAPE, **SWITCHES)
TOKENS, MASK, _, STRIPS = gemma4_sights.batch(CONFIG.vision)
KEYS = row_keys(jax.random.key(3), 0, len(TOKENS), GROUP)


def model(kind):
    made = gemma4_sights.of_config(CONFIG)
    if kind == "bfloat16":
        graph, state = nnx.split(made)
        made = nnx.merge(graph, jax.tree.map(lambda x: x.astype(jnp.bfloat16), state))
        made.activations = "bfloat16"
    return made


def rows_of(answers_PGT, masks_PGT):
    """Every answer behind its own prompt and pictures: tokens, mask, strips, places."""
    lengths, G = MASK.sum(axis=1), answers_PGT.shape[1]
    shape = len(TOKENS) * G, TOKENS.shape[1] + answers_PGT.shape[2]
    tokens, mask, places = np.full(shape, 5), np.zeros(shape, int), []
    for row in range(len(tokens)):
        p, g = divmod(row, G)
        length, answer = lengths[p], answers_PGT[p, g][masks_PGT[p, g] > 0]
        tokens[row, :length] = TOKENS[p, :length]
        tokens[row, length : length + len(answer)] = answer
        mask[row, : length + len(answer)] = 1
        places.append(range(length, length + len(answer)))
    return tokens, mask, np.repeat(STRIPS, G, axis=0), places


def plainly(model, answers_PGT, masks_PGT):
    """Log-probs of answers by one pass over all tokens, no cache; 0 where none."""
    tokens, mask, strips, places = rows_of(answers_PGT, masks_PGT)
    _, logits = forward(model, tokens, see(model, strips), mask)
    logprobs = np.asarray(jax.nn.log_softmax(logits.astype(jnp.float32)))
    answers = np.zeros(masks_PGT.shape, np.float32)
    for row, here in enumerate(places):
        p, g = divmod(row, masks_PGT.shape[1])
        real = np.flatnonzero(masks_PGT[p, g])
        answers[p, g, real] = [logprobs[row, i - 1, tokens[row, i]] for i in here]
    return answers


def no_images(masks, tokens):
    """The mask up to where an answer spells an image: words there, not pictures."""
    return masks * (np.cumsum(tokens == gemma4_sights.IMAGE, axis=-1) == 0)


@pytest.mark.parametrize(
    "kind, gap",
    [("float32", 1e-4), pytest.param("bfloat16", 0.15, marks=pytest.mark.slow)],
)
def test_what_is_sampled_and_scored_in_groups_is_a_plain_pass(kind, gap):
    """Bfloat16 is compared with float32 arithmetic with the same, rounded weights.

    It is sampled alone: only what decodes is written in another way for it.
    """
    policy = model(kind)
    sampled = generate(
        policy, TOKENS, MASK, KEYS, max_tokens=BUDGET, eos_ids=(0,), images=STRIPS
    )
    tokens, mask = np.asarray(sampled.tokens), np.asarray(sampled.mask)
    if kind == "bfloat16":
        graph, state = nnx.split(policy)
        exact = nnx.merge(graph, jax.tree.map(lambda x: x.astype(jnp.float32), state))
        exact.activations = "float32"
    else:
        exact = policy
    real = no_images(mask, tokens)
    expected = plainly(exact, tokens, real)
    assert real.sum() > 25
    assert np.abs((sampled.logprobs - expected) * real).max() < gap
    if kind == "bfloat16":
        return
    batch = {"prompt": TOKENS, "prompt_mask": MASK, "completion": tokens}
    batch = jax.tree.map(jnp.asarray, batch | {"images": STRIPS})
    graph, state = nnx.split(policy)
    score = jax.jit(lambda state, batch: group_logprobs(nnx.merge(graph, state), batch))
    scored, _ = score(state, batch)
    assert np.abs((scored - expected) * real).max() < gap
    blank = batch | {
        "images": 255
        - batch["images"]
        .at[:, :, : CONFIG.vision.side]
        .set(255 - batch["images"][:, :, : CONFIG.vision.side])
    }  # other pixels, the same shapes
    other, _ = score(state, blank)
    moved = np.abs((other - scored) * real).max(axis=(1, 2))
    assert (moved[[0, 1, 3]] > 1e-3).all() and moved[2] < 1e-6


@nnx.jit
def packed_logprobs(model, batch):
    """Log-probs of the targets of one packed row."""
    hidden, targets, _ = hidden_targets_mask(model, batch)
    return token_logprobs(model, hidden, targets)[0][0, 0]


@pytest.mark.slow
def test_packed_examples_score_as_each_alone_with_its_own_pictures():
    """Two examples in one row, one with two pictures, in the order of the row."""
    policy, lengths = model("float32"), MASK.sum(axis=1)
    order = (1, 0)
    row = np.concatenate([TOKENS[i, : lengths[i]] for i in order])
    places = np.concatenate([np.arange(lengths[i]) for i in order])
    segments = np.repeat([1, 2], lengths[list(order)])
    seen = [[strip for strip in STRIPS[i] if strip.any()] for i in order]
    assert [len(strips) for strips in seen] == [2, 1]
    batch = {
        "tokens": row[None],
        "positions": places[None],
        "segment_ids": segments[None],
        "loss_mask": np.ones((1, len(row)), np.float32),
        "images": np.stack([strip for strips in seen for strip in strips])[None],
    }
    packed = np.asarray(packed_logprobs(policy, jax.tree.map(jnp.asarray, batch)))
    _, logits = forward(policy, TOKENS, see(policy, STRIPS), MASK)
    logprobs, start = np.asarray(jax.nn.log_softmax(logits.astype(jnp.float32))), 0
    for i in order:
        before = np.arange(lengths[i] - 1)
        alone = logprobs[i, before, TOKENS[i, 1 : lengths[i]]]
        here = packed[start : start + lengths[i] - 1]
        np.testing.assert_allclose(here, alone, atol=1e-4)
        start += lengths[i]
