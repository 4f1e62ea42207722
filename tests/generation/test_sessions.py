"""Conversations in one cache: every token as a decoder without a cache predicts it."""

import jax
import naive_decoder
import numpy as np
import pytest
from tiny_models import VOCAB, cached_model, cached_tensors, group_batch, random_groups

from helpers.generation import sessions
from helpers.generation.sampling import generate, row_keys
from helpers.model.fast import unrolled

PROMPTS, _ = random_groups(seed=4)
GROUP, BUDGET, RESULT, TURNS = 3, 6, 5, 3
EOS = (0, 1, 2)


def result_of(p, g, turn):
    """What is appended after a turn: unequal lengths, and nothing to some answers."""
    draw = np.random.default_rng([p, g, turn])
    return draw.integers(3, VOCAB, draw.integers(0, RESULT + 1)).tolist()


def conversations(model, temperature):
    """[(prompt, [(tokens, logprobs, result), ...]), ...] of every answer."""
    batch = group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), GROUP)
    size = sessions.columns(TURNS, BUDGET, RESULT)
    prompts = batch["prompt"], batch["prompt_mask"]
    session = sessions.prefill(model, *prompts, GROUP, size)
    shape = len(PROMPTS), GROUP
    turns = {place: [] for place in np.ndindex(shape)}
    active = np.ones(shape, bool)
    limits = {"max_tokens": BUDGET, "eos_ids": EOS, "temperature": temperature}
    for turn in range(TURNS):
        session, turn_PGT = sessions.generate(model, session, keys, active, **limits)
        tokens, mask, logprobs, _ = jax.device_get(turn_PGT)
        assert not mask[~active].any()
        results, real = np.zeros((2, *shape, RESULT), np.int32)
        for p, g in zip(*np.nonzero(active), strict=True):
            n, result = mask[p, g].sum(), result_of(p, g, turn)
            turns[p, g].append((tokens[p, g, :n], logprobs[p, g, :n], result))
            results[p, g, : len(result)], real[p, g, : len(result)] = result, 1
        active = real.any(axis=-1)
        if turn < TURNS - 1:  # there are no columns for a result after the last turn
            session = sessions.append_tokens(model, session, results, real)
    return [(PROMPTS[p], turns[p, g]) for p, g in turns]


@pytest.mark.parametrize(
    ("family", "temperature", "unroll"),
    [
        ("gemma3_text", 1, False),
        ("gemma3_text", 0, True),
        pytest.param("gemma4_text", 0, False, marks=pytest.mark.slow),
        pytest.param("gemma4_text like 31B", 1, False, marks=pytest.mark.slow),
    ],
)
def test_every_token_is_predicted_from_all_that_stands_before_it(
    family, temperature, unroll, monkeypatch
):
    """Beyond the window, turns of unequal length; a full forward for each sentence.

    `unroll`: with layers unrolled, as those in bfloat16 are.
    """
    changes = {}
    if unroll:
        monkeypatch.setattr(unrolled, "pays", lambda model: True)
        changes = {"norm_eps": 2e-5}  # shares no compiled program with other tests
    truth, hf = cached_tensors(family, **changes)
    count = 0
    for prompt, turns in conversations(cached_model(family, **changes), temperature):
        text = list(prompt)
        for tokens, logprobs, result in turns:
            count += 1
            logits = naive_decoder.logits(truth, hf, text + tokens.tolist())
            scores = naive_decoder.log_softmax(logits)[len(text) - 1 : -1]
            chosen = scores[np.arange(len(tokens)), tokens]
            np.testing.assert_allclose(logprobs, chosen, atol=1e-5)
            if temperature == 0:
                np.testing.assert_array_equal(tokens, scores.argmax(axis=-1))
            text += tokens.tolist() + result
    assert count > len(PROMPTS) * GROUP * 1.5  # most conversations go on


def test_the_first_turn_is_what_generate_samples_and_the_next_has_its_own_noise():
    """The same keys in every turn, yet no turn repeats the numbers of another."""
    model = cached_model("llama")
    batch = group_batch([[5, 6, 7]] * 64, [[[0]]] * 64)
    prompts = batch["prompt"], batch["prompt_mask"]
    keys = row_keys(jax.random.key(0), 0, 64, 1)
    everyone = np.ones((64, 1), bool)
    session = sessions.prefill(model, *prompts, 1, sessions.columns(2, 2, 1))
    limits = {"max_tokens": 2, "eos_ids": ()}
    alone = generate(model, *prompts, keys, **limits)
    session, first = sessions.generate(model, session, keys, everyone, **limits)
    for name, (a, b) in zip(alone._fields, zip(alone, first, strict=True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, err_msg=name)
    same = np.full((64, 1, 1), 5, np.int32)
    session = sessions.append_tokens(model, session, same, np.ones_like(same))
    _, second = sessions.generate(model, session, keys, everyone, **limits)
    assert np.mean(np.asarray(first.tokens) == np.asarray(second.tokens)) < 0.5


def test_turns_alternate_with_results_and_fit_into_the_cache():
    """Else a column would be written over, or a token predicted from too little."""
    model, keys = cached_model("llama"), row_keys(jax.random.key(0), 0, 64, 1)
    batch = group_batch([[5, 6, 7]] * 64, [[[0]]] * 64)  # the shapes of the test above
    prompts = batch["prompt"], batch["prompt_mask"]
    limits = {"max_tokens": 2, "eos_ids": ()}
    both = np.ones((64, 1), bool)
    first = np.arange(64)[:, None] < 1
    result = 5 * first[..., None].astype(np.int32), first[..., None].astype(np.int32)

    def begun(active):
        session = sessions.prefill(model, *prompts, 1, sessions.columns(2, 2, 1))
        return sessions.generate(model, session, keys, active, **limits)[0]

    with pytest.raises(ValueError, match="alternate with"):
        sessions.generate(model, begun(first), keys, both, **limits)
    with pytest.raises(ValueError, match="alternate with"):
        sessions.append_tokens(model, begun(~first), *result)
    session = sessions.append_tokens(model, begun(both), *result)
    with pytest.raises(ValueError, match="5 columns, 3 of them used.* needs 7"):
        sessions.generate(model, session, keys, first, **limits | {"max_tokens": 8})
