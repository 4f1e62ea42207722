"""Objectives, from text to loss, against plain NumPy; and what must not change them."""

import dataclasses
import functools
from itertools import filterfalse

import jax
import jax.numpy as jnp
import naive_decoder
import numpy as np
import optax
import pytest
from flax import nnx
from run_tables import is_timing
from tiny_models import VOCAB, cached_model, cached_tensors, group_batch, random_groups
from toy_training import Fixed

from helpers.losses import distillation
from helpers.runtime.sharding import make_mesh
from helpers.training import objectives
from helpers.training.optimizers import Optimizer, constant
from helpers.training.trainer import Trainer

SHAPE = {"family": "qwen3", "layers": 1}  # objectives read its log-probs alone
PROMPTS, COMPLETIONS = random_groups(P=4, seed=5)
RNG = np.random.default_rng(8)
OLD_NOISE = 0.3 * RNG.normal(size=(4, 2, 7))
ADVANTAGES = RNG.normal(size=(4, 2)).astype(np.float32)
SAMPLER_NOISE = 0.2 * RNG.normal(size=(4, 2, 7))
MASKED = (1, 1)  # this answer is left out of the loss, as truncated ones are


@functools.cache
def naive_logprobs(seed=0):
    """{(p, g): log-probabilities of that answer's tokens}, float64."""
    truth, hf = cached_tensors(**SHAPE, seed=seed)
    return {
        (p, g): naive_decoder.logprobs(truth, hf, prompt + answer)[len(prompt) - 1 :]
        for p, prompt in enumerate(PROMPTS)
        for g, answer in enumerate(COMPLETIONS[p])
    }


@functools.cache
def naive_scores(seed):
    """{(p, g): log-softmaxed predictions of that answer's tokens (T, V)}, float64."""
    truth, hf = cached_tensors(**SHAPE, seed=seed)
    result = {}
    for p, prompt in enumerate(PROMPTS):
        for g, answer in enumerate(COMPLETIONS[p]):
            scores = naive_decoder.logits(truth, hf, prompt + answer)
            result[p, g] = naive_decoder.log_softmax(scores)[len(prompt) - 1 : -1]
    return result


@functools.cache
def groups():
    """A batch of groups a little off-policy, one answer of it masked.

    The sampler noted other log-probabilities than the trainer found at first.
    """
    batch = group_batch(PROMPTS, COMPLETIONS)
    old = np.zeros(batch["loss_mask"].shape, np.float32)
    for (p, g), logprobs in naive_logprobs().items():
        old[p, g, : len(logprobs)] = logprobs + OLD_NOISE[p, g, : len(logprobs)]
    sampled = (old + SAMPLER_NOISE[..., : old.shape[-1]]).astype(np.float32)
    mask = batch["loss_mask"].at[MASKED].set(0)
    arrays = {"old_logprobs": old, "logprobs": sampled}
    arrays |= {"advantages": ADVANTAGES, "loss_mask": mask}
    return batch | jax.tree.map(jnp.asarray, arrays)


def rows():
    """Two packed rows: the first two prompts with an answer each, and two in one."""
    texts = [(PROMPTS[p], COMPLETIONS[p][0]) for p in range(4)]
    shape = (
        2,
        max(sum(len(a) + len(b) for a, b in pair) for pair in (texts[:2], texts[2:])),
    )
    batch = {
        n: np.zeros(shape, np.int32) for n in ("tokens", "segment_ids", "positions")
    }
    batch["loss_mask"] = np.zeros(shape, np.float32)
    for row in range(2):
        start = 0
        for segment, (prompt, answer) in enumerate(texts[2 * row : 2 * row + 2], 1):
            size = len(prompt) + len(answer)
            here = slice(start, start + size)
            batch["tokens"][row, here] = prompt + answer
            batch["segment_ids"][row, here] = segment
            batch["positions"][row, here] = np.arange(size)
            batch["loss_mask"][row, here] = [0] * len(prompt) + [1] * len(answer)
            start += size
    return jax.tree.map(jnp.asarray, batch)


def run(objective, batch, *frozen):
    """(loss, metrics) of an objective, compiled."""
    graph, state = nnx.split(cached_model(**SHAPE))
    return jax.jit(lambda state: objective(nnx.merge(graph, state), batch, *frozen))(
        state
    )


@jax.jit
def look(state):
    """What policy gradients read of a model; their switches act on it later."""
    graph = nnx.graphdef(cached_model(**SHAPE))
    return objectives.policy_gradient().scores(nnx.merge(graph, state), groups())


@functools.cache
def scores(seed=0):
    return look(nnx.state(cached_model(**SHAPE, seed=seed)))


def policy_gradient(batch, *frozen, make=objectives.policy_gradient, **switches):
    """(loss, metrics) of the old scores in the batch and the model's own."""
    loss = make(**switches).loss
    return jax.jit(lambda scores: loss(scores, batch, *frozen))(scores())


def counted():
    """The answers under the loss mask."""
    return [(p, g) for p in range(4) for g in range(2) if (p, g) != MASKED]


def test_sft_on_packed_rows_is_the_mean_surprise_of_the_answers_tokens():
    loss, metrics = run(objectives.sft(), rows())
    logprobs, scores = naive_logprobs(), naive_scores(0)
    answers = [(p, 0) for p in range(4)]
    surprise = -np.concatenate([logprobs[pg] for pg in answers])
    np.testing.assert_allclose(loss, surprise.mean(), rtol=1e-5)
    assert metrics["weight"] == len(surprise)
    predicted = np.concatenate([scores[pg] for pg in answers])
    entropy = -(np.exp(predicted) * predicted).sum(axis=-1).mean()
    np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-5)


def naive_policy_gradient(clip, level, aggregate, beta=0.0, entropy_bonus=0.0):
    """The loss by loops over answers and tokens, from the transcription's log-probs."""
    new, reference, per_answer, per_token = naive_logprobs(), naive_logprobs(1), [], []
    for p, g in counted():
        predicted = naive_scores(0)[p, g]
        entropy = -(np.exp(predicted) * predicted).sum(axis=-1)
        advantage = ADVANTAGES[p, g] - entropy_bonus * (new[p, g] + entropy)
        logprobs = new[p, g]
        ratio = np.exp(-OLD_NOISE[p, g, : len(logprobs)])
        if level == "sequence":
            ratio = np.full(len(ratio), np.exp(-OLD_NOISE[p, g, : len(ratio)].mean()))
        clipped = np.clip(ratio, 1 - clip[0], 1 + clip[1])
        tokens = -np.minimum(ratio * advantage, clipped * advantage)
        gap = reference[p, g] - logprobs
        unbias = np.exp(-OLD_NOISE[p, g, : len(logprobs)])
        tokens = tokens + beta * unbias * (np.exp(gap) - gap - 1)
        per_token += tokens.tolist()
        per_answer.append(tokens.mean())
    return np.mean(per_token if aggregate == "token-mean" else per_answer)


@pytest.mark.parametrize(
    "switches",
    [
        {"clip": (0.2, 0.28), "level": "token", "aggregate": "token-mean"},
        {"clip": (0.1, 0.1), "level": "token", "aggregate": "sequence-mean"},
        {"clip": (0.05, 0.1), "level": "sequence", "aggregate": "sequence-mean"},
        {
            "clip": (0.2, 0.28),
            "level": "token",
            "aggregate": "token-mean",
            "entropy_bonus": 0.3,
        },
    ],
)
def test_policy_gradients_are_those_of_the_equation(switches):
    loss, metrics = policy_gradient(groups(), **switches)
    np.testing.assert_allclose(loss, naive_policy_gradient(**switches), rtol=2e-4)
    gaps = [np.abs(SAMPLER_NOISE[p, g, : len(COMPLETIONS[p][g])]) for p, g in counted()]
    np.testing.assert_allclose(
        metrics["logprob_gap"], np.concatenate(gaps).mean(), rtol=1e-4
    )
    assert 0 < metrics["clip_fraction"] < 1


def test_a_reference_pulls_by_its_weight_and_costs_nothing_without(monkeypatch):
    reference, before = cached_model(**SHAPE, seed=1), scores(1)["logprobs"]

    def of_reference(model, *_):
        assert model is reference
        return before, None

    monkeypatch.setattr(objectives, "group_logprobs", of_reference)
    token = {"clip": (0.2, 0.28), "level": "token", "aggregate": "token-mean"}
    loss, metrics = policy_gradient(groups(), reference, beta=0.1)
    expected = naive_policy_gradient(**token, beta=0.1)
    np.testing.assert_allclose(loss, expected, rtol=2e-4)
    assert metrics["kl_reference"] > 0
    assert "kl_reference" not in policy_gradient(groups(), reference)[1]
    clip = (3e-4, 4e-4)
    loss, _ = policy_gradient(groups(), reference, make=objectives.gspo, beta=0.1)
    expected = naive_policy_gradient(clip, "sequence", "sequence-mean", beta=0.1)
    np.testing.assert_allclose(loss, expected, rtol=2e-4)
    with pytest.raises(ValueError, match="beta=0.1"):
        policy_gradient(groups(), beta=0.1)


def test_on_policy_the_ratio_is_exactly_one():
    """With the trainer's own log-probs as the old ones: GRPO and GSPO are one loss."""
    now = scores()["logprobs"]
    batch = groups() | {"logprobs": now, "old_logprobs": now}
    lengths = np.array([[len(a) for a in group] for group in COMPLETIONS], float)
    lengths[MASKED] = 0
    for level in ("token", "sequence", "sequence-token"):
        loss, metrics = policy_gradient(batch, level=level, clip=(1e-9, 1e-9))
        assert metrics["ratio_mean"] == 1 and metrics["clip_fraction"] == 0
        assert metrics["approx_kl"] == 0 and metrics["logprob_gap"] == 0
        expected = -(ADVANTAGES * lengths).sum() / lengths.sum()
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_what_the_sampler_noted_is_no_old_policy_and_counts_by_weight_on_request():
    """By hand: each token's loss times min(trainer / sampler, cap)."""
    batch, cap = groups(), 1.1
    other = batch | {"logprobs": batch["logprobs"] - 0.5}
    gspo = functools.partial(policy_gradient, make=objectives.gspo)
    assert gspo(batch)[0] == gspo(other)[0] != gspo(other, sampler_cap=cap)[0]
    loss, _ = policy_gradient(batch, clip=(9, 9), sampler_cap=cap)
    per_token, at_cap = [], []
    for p, g in counted():
        length = len(COMPLETIONS[p][g])
        ratio = np.exp(-OLD_NOISE[p, g, :length])
        weight = np.minimum(np.exp(-SAMPLER_NOISE[p, g, :length]), cap)
        at_cap += (weight == cap).tolist()
        per_token += (-weight * ratio * ADVANTAGES[p, g]).tolist()
    np.testing.assert_allclose(loss, np.mean(per_token), rtol=2e-4)
    assert 0 < np.mean(at_cap) < 1


def test_what_is_too_far_from_the_sampler_is_left_out_and_the_gap_is_logged():
    """By hand: IcePop's range for tokens, DeepSeek's limit for bad answers."""
    batch, per_token, divergence = groups(), [], []
    switches = {"sampler_cap": (0.9, 1.1), "off_policy_limit": 0.05}
    loss, metrics = policy_gradient(batch, clip=(9, 9), **switches)
    for p, g in counted():
        length, advantage = len(COMPLETIONS[p][g]), ADVANTAGES[p, g]
        old, sampler = OLD_NOISE[p, g, :length], SAMPLER_NOISE[p, g, :length]
        left = advantage < 0 and np.mean(old + sampler) > 0.05
        kept = (np.exp(-sampler) >= 0.9) & (np.exp(-sampler) <= 1.1) & ~left
        per_token += (kept * -np.exp(-sampler - old) * advantage).tolist()
        divergence += (np.exp(-sampler) - 1 + sampler).tolist()
    got, expected = (loss, metrics["kl_sample_train"]), (per_token, divergence)
    np.testing.assert_allclose(got, [*map(np.mean, expected)], rtol=1e-3)
    assert "kl_sample_train" not in policy_gradient(batch)[1]


def test_masked_answers_and_padding_have_no_say():
    """Other tokens, log-probs and advantages where the mask is 0: the same loss."""
    batch = groups()
    off = np.asarray(batch["loss_mask"]) == 0
    changed = batch | {
        "completion": jnp.where(off, 3, batch["completion"]),
        "logprobs": jnp.where(off, jnp.nan, batch["logprobs"]),
        "old_logprobs": jnp.where(off, jnp.nan, batch["old_logprobs"]),
        "advantages": batch["advantages"].at[MASKED].set(1e3),
    }
    graph, state = nnx.split(cached_model(**SHAPE))

    @jax.jit
    @functools.partial(jax.value_and_grad, has_aux=True)
    def slope(state, batch):
        return objectives.policy_gradient()(nnx.merge(graph, state), batch)

    (loss, _), ours = slope(state, batch)
    (other, _), theirs = slope(state, changed)
    np.testing.assert_allclose(loss, other, rtol=1e-6)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


def naive_preferences(of_pair):
    """Mean over the pairs of `of_pair(policy, reference)`, each a pair of token lists.

    The masked answer's partner has nobody to be compared with.
    """
    new, before = naive_logprobs(), naive_logprobs(1)
    pairs = [p for p in range(4) if p != MASKED[0]]
    return np.mean(
        [
            of_pair([new[p, g] for g in (0, 1)], [before[p, g] for g in (0, 1)])
            for p in pairs
        ]
    )


def test_dpo_is_the_equation_with_two_plain_models():
    def of_pair(new, before):
        gains = [x.sum() - y.sum() for x, y in zip(new, before, strict=True)]
        return np.log1p(np.exp(-0.3 * (gains[0] - gains[1])))

    objective = objectives.dpo(beta=0.3, chunk=5)
    loss, metrics = run(objective, groups(), cached_model(**SHAPE, seed=1))
    np.testing.assert_allclose(loss, naive_preferences(of_pair), rtol=1e-4)
    assert metrics["weight"] == 3
    chosen = naive_preferences(lambda new, before: new[0].sum())
    np.testing.assert_allclose(metrics["pair/chosen"], chosen, rtol=1e-5)


def test_orpo_is_the_equation_without_a_reference():
    def of_pair(new, _):
        p = [np.exp(x.mean()) for x in new]
        odds = [x / (1 - x) for x in p]
        return -np.log(p[0]) + 0.7 * np.log1p(odds[1] / odds[0])

    loss, metrics = run(objectives.orpo(strength=0.7), groups())
    np.testing.assert_allclose(loss, naive_preferences(of_pair), rtol=1e-4)
    assert metrics["weight"] == 3


def naive_divergence(name, student, teacher, beta=0.3):
    """One number per token from log-probabilities (T, V), as the textbooks write it."""
    p, q = np.exp(student), np.exp(teacher)
    if name == "forward":
        return (q * (teacher - student)).sum(axis=-1)
    if name == "reverse":
        return (p * (student - teacher)).sum(axis=-1)
    mix = np.log(beta * q + (1 - beta) * p)
    to_mix = beta * (q * (teacher - mix)).sum(axis=-1)
    return to_mix + (1 - beta) * (p * (student - mix)).sum(axis=-1)


DIVERGENCES = {
    "forward": distillation.forward_kl,
    "reverse": distillation.reverse_kl,
    "jsd": functools.partial(distillation.jsd, beta=0.3),
}


@pytest.mark.parametrize("name, chunk", zip(DIVERGENCES, (5, 8192, 5), strict=True))
def test_distillation_of_answers_is_the_divergence_of_two_plain_models(name, chunk):
    objective = objectives.distillation(DIVERGENCES[name], chunk=chunk)
    loss, metrics = run(objective, groups(), cached_model(**SHAPE, seed=1))
    student, teacher = naive_scores(0), naive_scores(1)
    per_token = [naive_divergence(name, student[pg], teacher[pg]) for pg in counted()]
    np.testing.assert_allclose(loss, np.concatenate(per_token).mean(), rtol=1e-4)
    surprise = -np.concatenate([naive_logprobs()[pg] for pg in counted()]).mean()
    np.testing.assert_allclose(metrics["nll"], surprise, rtol=1e-4)
    assert metrics["weight"] == sum(map(len, per_token))


def padded(model, rows):
    """The model with more rows in its table, all of them likelier than its own."""
    wide = nnx.clone(model)
    wide.config = dataclasses.replace(model.config, vocab_size=VOCAB + rows)
    name = "embed" if model.config.tied else "head"
    table = jnp.pad(getattr(model, name)[...], [(0, rows), (0, 0)], constant_values=9)
    setattr(wide, name, nnx.Param(table))
    return wide


def test_padding_of_the_teachers_or_the_students_table_changes_nothing():
    """Qwen2.5 of 0.5B and 7B: one tokenizer, tables of 151,936 and 152,064 rows."""
    pair = cached_model(**SHAPE), cached_model(**SHAPE, seed=1)
    objective = jax.jit(objectives.distillation(vocabulary=VOCAB))
    loss, metrics = objective(pair[0], groups(), pair[1])
    for more in ((0, 7), (7, 0), (3, 7)):
        student, teacher = map(padded, pair, more)
        same = objective(student, groups(), teacher)
        np.testing.assert_array_equal([same[0], same[1]["nll"]], [loss, metrics["nll"]])
    assert objectives.distillation()(pair[0], groups(), padded(pair[1], 7))[0] == (
        pytest.approx(float(loss), rel=1e-5)
    )
    with pytest.raises(ValueError, match=r"vocabulary=len\(tokenizer\)"):
        objectives.distillation()(pair[0], groups(), padded(pair[1], 2000))


class Table(nnx.Module):
    """A model whose log-probabilities stand in a table, by token."""

    def __init__(self):
        self.logprobs = nnx.Param(jnp.linspace(-3, -1, VOCAB))


def read_table(model, batch):
    logprobs = model.logprobs[...][batch["completion"]]
    return {"logprobs": logprobs, "entropy": -logprobs}


@pytest.mark.parametrize("name", ["token-mean", "gspo", "constant", "dpo"])
def test_micro_batches_of_unequal_weight_make_the_update_of_the_whole(
    name, monkeypatch
):
    """Groups of unequal lengths whole and in 4 pieces: the same step of plain SGD."""
    monkeypatch.setattr(
        objectives, "group_logprobs", lambda *x: [*read_table(*x[:2]).values()]
    )
    objective = {
        "token-mean": objectives.policy_gradient(),
        "gspo": objectives.gspo(),
        "constant": objectives.policy_gradient(aggregate="constant", constant_length=9),
        "dpo": objectives.dpo(),
    }[name]
    frozen = (Table(),) if name == "dpo" else ()
    settings = {"frozen": frozen, "mesh": make_mesh(jax.devices()[:1]), "log": False}
    sgd = Optimizer(optax.sgd(1.0), constant(1.0))
    batch = jax.tree.map(np.asarray, groups())
    models, table = [Table(), Table()], []
    for model, pieces in zip(models, (1, 4), strict=True):
        trainer = Trainer(model, objective, sgd, accumulate=pieces, **settings)
        table += trainer.fit(Fixed(batch), 1)
    for metric in filterfalse(is_timing, table[0]):
        both = (row[metric] for row in table)
        np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-6, err_msg=metric)
    whole, cut = (model.logprobs[...] for model in models)
    assert np.abs(whole - Table().logprobs[...]).max() > 1e-3
    np.testing.assert_allclose(cut, whole, rtol=1e-5)
