"""Generation: the right tokens, with the right probabilities, whatever the batch."""

import functools

import jax
import jax.numpy as jnp
import naive_decoder
import numpy as np
import pytest
from scipy import stats
from tiny_models import (
    cached_model,
    cached_tensors,
    group_batch,
    needs_bfloat16,
    random_groups,
)
from tiny_models import model as make

from helpers.generation.sampling import generate, row_keys
from helpers.model.scoring import group_logprobs

PROMPTS, _ = random_groups(seed=4)
BATCH = group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
EOS = (0, 1)


def sample(model, prompts=None, keys=None, *, group=4, bucket=None, **settings):
    """NumPy Completions for lists of ids."""
    prompts = PROMPTS if prompts is None else prompts
    batch = group_batch(prompts, [[[0]]] * len(prompts), bucket)
    if keys is None:
        keys = row_keys(jax.random.key(0), 0, len(prompts), group)
    settings = {"max_tokens": 10, "eos_ids": EOS} | settings
    return jax.device_get(
        generate(model, batch["prompt"], batch["prompt_mask"], keys, **settings)
    )


@pytest.mark.parametrize("family", ["gemma3_text", "qwen2"])
def test_greedy_with_a_cache_is_a_full_forward_for_every_token(family):
    """Beyond the window, from prompts of unequal length."""
    truth, hf = cached_tensors(family)
    model = cached_model(family)
    ours = sample(model, group=1, temperature=0, eos_ids=())
    assert ours.mask.all() and not ours.ended.any()
    for p, prompt in enumerate(PROMPTS):
        text = list(prompt)
        for t in range(10):
            scores = naive_decoder.log_softmax(
                naive_decoder.logits(truth, hf, text)[-1]
            )
            assert ours.tokens[p, 0, t] == scores.argmax(), (p, t)
            np.testing.assert_allclose(ours.logprobs[p, 0, t], scores.max(), atol=1e-5)
            text.append(int(scores.argmax()))


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_k": 5}])
def test_log_probs_are_those_of_the_trainer(settings):
    """At temperature 1 and over the full vocabulary, however the tokens were chosen."""
    model = cached_model()
    ours = sample(model, **settings)
    batch = BATCH | {"completion": jnp.asarray(ours.tokens)}
    theirs, _ = jax.jit(lambda: group_logprobs(model, batch))()
    real = ours.mask > 0
    assert np.abs(np.where(real, ours.logprobs - theirs, 0)).max() < 1e-5
    assert np.all(ours.logprobs[~real] == 0) and not real.all()


def test_an_answer_ends_with_its_eos_and_nothing_follows():
    """The mask, the padding and `ended` follow from where the first EOS stands."""
    ours = sample(cached_model(), group=16, eos_ids=(0, 1, 2))
    ends = 0
    for tokens, mask, ended in zip(
        ours.tokens.reshape(-1, 10),
        ours.mask.reshape(-1, 10),
        ours.ended.reshape(-1),
        strict=True,
    ):
        stops = np.flatnonzero(np.isin(tokens, (0, 1, 2)) & (mask > 0))
        length = stops[0] + 1 if len(stops) else 10
        np.testing.assert_array_equal(mask, np.arange(10) < length)
        assert np.all(tokens[length:] == 0) and ended == (len(stops) > 0)
        ends += ended
    assert 5 < ends < 48


def test_an_answer_depends_on_its_key_and_prompt_alone():
    """Other neighbours, another place, a larger bucket or group: the same answer."""
    model = cached_model()
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), 4)
    whole = sample(model, keys=keys)
    turned = sample(model, PROMPTS[::-1], keys[::-1, ::-1])
    alone = sample(model, PROMPTS[1:2], keys[1:2, 2:3])
    roomy = sample(model, keys=keys, bucket=16)
    for name in ("tokens", "mask", "ended"):
        expected = getattr(whole, name)
        np.testing.assert_array_equal(getattr(turned, name)[::-1, ::-1], expected)
        np.testing.assert_array_equal(getattr(alone, name)[0, 0], expected[1, 2])
        np.testing.assert_array_equal(getattr(roomy, name), expected)
    np.testing.assert_allclose(roomy.logprobs, whole.logprobs, atol=1e-5)


@functools.cache
def exact_pairs(temperature, top_k, top_p):
    """P(first, second) of two sampled tokens after one prompt, (7, 7) float64."""
    truth, hf = cached_tensors(vocab=7, layers=2, sharpness=0.6, seed=2)

    def after(text):
        scores = naive_decoder.logits(truth, hf, text)[-1]
        p = np.exp(naive_decoder.log_softmax(scores / temperature))
        order = np.argsort(-p)
        keep = order[: top_k or 7]
        p = np.where(np.isin(np.arange(7), keep), p, 0)
        p = p / p.sum()
        held, kept = 0.0, []
        for token in order:
            if held < top_p and p[token] > 0:
                kept.append(token)
            held += p[token]
        p = np.where(np.isin(np.arange(7), kept), p, 0)
        return p / p.sum()

    prompt = [3, 5, 2]
    return np.array([after(prompt)[a] * after([*prompt, a]) for a in range(7)])


@pytest.mark.parametrize(
    "temperature, top_k, top_p",
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.7), (1.5, 5, 0.8)],
)
def test_two_tokens_are_drawn_with_their_exact_probabilities(temperature, top_k, top_p):
    """Chi-square over all 49 pairs, 6,000 draws; forbidden pairs never appear."""
    expected = exact_pairs(temperature, top_k, top_p).reshape(-1) * 6000
    ours = sample(
        cached_model(vocab=7, layers=2, sharpness=0.6, seed=2),
        [[3, 5, 2]] * 4,
        group=1500,
        max_tokens=2,
        eos_ids=(),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
    )
    first, second = ours.tokens.reshape(-1, 2).T
    counts = np.bincount(first * 7 + second, minlength=49)
    assert counts[expected == 0].sum() == 0
    often = expected >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    chi_square = ((observed - wanted) ** 2 / wanted).sum()
    assert stats.chi2.sf(chi_square, len(wanted) - 1) > 1e-3, (observed, wanted)
    uniform = np.full(len(wanted), 6000 / len(wanted))
    assert ((observed - uniform) ** 2 / uniform).sum() > 10 * len(wanted)


def test_a_bfloat16_model_samples_with_the_log_probs_of_its_trainer():
    needs_bfloat16()
    model = make(dtype=jnp.bfloat16)
    ours = sample(model, eos_ids=())
    batch = BATCH | {"completion": jnp.asarray(ours.tokens)}
    theirs, _ = jax.jit(lambda: group_logprobs(model, batch))()
    assert ours.logprobs.dtype == np.float32
    assert np.abs(ours.logprobs - theirs).max() < 0.2
