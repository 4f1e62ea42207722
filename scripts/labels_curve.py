"""What GRPO's compute buys in perfect labels, into `data/results/labels.csv`.

    python -m scripts.labels_curve       about ten minutes on two cores

The model of notebook 04 is fine-tuned on fresh, fully worked solutions, no question
twice, for as many CPU-seconds as notebook 07 gives GRPO, and evaluated on the way.
Notebook 07 runs the first few seconds of it itself, and draws the rest from here.
"""

import os
import pathlib

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.model import weights
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "labels.csv"
SEEDS = (0, 1, 2)
STOPS = (45, 90, 180, 360, 720)  # steps; the last takes what 48 steps of GRPO take
LABELS = 24_000


def curve(seed):
    """Rows of one run: CPU-seconds of training so far, and the score at each stop."""
    folder = stages.stage_folder("sft")
    tokenizer, model = chat.load_tokenizer(folder), weights.load(folder)
    test = word_problems.generate(500, seed=99, levels=(3,), split="test")
    solved = word_problems.generate(LABELS, seed=13 + 100 * seed, levels=(3,))
    examples = chat.examples_tokens(
        tokenizer,
        [row["question"] for row in solved],
        [row["answer"] for row in solved],
    )
    source = prompt_batches.packed_rows(examples, batch=8, length=256, seed=seed)
    rate = optimizers.adamw(1e-3, steps=STOPS[-1], warmup=5, final=0.1)
    trainer = Trainer(model, objectives.sft(), rate)
    for stop in (0, *STOPS):
        table = trainer.fit(source, stop) if stop else []
        score = evaluate(
            model, tokenizer, test, max_tokens=64, buckets=(48,), samples=0
        )
        yield {
            "seed": seed,
            "step": stop,
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in table), 1),
            "greedy": score.greedy,
            "n": len(test),
            "load": round(os.getloadavg()[0], 1),
        }


def main():
    """Runs all seeds, and writes the table."""
    rows = [row for seed in SEEDS for row in curve(seed)]
    tables.write(TABLE, rows)
    print(f"{TABLE.relative_to(ROOT)}: {len(rows)} rows")


if __name__ == "__main__":
    main()
