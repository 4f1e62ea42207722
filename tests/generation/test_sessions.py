"""Conversations in one cache: what is said and heard, as a decoder without one sees."""

import functools

import jax
import naive_decoder
import numpy as np
import pytest
from tiny_models import VOCAB, cached_model, cached_tensors, group_batch, random_groups

from helpers.generation import sessions
from helpers.generation.sampling import generate, row_keys
from helpers.model.fast import unrolled

PROMPTS, _ = random_groups(seed=4)
GROUP, BUDGET, HEARD, TURNS = 3, 6, 5, 3
EOS = (0, 1, 2)


def heard_by(p, g, turn):
    """What an answer hears after a turn: unequal lengths, and some hear nothing."""
    draw = np.random.default_rng([p, g, turn])
    return draw.integers(3, VOCAB, draw.integers(0, HEARD + 1)).tolist()


@functools.cache
def conversations(family, temperature, apart=False):
    """[(prompt, [(said, logprobs, heard), ...]), ...] of every answer.

    `apart`: with layers unrolled, as those in bfloat16 are.
    """
    if apart:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unrolled, "pays", lambda model: True)
            jax.clear_caches()
            try:
                return conversations.__wrapped__(family, temperature)
            finally:
                jax.clear_caches()
    model = cached_model(family)
    batch = group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), GROUP)
    size = sessions.columns(TURNS, BUDGET, HEARD)
    session = sessions.prefill(
        model, batch["prompt"], batch["prompt_mask"], GROUP, size
    )
    shape = len(PROMPTS), GROUP
    told = {(p, g): [] for p in range(shape[0]) for g in range(shape[1])}
    active = np.ones(shape, bool)
    for turn in range(TURNS):
        session, said = sessions.generate(
            model,
            session,
            keys,
            active,
            max_tokens=BUDGET,
            eos_ids=EOS,
            temperature=temperature,
        )
        tokens, mask, logprobs, _ = jax.device_get(said)
        assert not mask[~active].any()
        results = np.zeros((*shape, HEARD), np.int32)
        real = np.zeros((*shape, HEARD), np.int32)
        for p, g in zip(*np.nonzero(active), strict=True):
            n, heard = mask[p, g].sum(), heard_by(p, g, turn)
            told[p, g].append((tokens[p, g, :n], logprobs[p, g, :n], heard))
            results[p, g, : len(heard)], real[p, g, : len(heard)] = heard, 1
        active = real.any(axis=-1)
        if turn < TURNS - 1:  # there are no columns for what is heard after the last
            session = sessions.append_tokens(model, session, results, real)
    return [(PROMPTS[p], told[p, g]) for p, g in told]


@pytest.mark.parametrize(
    ("family", "apart"),
    [
        ("gemma3_text", False),
        ("qwen2", False),
        pytest.param("gemma4_text", False, marks=pytest.mark.slow),
        pytest.param("gemma4_text like 31B", False, marks=pytest.mark.slow),
        ("gemma3_text", True),
    ],
)
@pytest.mark.parametrize("temperature", [0, 1])
def test_every_token_is_predicted_from_all_that_was_said_and_heard(
    family, apart, temperature
):
    """Beyond the window, turns of unequal length; a full forward for each sentence."""
    truth, hf = cached_tensors(family)
    turns = 0
    for prompt, told in conversations(family, temperature, apart):
        text = list(prompt)
        for said, logprobs, heard in told:
            turns += 1
            scores = naive_decoder.log_softmax(
                naive_decoder.logits(truth, hf, text + said.tolist())
            )[len(text) - 1 : -1]
            chosen = scores[np.arange(len(said)), said]
            np.testing.assert_allclose(logprobs, chosen, atol=1e-5)
            if temperature == 0:
                np.testing.assert_array_equal(said, scores.argmax(axis=-1))
            text += said.tolist() + heard
    assert turns > len(PROMPTS) * GROUP * 1.5  # most conversations go on


def test_the_first_turn_is_what_generate_samples():
    model = cached_model()
    batch = group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
    prompts = batch["prompt"], batch["prompt_mask"]
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), GROUP)
    limits = {"max_tokens": BUDGET, "eos_ids": EOS}
    alone = generate(model, *prompts, keys, **limits)
    session = sessions.prefill(model, *prompts, GROUP, BUDGET)
    everyone = np.ones((len(PROMPTS), GROUP), bool)
    _, first = sessions.generate(model, session, keys, everyone, **limits)
    for name, (a, b) in zip(alone._fields, zip(alone, first, strict=True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, err_msg=name)


def test_later_turns_have_their_own_noise():
    """The same keys in every turn, yet no turn repeats the numbers of another."""
    model = cached_model()
    batch = group_batch([[5, 6, 7]] * 64, [[[0]]] * 64)
    keys = row_keys(jax.random.key(0), 0, 64, 1)
    everyone = np.ones((64, 1), bool)
    session = sessions.prefill(
        model, batch["prompt"], batch["prompt_mask"], 1, sessions.columns(2, 1, 1)
    )
    limits = {"max_tokens": 1, "eos_ids": ()}
    session, one = sessions.generate(model, session, keys, everyone, **limits)
    same = np.full((64, 1, 1), 5, np.int32)
    session = sessions.append_tokens(model, session, same, np.ones_like(same))
    _, two = sessions.generate(model, session, keys, everyone, **limits)
    agree = np.mean(np.asarray(one.tokens) == np.asarray(two.tokens))
    assert agree < 0.5
