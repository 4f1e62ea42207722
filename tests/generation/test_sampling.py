"""Generation: the right tokens, with the right probabilities, whatever the batch."""

import jax
import jax.numpy as jnp
import naive_decoder
import numpy as np
import pytest
from scipy import stats
from tiny_models import (
    VOCAB,
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


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-5), ("bfloat16", 0.2)])
def test_log_probs_are_those_of_the_trainer(dtype, atol):
    """At temperature 1, however the tokens were chosen."""
    if dtype == "bfloat16":
        needs_bfloat16()
    model = make("llama", layers=2, dtype=jnp.dtype(dtype))
    ours = sample(model, temperature=0.6)
    batch = BATCH | {"completion": jnp.asarray(ours.tokens)}
    theirs, _ = jax.jit(lambda: group_logprobs(model, batch))()
    real = ours.mask > 0
    assert np.abs(np.where(real, ours.logprobs - theirs, 0)).max() < atol
    assert np.all(ours.logprobs[~real] == 0) and not real.all()


def test_an_answer_ends_with_its_eos_and_nothing_follows():
    """The mask, the padding and `ended` follow from where the first EOS stands."""
    ours = sample(cached_model("llama"), group=16, eos_ids=(0, 1, 2))
    for place in np.ndindex(ours.ended.shape):
        tokens, mask = ours.tokens[place], ours.mask[place]
        stops = np.flatnonzero(np.isin(tokens, (0, 1, 2)) & (mask > 0))
        length = stops[0] + 1 if len(stops) else 10
        np.testing.assert_array_equal(mask, np.arange(10) < length)
        assert np.all(tokens[length:] == 0)
        assert ours.ended[place] == (len(stops) > 0)
    assert 5 < ours.ended.sum() < 48


def test_an_answer_depends_on_its_key_and_prompt_alone():
    """Other neighbours, another place, a larger bucket or group: the same answer."""
    model = cached_model("llama")
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), 4)
    whole = sample(model, keys=keys)
    turned = sample(model, PROMPTS[::-1], keys[::-1, ::-1])
    alone = sample(model, PROMPTS[1:2], keys[1:2, 2:3], bucket=16)
    for name in ("tokens", "mask", "ended"):
        expected = getattr(whole, name)
        np.testing.assert_array_equal(getattr(turned, name)[::-1, ::-1], expected)
        np.testing.assert_array_equal(getattr(alone, name)[0, 0], expected[1, 2])
    np.testing.assert_allclose(alone.logprobs[0, 0], whole.logprobs[1, 2], atol=1e-5)


def exact_pairs(temperature):
    """P(first, second) of two sampled tokens after one prompt, (7, 7) float64."""
    truth, hf = cached_tensors(vocab=7, layers=2, sharpness=0.6, seed=2)

    def after(text):
        scores = naive_decoder.logits(truth, hf, text)[-1]
        return np.exp(naive_decoder.log_softmax(scores / temperature))

    prompt = [3, 5, 2]
    return np.array([after(prompt)[a] * after([*prompt, a]) for a in range(7)])


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_two_tokens_are_drawn_with_their_exact_probabilities(temperature):
    """Chi-square over all 49 pairs, 6,000 draws."""
    expected = exact_pairs(temperature).reshape(-1) * 6000
    ours = sample(
        cached_model(vocab=7, layers=2, sharpness=0.6, seed=2),
        [[3, 5, 2]] * 4,
        group=1500,
        max_tokens=2,
        eos_ids=(),
        temperature=temperature,
    )
    first, second = ours.tokens.reshape(-1, 2).T
    counts = np.bincount(first * 7 + second, minlength=49)
    often = expected >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    chi_square = ((observed - wanted) ** 2 / wanted).sum()
    assert stats.chi2.sf(chi_square, len(wanted) - 1) > 1e-3, (observed, wanted)
    uniform = np.full(len(wanted), 6000 / len(wanted))
    assert ((observed - uniform) ** 2 / uniform).sum() > 10 * len(wanted)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"mask": np.array([[1] * 4, [0] * 4])}, "Prompt 1 is empty"),
        ({"mask": np.array([[1] * 4, [0, 1, 1, 1]])}, "Prompt 1 is not padded on the"),
        (
            {"prompts": np.array([[2, 3, 4, 5], [VOCAB, 7, 0, 0]])},
            f"token {VOCAB} in 'prompt'",
        ),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"max_tokens": 0}, "max_tokens=0"),
    ],
)
def test_what_would_be_answered_as_another_question_is_refused(changes, message):
    prompts, mask = np.array([[2, 3, 4, 5], [6, 7, 0, 0]]), np.array([[1] * 4] * 2)
    mask[1, 2:] = 0
    prompts, mask = changes.pop("prompts", prompts), changes.pop("mask", mask)
    keys = row_keys(jax.random.key(0), 0, 2, 3)
    settings = {"max_tokens": 3, "eos_ids": (1,)} | changes
    with pytest.raises(ValueError, match=message):
        generate(cached_model(), prompts, mask, keys, **settings)
