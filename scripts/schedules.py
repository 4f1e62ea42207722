"""Notebook 07's run with one thing of its schedule changed: `schedules.csv`.

    python -m scripts.schedules      some twenty CPU-minutes; goes on where stopped

The notebook runs four steps without a warm-up; a missing decay shows in more of them.
These are all 48, with three seeds, into `data/results/schedules.csv`.
"""

import os
import pathlib

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.generation.rollouts import Rollouts
from helpers.model import weights
from helpers.recipes.presets import PRESETS
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "schedules.csv"
SEEDS = (0, 1, 2)
SIZES = PRESETS["laptop"]
BUDGET = {"max_tokens": SIZES.completion_tokens, "buckets": (SIZES.prompt_tokens,)}
OWN = {"steps": SIZES.rl.steps, "warmup": 3, "final": 0.3}
RUNS = {
    "as in section 3": OWN,
    "no warm-up": OWN | {"warmup": 0},
    "no decay": {"warmup": OWN["warmup"]},
}


def run(schedule: dict, seed: int) -> dict:
    """Trains the model of notebook 04 with one schedule: its held-out score."""
    folder = stages.stage_folder("sft")
    tokenizer, policy = chat.load_tokenizer(folder), weights.load(folder)
    questions = word_problems.generate(20_000, seed=11 + 100 * seed, levels=(3,))
    asked = prompt_batches.prompts(
        questions,
        tokenizer,
        batch=SIZES.prompts,
        buckets=BUDGET["buckets"],
        seed=seed,
    )
    rollouts = Rollouts(
        policy,
        asked,
        RewardSet({correct: 1.0, format_reward: 0.1}),
        tokenizer,
        group=SIZES.group,
        max_tokens=BUDGET["max_tokens"],
        seed=seed,
    )
    adam = adamw(SIZES.rl.rate, **schedule)
    lesson = objectives.policy_gradient()
    trainer = Trainer(policy, lesson, adam, minibatches=4, log=False)
    table = trainer.fit(rollouts, SIZES.rl.steps)
    test = word_problems.generate(500, seed=99, levels=(3,), split="test")
    score = evaluate(policy, tokenizer, test, samples=0, **BUDGET)
    return {
        "greedy": score.greedy,
        "low": round(score.low, 4),
        "high": round(score.high, 4),
        "n": score.n,
        "last_rate": round(table[-1]["learning_rate"], 6),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in table), 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main():
    """Runs what the table has not yet, and writes each row as it comes."""
    done = tables.read(TABLE)
    had = {(row["run"], row["seed"]) for row in done}
    for seed in SEEDS:
        for name, schedule in RUNS.items():
            if (name, str(seed)) not in had:
                done.append({"run": name, "seed": seed} | run(schedule, seed))
                tables.write(TABLE, done)
                print(done[-1], flush=True)


if __name__ == "__main__":
    main()
