"""Who writes, and which way round: students of one teacher, into a table.

    python -m scripts.distil      some six CPU-minutes; goes on where stopped

The student of notebook 11 starts from its pass over a thousand demonstrations. Each arm
then learns from the same 1,536 questions, one answer each, in 12 batches of 128 and 16
updates of each, at one rate. Offline the teacher wrote the answers beforehand, once for
all arms; on-policy the student writes each batch itself. What is minimised is the
forward or the reverse KL over the whole vocabulary; or, with nothing but the teacher's
text, cross-entropy (hard distillation), on all of it or on what is right alone.

The table is `data/results/distillation.csv`.
"""

import argparse
import functools
import os
import pathlib

import numpy as np

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.generation.rollouts import Rollouts
from helpers.losses.distillation import forward_kl, reverse_kl
from helpers.model import weights
from helpers.rewards.functions import correct
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "distillation.csv"
SEEDS = (0, 1, 2)
STEPS, PROMPTS, UPDATES, RATE = 12, 128, 16, 1.5e-3
SAMPLED = 125  # held-out questions that are sampled eight times each
ARMS = {  # who writes, what is minimised, whether wrong answers are left out
    "offline, forward KL": ("teacher", forward_kl, False),
    "offline, reverse KL": ("teacher", reverse_kl, False),
    "on-policy, forward KL": ("student", forward_kl, False),
    "on-policy, reverse KL": ("student", reverse_kl, False),
    "hard: the teacher's text": ("teacher", None, False),
    "hard, only what is right": ("teacher", None, True),
}


class Written:
    """A batch source of batches that are there already."""

    def __init__(self, batches):
        self.batches, self.count = batches, 0
        self.metrics: dict[str, float] = {}
        self.samples: list[dict] = []

    def __next__(self):
        if self.count == len(self.batches):
            raise StopIteration
        self.count += 1
        return self.batches[self.count - 1]

    def get_state(self):
        """Where it stands."""
        return {"count": self.count}

    def set_state(self, state):
        """Goes on from there."""
        self.count = state["count"]


def questions(seed):
    """The questions that all arms of a seed are given."""
    count = STEPS * PROMPTS
    return word_problems.generate(count, seed=31 + 100 * seed, levels=(3,))


def answers(writer, tokenizer, seed):
    """A batch source of one answer of the writer to each question."""
    source = prompt_batches.prompts(
        questions(seed), tokenizer, batch=PROMPTS, buckets=(48,), seed=seed, epochs=1
    )
    budget = {"group": 1, "max_tokens": 64, "mask_truncated": False}
    return Rollouts(writer, source, None, tokenizer, seed=seed, **budget)


def right(batches, tokenizer, seed):
    """The batches with the wrong answers masked, and the share that is right.

    Which question an answer is to is read off its prompt, for batches are shuffled.
    """
    rows = questions(seed)
    prompts = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    gold = {tuple(ids): row["answer"] for ids, row in zip(prompts, rows, strict=True)}
    kept, shares = [], []
    for batch in batches:
        asked = [
            tuple(ids[mask > 0].tolist())
            for ids, mask in zip(batch["prompt"], batch["prompt_mask"], strict=True)
        ]
        mask_PT = batch["loss_mask"][:, 0]
        texts = [
            chat.decode(tokenizer, ids[mask > 0])
            for ids, mask in zip(batch["completion"][:, 0], mask_PT, strict=True)
        ]
        good = np.array(correct(None, texts, [gold[ids] for ids in asked]), np.float32)
        kept.append(batch | {"loss_mask": batch["loss_mask"] * good[:, None, None]})
        shares.append(good.mean())
    return kept, float(np.mean(shares))


def start(seed):
    """The student after one pass over a thousand demonstrations, as in notebook 11."""
    student = weights.load(stages.stage_folder("student_base"))
    tokenizer = chat.load_tokenizer(stages.stage_folder("grpo"))
    labelled = word_problems.generate(1_000, seed=21 + 100 * seed, levels=(3,))
    demos = word_problems.demonstrations(
        labelled, answer_only=0.42, seed=21 + 100 * seed
    )
    examples = chat.examples_tokens(
        tokenizer,
        [row["question"] for row in demos],
        [row["response"] for row in demos],
    )
    source = prompt_batches.packed_rows(examples, batch=8, length=256, seed=seed)
    rate = adamw(5e-4, steps=40, warmup=5)
    Trainer(student, objectives.sft(), rate, log=False).fit(source, 40)
    return student


def learn(student, teacher, source, divergence):
    """Trains the student, and returns its table of metrics."""
    sft = divergence is None
    trainer = Trainer(
        student,
        objectives.sft() if sft else objectives.distillation(divergence),
        adamw(RATE, steps=STEPS, warmup=2, final=0.1),
        frozen=() if sft else (teacher,),
        minibatches=UPDATES,
        log=False,
    )
    return trainer.fit(source, STEPS)


def arms(seed, folder):
    """A row for the teacher, for the start and for each arm.

    Args:
      folder: where the student's start is kept between the arms.
    """
    home = stages.stage_folder("grpo")
    tokenizer, teacher = chat.load_tokenizer(home), weights.load(home)
    weights.save(start(seed), folder, tokenizer)
    written = list(_all(answers(teacher, tokenizer, seed)))
    sifted, share = right(written, tokenizer, seed)
    yield _row("teacher", seed, teacher, tokenizer)
    yield _row("start", seed, weights.load(folder), tokenizer)
    for name, (writer, divergence, sift) in ARMS.items():
        student = weights.load(folder)
        source = Written(sifted if sift else written)
        if writer == "student":
            source = answers(student, tokenizer, seed)
        table = learn(student, teacher, source, divergence)
        spent = sum(row["cpu_seconds"] for row in table)
        used = share if sift else 1.0
        yield _row(name, seed, student, tokenizer, spent=spent, used=used)


def _all(source):
    for _ in range(STEPS):
        yield next(source)


def _row(name, seed, model, tokenizer, *, spent=0.0, used=0.0):
    test = word_problems.generate(500, seed=99, levels=(3,), split="test")
    ask = functools.partial(evaluate, model, tokenizer, max_tokens=64, buckets=(48,))
    score, sampled = ask(test, samples=0), ask(test[:SAMPLED], samples=8)
    row = {"arm": name, "seed": seed, "questions": round(used * STEPS * PROMPTS)}
    row |= {"greedy": score.greedy, "low": score.low, "high": score.high}
    row |= {"n": len(test), "step_by_step": score.step_by_step}
    row |= {"pass1": sampled.pass1, "pass8": sampled.pass8, "n_sampled": SAMPLED}
    row |= {"cpu_seconds": spent, "load": os.getloadavg()[0]}
    rounded = functools.partial(round, ndigits=4)
    return {key: rounded(x) if isinstance(x, float) else x for key, x in row.items()}


def main():
    """Runs the seeds that the table has not yet, and writes each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    done = tables.read(TABLE)
    for seed in parser.parse_args().seeds:
        if any(row["seed"] == str(seed) for row in done):
            continue
        for row in arms(seed, ROOT / "build" / "distil_start"):
            print(row, flush=True)
            done.append(row)
        tables.write(TABLE, done)


if __name__ == "__main__":
    main()
