"""GRPO and its relatives at one budget, into `data/results/family.csv`.

    python -m scripts.family      some thirteen CPU-minutes; goes on where stopped

Every method of `helpers/recipes/presets.py` starts from the model of notebook 04 and
learns from the same 144 questions, eight answers each, twelve questions a step, four
updates a step at one constant rate. A method that draws again for tied groups makes
fewer steps of the same answers. Two more runs change one thing in the course's own
settings: `drawn again` prices that drawing, and `12 updates` of each batch shows
where the clip binds.
"""

import argparse
import os
import pathlib

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.generation.rollouts import Rollouts
from helpers.model import weights
from helpers.recipes.presets import FAMILY, Method
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "family.csv"
SEEDS = (0, 1, 2)
STEPS, PROMPTS, GROUP, RATE, UPDATES = 12, 12, 8, 8e-4, 4
OWN = FAMILY["this course"]
PRICED = {"drawn again": OWN._replace(resample=2)}
UPDATES_TRIED = {"12 updates": 12}
RUNS = {
    **{name: (method, UPDATES) for name, method in FAMILY.items()},
    **{name: (method, UPDATES) for name, method in PRICED.items()},
    **{name: (OWN, updates) for name, updates in UPDATES_TRIED.items()},
}


def run(method: Method, updates: int, seed: int) -> dict:
    """Trains one model in one way, and says what came of it.

    Args:
      updates: optimizer updates per batch.

    Returns:
      The held-out score, what the run took, and its mean metrics.
    """
    folder = stages.stage_folder("sft")
    tokenizer, policy = chat.load_tokenizer(folder), weights.load(folder)
    beta = method.switches.get("beta")
    trainer = Trainer(
        policy,
        objectives.policy_gradient(**method.switches),
        adamw(RATE, warmup=3),
        frozen=(weights.load(folder),) if beta else (),
        minibatches=updates,
        log=False,
    )
    table = trainer.fit(_rollouts(policy, tokenizer, method, seed), STEPS)
    test = word_problems.generate(500, seed=99, levels=(3,), split="test")
    score = evaluate(policy, tokenizer, test, max_tokens=64, buckets=(48,), samples=0)

    def mean(name):
        return round(sum(row[name] for row in table) / len(table), 5)

    drawn = sum(row["rollouts"] for row in table)
    return {
        "steps": len(table),
        "answers": round(drawn * PROMPTS * GROUP),
        "greedy": score.greedy,
        "low": round(score.low, 4),
        "high": round(score.high, 4),
        "n": len(test),
        "tied_drawn": mean("tied_groups"),
        "tied_left": mean("tied_left"),
        "clip_fraction": mean("clip_fraction"),
        "approx_kl": mean("approx_kl"),
        "tokens": round(score.length, 1),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in table), 1),
        "load": round(os.getloadavg()[0], 1),
    }


def _rollouts(policy, tokenizer, method, seed):
    """Groups of answers to the questions of the budget, each asked once."""
    rows = word_problems.generate(
        STEPS * PROMPTS, seed=11 + 100 * seed, levels=(3,), split="train"
    )
    source = prompt_batches.prompts(
        rows, tokenizer, batch=PROMPTS, buckets=(48,), seed=seed, epochs=1
    )
    return Rollouts(
        policy,
        source,
        RewardSet({correct: 1.0, format_reward: 0.1}),
        tokenizer,
        group=GROUP,
        max_tokens=64,
        seed=seed,
        advantage=method.advantage,
        resample=method.resample,
    )


def main():
    """Runs what the table has not yet, and writes each row as it comes."""
    done = tables.read(TABLE)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    had = {(row["run"], int(row["seed"])) for row in done}
    for seed in parser.parse_args().seeds:
        for name, (method, updates) in RUNS.items():
            if (name, seed) in had:
                continue
            row = {"run": name, "seed": seed, "updates": updates}
            done.append(row | run(method, updates, seed))
            tables.write(TABLE, done)
            print(done[-1], flush=True)


if __name__ == "__main__":
    main()
