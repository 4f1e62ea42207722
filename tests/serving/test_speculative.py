"""A drafter changes how long an answer takes, and nothing else."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx
from scipy import stats

from helpers.batches import prompt_batches
from helpers.batches.prompt_batches import pad_prompts
from helpers.generation import sampling
from helpers.generation.rollouts import Rollouts
from helpers.model import lora
from helpers.model.fast import unrolled
from helpers.model.scoring import group_logprobs
from helpers.rewards.functions import RewardSet
from helpers.serving import speculative
from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.serving.speculative import SpeculativeTurn
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

EOS = 0
SHARP = 3.0


def prompts_and_keys(prompts, group, vocab=tiny_models.VOCAB, seed=0):
    """Prompts of different lengths, their mask, and keys."""
    rng = np.random.default_rng(seed)
    rows = [list(rng.integers(1, vocab, size=3 + 2 * i)) for i in range(prompts)]
    tokens, mask = pad_prompts(rows, (3 + 2 * prompts,))
    return tokens, mask, sampling.row_keys(jax.random.key(seed), 0, prompts, group)


def drafters(model, family, block):
    """From one that is often wrong to the target itself."""
    near = target(family)
    rng = np.random.default_rng(5)
    noisy = jax.tree.map(
        lambda x: x + 0.05 * rng.normal(size=x.shape), nnx.state(near, nnx.Param)
    )
    nnx.update(near, noisy)
    return {
        "lookup": PromptLookup(block),
        "near": DraftModel(near, block),
        "itself": DraftModel(model, block),
    }


def target(family):
    """Gemma 4 has a layer of each kind."""
    few = {"kinds": "lf", "sharing": 0} if family == "gemma4_text" else {}
    return tiny_models.model(family, sharpness=SHARP, **few)


GREEDY = [("gemma3_text", "lookup", 4), ("llama", "itself", 3)]
GREEDY += [pytest.param("gemma4_text", "near", 3, marks=pytest.mark.slow)]


@pytest.mark.parametrize("family, name, block", GREEDY)
def test_greedy_answers_are_those_without_a_drafter(family, name, block):
    model = target(family)
    model = lora.quantize(model) if family == "llama" else model  # int8
    rows, settings = prompts_and_keys(4, 2), {"max_tokens": 13, "eos_ids": (EOS, 3)}
    plain = sampling.generate(model, *rows, temperature=0, **settings)
    drafter = drafters(model, family, block)[name]
    ours = speculative.generate(model, drafter, *rows, temperature=0, **settings)
    for one, other in zip(ours.completions, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    tokens = np.asarray(plain.mask).sum(axis=-1)
    assert (ours.accepted + ours.passes + 1 >= tokens).all()
    if name == "itself":
        full = -(-(tokens - 1) // (block + 1))
        np.testing.assert_array_equal(ours.passes, full)


def test_unrolled_layers_compute_what_the_stack_does(monkeypatch):
    """As they are taken in bfloat16, here in float32, with adapters."""
    base = tiny_models.model("llama", sharpness=SHARP, layers=2)
    model = tiny_models.adapted(base, targets=("q", "down"))
    drafter = DraftModel(tiny_models.model("llama", sharpness=SHARP, layers=1), 4)
    rows, settings = prompts_and_keys(3, 2), {"max_tokens": 13, "eos_ids": (EOS, 3)}
    settings["temperature"] = 0  # so that plain answers, soon compiled, are the same
    plain = sampling.generate(model, *rows, **settings)
    unrolled_models = []
    monkeypatch.setattr(
        unrolled, "pays", lambda model: not unrolled_models.append(model)
    )
    ours = speculative.generate(model, drafter, *rows, **settings)
    assert len(unrolled_models) == 2
    for one, other in zip(ours.completions, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


logprobs_of = nnx.jit(lambda model, batch: group_logprobs(model, batch)[0])


def exact(model, prompt, steps, vocab):
    """The probability of every answer of so many tokens, those after EOS merged."""
    answers = list(itertools.product(range(vocab), repeat=steps))
    batch = {
        "prompt": jnp.array([prompt]),
        "prompt_mask": jnp.ones((1, len(prompt)), jnp.int32),
        "completion": jnp.array([answers]),
    }
    law = {}
    scores = np.asarray(logprobs_of(model, batch)[0])
    for answer, logprobs in zip(answers, scores, strict=True):
        ends = answer.index(EOS) + 1 if EOS in answer else steps
        law[answer[:ends]] = float(np.exp(logprobs[:ends].sum()))
    return law


def test_sampled_answers_are_distributed_as_the_model_says():
    """With a drafter of logits; one without has its test in test_verify."""
    vocab, steps, samples = 4, 3, 6_000
    model = tiny_models.model("llama", vocab=vocab, sharpness=2.0)
    drafter = DraftModel(tiny_models.model("qwen3", 4, vocab=vocab), 2)
    prompt = [1, 2, 1, 2, 3, 1, 2]
    law = exact(model, prompt, steps, vocab)
    assert sum(law.values()) == pytest.approx(1, abs=1e-4)
    keys = sampling.row_keys(jax.random.key(3), 0, 1, samples)
    rows = np.array([prompt]), np.ones((1, len(prompt)), int), keys
    ours = speculative.generate(model, drafter, *rows, max_tokens=steps, eos_ids=(EOS,))
    tokens, mask = (np.asarray(x[0]) for x in ours.completions[:2])
    counts = dict.fromkeys(law, 0)
    for row, real in zip(tokens, mask, strict=True):
        counts[tuple(int(x) for x in row[: real.sum()])] += 1
    often = [answer for answer, p in law.items() if p * samples >= 5]
    observed = [counts[answer] for answer in often]
    expected = [law[answer] * samples for answer in often]
    rest = samples - sum(observed), samples - sum(expected)
    assert stats.chisquare([*observed, rest[0]], [*expected, rest[1]])[1] > 1e-4


def test_a_drafter_of_another_vocabulary_is_refused():
    drafter = DraftModel(tiny_models.model(vocab=23), 2)
    with pytest.raises(ValueError, match="23 tokens and the target 19"):
        speculative.generate(
            tiny_models.model(),
            drafter,
            *prompts_and_keys(1, 1),
            max_tokens=2,
            eos_ids=(EOS,),
        )


# Rollouts with a drafter.

TOKENIZER = train_tokenizer(["Mia has two apples.", "Ben buys nine pears."], 300)
ROWS = [{"question": f"{i}?" + " one" * (i % 4), "answer": str(i)} for i in range(8)]


def lengths(prompts, completions, **_):
    """A reward that tells answers apart."""
    return [len(text) % 5 / 4 for text in completions]


def small_model(seed=0, layers=2):
    return tiny_models.model("qwen3", seed, vocab=len(TOKENIZER), layers=layers)


def policy():
    return tiny_models.adapted(small_model(), targets=("q", "down"))


class Tempered(SpeculativeTurn):
    """Samples at another temperature than 1."""

    def sampled(self, model, prompts, keys, **settings):
        return super().sampled(model, prompts, keys, **settings | {"temperature": 0.6})


def rollouts(model, drafter):
    source = prompt_batches.prompts(ROWS, TOKENIZER, batch=4, buckets=(32,), seed=0)
    settings = {"group": 4, "max_tokens": 24, "seed": 3, "mask_truncated": False}
    turn = Tempered(drafter)
    reward = RewardSet({lengths: 1.0})
    return Rollouts(model, source, reward, TOKENIZER, environment=turn, **settings)


def draft_model(seed=0):
    return DraftModel(small_model(seed, layers=1), 3)


@pytest.fixture
def often_ends(monkeypatch):
    """One token in twelve ends an answer."""
    often = tuple(range(0, len(TOKENIZER), 12))
    monkeypatch.setattr(chat, "eos_ids", lambda tokenizer: often)


def test_log_probs_of_rollouts_are_those_of_the_model(often_ends):
    """With adapters, and untempered."""
    model = policy()
    source = rollouts(model, draft_model())
    batch = next(source)
    names = "prompt", "prompt_mask", "completion"
    theirs = logprobs_of(model, {name: jnp.asarray(batch[name]) for name in names})
    real = batch["loss_mask"] > 0
    np.testing.assert_allclose(batch["logprobs"], np.where(real, theirs, 0), atol=3e-5)
    assert not batch["completion"][~real].any() and not real.all()
    assert source.metrics["tokens_per_pass"] >= 1


def test_a_run_goes_on_with_the_same_drafter_only(often_ends):
    model = policy()
    source = rollouts(model, draft_model())
    next(source)
    state = source.get_state()
    expected = next(source)
    again = rollouts(policy(), draft_model())
    again.set_state(state)
    np.testing.assert_array_equal(next(again)["completion"], expected["completion"])
    for other in (
        draft_model(1),
        PromptLookup(3),
        DraftModel(small_model(layers=1), 2),
    ):
        with pytest.raises(ValueError, match="drafter"):
            rollouts(policy(), other).set_state(state)
