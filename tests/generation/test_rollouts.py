"""Rollouts: what was sampled is what is scored, and what counts what is learned."""

import json
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import model as make

from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import generate, row_keys
from helpers.model.scoring import group_logprobs
from helpers.rewards.functions import RewardSet
from helpers.runtime.sharding import make_mesh
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.training.objectives import policy_gradient
from helpers.training.optimizers import adamw
from helpers.training.state import NothingToLearn
from helpers.training.trainer import Trainer

TEXTS = ["Mia has two apples.", "Ben buys nine pears for 4 dollars and eats one."]
TOKENIZER = train_tokenizer(TEXTS, 300)
EOS = chat.eos_ids(TOKENIZER)
GROUP, BUDGET, PROMPTS = 4, 48, 4
EASY, HARD = (
    [
        {"question": f"{i}?" + " one" * (i // 4), "answer": "#### 1", "easy": easy}
        for i in range(first, 12, 2)
    ]
    for first, easy in ((0, True), (1, False))
)
ROWS = EASY + HARD


def chequered(prompts, completions, easy, **_):
    """A reward that ties every easy question and tells answers to hard ones apart."""
    return [
        1.0 if tie else zlib.crc32((prompt + text).encode()) % 5 / 4
        for prompt, text, tie in zip(prompts, completions, easy, strict=True)
    ]


def policy(seed=0):
    return make("qwen3", seed, vocab=len(TOKENIZER), layers=2)


def rollouts(rows=ROWS, *, model=None, reward=chequered, buckets=(32,), **settings):
    """Rollouts of a random model: a third of its answers end within the budget."""
    epochs = settings.pop("epochs", None)
    source = prompt_batches.prompts(
        rows, TOKENIZER, batch=PROMPTS, buckets=buckets, seed=0, epochs=epochs
    )
    settings = {"group": GROUP, "max_tokens": BUDGET, "seed": 3} | settings
    reward = None if reward is None else RewardSet({reward: 1.0})
    return Rollouts(model or policy(), source, reward, TOKENIZER, **settings)


def question_of(batch, p):
    """The row whose prompt stands in row p of the batch, found by its tokens."""
    ids = batch["prompt"][p][batch["prompt_mask"][p] > 0].tolist()
    (row,) = [r for r in ROWS if chat.prompt_tokens(TOKENIZER, r["question"]) == ids]
    return row


@pytest.mark.parametrize("mask_truncated", [True, False])
def test_the_loss_mask_token_by_token(mask_truncated):
    """1 from an answer's first token through its EOS, then 0; 0 if it never ended."""
    source = rollouts(mask_truncated=mask_truncated)
    batch = next(source)
    keys = row_keys(jax.random.key(3), 0, PROMPTS, GROUP)
    raw = generate(
        policy(), batch["prompt"], batch["prompt_mask"], keys,
        max_tokens=BUDGET, eos_ids=EOS,
    )  # fmt: skip
    width, lengths = batch["loss_mask"].shape[-1], []
    for place in np.ndindex(PROMPTS, GROUP):
        tokens = np.asarray(raw.tokens[place]).tolist()
        stops = [t for t, token in enumerate(tokens) if token in EOS]
        length = stops[0] + 1 if stops else BUDGET
        counted = length if stops or not mask_truncated else 0
        expected = [1] * counted + [0] * (BUDGET - counted)
        assert batch["loss_mask"][place].tolist() == expected[:width]
        assert not any(expected[width:])
        shown = min(length, width)
        assert batch["completion"][place][:shown].tolist() == tokens[:shown]
        lengths.append((length, bool(stops)))
    assert 0 < sum(ended for _, ended in lengths) < len(lengths)
    longest = max(n for n, ended in lengths if ended or not mask_truncated)
    quarter = -(-BUDGET // 4)
    assert width == min(-(-longest // quarter) * quarter, BUDGET)
    assert source.metrics["length"] == np.mean([n for n, _ in lengths])
    assert source.metrics["truncated"] == np.mean([not e for _, e in lengths])


def test_prompts_answers_rewards_and_log_probs_stay_together():
    """Each is worked out again from the tokens of the batch.

    Half the questions are easy and always tie.
    """
    source = rollouts(mask_truncated=False)
    batch, model = next(source), policy()
    easy = [question_of(batch, p)["easy"] for p in range(PROMPTS)]
    tied = batch["rewards"].max(axis=1) == batch["rewards"].min(axis=1)
    assert tied.tolist() == easy and any(easy)
    assert source.metrics["tied_groups"] == tied.mean()
    for p in range(PROMPTS):
        row = question_of(batch, p)
        texts = [
            chat.decode(TOKENIZER, batch["completion"][p, g][mask > 0])
            for g, mask in enumerate(batch["loss_mask"][p])
        ]
        rewards = chequered([row["question"]] * GROUP, texts, [row["easy"]] * GROUP)
        np.testing.assert_allclose(batch["rewards"][p], rewards)
        np.testing.assert_allclose(
            batch["advantages"][p], np.array(rewards) - np.mean(rewards), atol=1e-6
        )
    arrays = jax.tree.map(jnp.asarray, batch)
    logprobs, _ = jax.jit(lambda: group_logprobs(model, arrays))()
    gap = np.where(batch["loss_mask"] > 0, logprobs - batch["logprobs"], 0)
    assert np.abs(gap).max() < 1e-5
    dtypes = {x.dtype.name for x in batch.values()}
    assert dtypes == {"int32", "float32"}


def test_several_rewards_can_be_normalised_one_by_one():
    """GDPO's equations 4 to 7 by hand, where the plain sums are always 0."""

    def opposite(prompts, completions, easy, **_):
        return [-x / 2 for x in chequered(prompts, completions, easy)]

    both = RewardSet({chequered: 1.0, opposite: 2.0})
    source = rollouts(HARD, advantage="gdpo", mask_truncated=False)
    source.reward = both
    scores, judge = [], both.scores
    both.scores = lambda *given: scores.append(judge(*given)) or scores[-1]
    batch = next(source)
    summed = 0
    for weight, column in zip((1, 2), scores[0].values(), strict=True):
        one = np.reshape(column, (PROMPTS, GROUP))
        mean, std = (f(one, axis=1, keepdims=True) for f in (np.mean, np.std))
        summed += weight * (one - mean) / np.maximum(std, 1e-4)
    np.testing.assert_allclose(batch["advantages"], summed / summed.std(), atol=1e-4)
    assert "decoupled" not in batch and not batch["rewards"].any()
    assert source.metrics["tied_groups"] == 0


def test_batches_that_are_tied_throughout_are_counted_and_end_the_run():
    source = rollouts(EASY, patience=3)
    for _ in range(2):
        batch = next(source)
        assert source.metrics["tied_groups"] == 1
        assert np.all(batch["advantages"] == 0)
    with pytest.raises(NothingToLearn, match="3 batches in a row.*reward 1.00"):
        next(source)


def test_resumed_rollouts_sample_the_same_answers():
    """From the state, by way of JSON."""
    source = rollouts()
    next(source)
    state = json.loads(json.dumps(source.get_state()))
    expected = [next(source) for _ in range(2)]
    resumed = rollouts()
    resumed.set_state(state)
    for batch in expected:
        again = next(resumed)
        for name, x in batch.items():
            np.testing.assert_array_equal(again[name], x, err_msg=name)
    assert resumed.metrics == source.metrics and resumed.samples == source.samples


def test_rewards_see_each_row_once_per_answer():
    """Questions, texts, ids and columns in one order; None where a row has no level."""
    rows = [r | ({"level": 1} if i else {}) for i, r in enumerate(HARD)]
    seen = {}

    def watch(prompts, completions, **columns):
        seen.update(columns, prompts=prompts, completions=completions)
        return [0.0] * len(completions)

    source = rollouts(rows, reward=watch)
    batch = next(source)
    batch = next(source)
    assert {"answer", "easy"} <= set(seen) and len(seen["completions"]) == 16
    unlevelled = HARD[0]["question"]
    assert seen["level"] == [None if q == unlevelled else 1 for q in seen["question"]]
    ids = [chat.decode(TOKENIZER, ids) for ids in seen["completion_ids"]]
    assert ids == seen["completions"] and seen["question"] == seen["prompts"]
    expected = [question_of(batch, p)["question"] for p in range(4) for _ in range(4)]
    assert seen["prompts"] == expected
    assert [s["prompt"] for s in source.samples] == expected[::4]
    assert [s["completion"] for s in source.samples] == seen["completions"][::4]
    assert [s["reward"] for s in source.samples] == [0.0] * 4


def test_training_samples_from_the_newest_weights():
    """On-policy: ratio 1, nothing clipped, sampler = trainer, at a rate that moves.

    Samples of the weights of one step before would be some 0.1 nats off.
    """
    model = policy()
    source = rollouts(HARD, model=model, mask_truncated=False)
    mesh = make_mesh(jax.devices()[:1])
    before = np.asarray(model.embed[...]).copy()
    trainer = Trainer(
        model, policy_gradient(), adamw(3e-2), mesh=mesh, log=False,
        wrt=lambda path, _: path[-1] == "embed",  # the fewer, the sooner compiled
    )  # fmt: skip
    for row in trainer.fit(source, 3):
        assert row["ratio_mean"] == pytest.approx(1, abs=1e-5)
        assert row["clip_fraction"] == 0 and row["logprob_gap"] < 1e-5
    assert np.abs(np.asarray(model.embed[...]) - before).max() > 1e-2
