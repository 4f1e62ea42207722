"""Six short runs of notebook 07's GRPO, five with one mistake: `diagnoses.csv`.

    python -m scripts.diagnoses      some two minutes

They are the readings of the notebook's exercise 3. Each run has the notebook's sizes
and its schedule, three steps, and the seed 0.
"""

import pathlib
from unittest import mock

import jax
import jax.numpy as jnp

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.generation import sampling
from helpers.generation.rollouts import Rollouts
from helpers.losses.means import masked_mean
from helpers.losses.policy_gradient import policy_gradient_loss
from helpers.model import scoring, weights
from helpers.recipes.presets import PRESETS
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer
from scripts import tables

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/results/diagnoses.csv"
SIZES = PRESETS["laptop"]
STEPS, SCHEDULE = 3, {"steps": SIZES.rl.steps, "warmup": 3, "final": 0.3}
COLUMNS = {"reward": 2, "tied_groups": 2, "entropy": 2, "approx_kl": 4}


class WrongSign(Rollouts):
    """Rollouts that push down what did better than its group."""

    def __next__(self):
        batch = super().__next__()
        return batch | {"advantages": -batch["advantages"]}


def old_is_new(model, batch):
    """GRPO's objective, whose old log-probabilities are those of every update."""
    logprobs, entropy = scoring.group_logprobs(model, batch)
    old, mask = jax.lax.stop_gradient(logprobs), batch["loss_mask"]
    loss, metrics = policy_gradient_loss(logprobs, old, batch["advantages"], mask)
    return loss, metrics | {"entropy": masked_mean(entropy, mask)}


def one_key(key, step, prompts, group):
    """The random keys of all answers to a question: those of the first."""
    keys_PG = sampling.row_keys(key, step, prompts, group)
    return jnp.repeat(keys_PG[:, :1], group, axis=1)


def nothing(prompts, completions, **_):
    """0.0 for every answer."""
    return [0.0] * len(completions)


RUNS: dict[str, dict] = {
    "healthy": {},
    "rate 12 times too high": {"rate": 12 * SIZES.rl.rate},
    "a reward that no answer gets": {"reward": RewardSet({nothing: 1.0})},
    "one random key for all eight answers": {"keys": one_key},
    "advantages with the wrong sign": {"source": WrongSign},
    "old log-probabilities taken anew before every update": {"objective": old_is_new},
}


def run(rate=SIZES.rl.rate, reward=None, keys=None, source=Rollouts, objective=None):
    """Trains the model of notebook 04 for three steps: the trainer's rows."""
    folder = stages.stage_folder("sft")
    tokenizer, policy = chat.load_tokenizer(folder), weights.load(folder)
    asked = prompt_batches.prompts(
        word_problems.generate(20_000, seed=11, levels=(3,)),
        tokenizer,
        batch=SIZES.prompts,
        buckets=(SIZES.prompt_tokens,),
        seed=0,
    )
    reward = reward or RewardSet({correct: 1.0, format_reward: 0.1})
    shape = {"group": SIZES.group, "max_tokens": SIZES.completion_tokens, "seed": 0}
    batches = source(policy, asked, reward, tokenizer, **shape)
    lesson = objective or objectives.policy_gradient()
    adam = adamw(rate, **SCHEDULE)
    trainer = Trainer(policy, lesson, adam, minibatches=4, log=False)
    keys = keys or sampling.row_keys
    with mock.patch("helpers.generation.rollouts.row_keys", keys):
        return trainer.fit(batches, STEPS)


def main():
    """Makes all six runs and writes what a learner is shown of them."""
    rows = []
    for name, changes in RUNS.items():
        for row in run(**changes):
            read = {column: round(row[column], n) for column, n in COLUMNS.items()}
            rows.append({"run": name, "step": row["step"]} | read)
            print(rows[-1], flush=True)
    tables.write(TABLE, rows)


if __name__ == "__main__":
    main()
