"""Drafters for the GRPO model of the walk: tokens for each pass, into a table.

    python -m scripts.speculative     half an hour of one core; goes on where stopped

Every drafter proposes blocks of 2 to 16 tokens; the target is asked 64 held-out
questions, greedily and at temperature 1, and what is kept is counted. The students are
those of notebook 11, which have never seen the target (start) or were distilled from it
in 44 batches of 128 answers, of the target's text or of their own. The two drafters
that are made of two of the target's four layers learn from the same 300 batches of its
answers. Seconds are the processor's, for all answers at once and for one at a time.

The table is `data/results/speculative.csv`.
"""

import argparse
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from flax import nnx

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.generation import sampling
from helpers.generation.rollouts import Rollouts
from helpers.losses.distillation import forward_kl, reverse_kl
from helpers.model import weights
from helpers.model.transformer import Transformer
from helpers.serving import speculative
from helpers.serving.block_drafter import BlockDrafter, block_objective
from helpers.serving.drafters import DraftModel, PromptLookup
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer
from scripts import distil, tables

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/results/speculative.csv"
SEEDS, BLOCKS, TEMPERATURES = (0, 1, 2), (2, 4, 8, 16), (0.0, 1.0)
N = 64  # held-out questions
STEPS, STUDENT_STEPS, LAYERS = 300, 44, 2
LOOKUP, BLOCK = "prompt lookup", "block drafter"
FIELDS = (
    *("target", "drafter", "block", "temperature", "at_once", "seed"),
    *("accepted_per_pass", "acceptance", "n", "seconds", "plain_seconds"),
    *("train_seconds", "load"),
)


class World(NamedTuple):
    """The target, and what it is asked."""

    target: object
    tokenizer: object
    seed: int

    def held_out(self):
        """(prompts (N, 48), mask, random keys (N, 1)) of the held-out questions."""
        rows = word_problems.generate(
            N, seed=5 + 100 * self.seed, levels=(3,), split="test"
        )
        ids = chat.prompts_tokens(self.tokenizer, [row["question"] for row in rows])
        keys = sampling.row_keys(jax.random.key(self.seed), 0, N, 1)
        return *prompt_batches.pad_prompts(ids, (48,)), keys

    def answers(self, steps: int, prompts: int, group: int):
        """Batches of the target's own answers to training questions."""
        rows = word_problems.generate(5_000, seed=17 + 100 * self.seed, levels=(3,))
        source = prompt_batches.prompts(
            rows, self.tokenizer, batch=prompts, buckets=(48,), seed=self.seed
        )
        budget = {"group": group, "max_tokens": 64, "mask_truncated": False}
        rollouts = Rollouts(
            self.target, source, None, self.tokenizer, seed=self.seed, **budget
        )
        return [next(rollouts) for _ in range(steps)]


def students(world: World) -> Iterator[tuple[str, Callable, float]]:
    """(name, what makes a drafter of a block, CPU-seconds of distillation) of each."""
    start = distil.start(world.seed)
    yield "student, not distilled", lambda block: DraftModel(start, block), 0.0
    for name, divergence in {
        "student, the target's text": forward_kl,
        "student, its own text": reverse_kl,
    }.items():
        student = distil.start(world.seed)
        if divergence is forward_kl:
            source = distil.Written(world.answers(STUDENT_STEPS, 128, 1))
        else:
            source = distil.answers(student, world.tokenizer, world.seed)
        rate = adamw(1.5e-3, steps=STUDENT_STEPS, warmup=5, final=0.1)
        spent = learn(
            student,
            objectives.distillation(divergence),
            rate,
            world.target,
            source,
            STUDENT_STEPS,
            minibatches=16,
        )
        yield name, lambda block, student=student: DraftModel(student, block), spent


def of_layers(world: World) -> Iterator[tuple[str, Callable, float]]:
    """The same for drafters of some of the target's layers: one by one, and a block."""
    batches = world.answers(STEPS, 16, 4)
    rate = adamw(1e-2, steps=STEPS, warmup=5)
    model = truncated(world.target)
    spent = learn(
        model,
        objectives.distillation(forward_kl),
        rate,
        world.target,
        distil.Written(batches),
        STEPS,
    )
    yield "two layers, one by one", lambda block: DraftModel(model, block), spent
    for size in BLOCKS:
        drafter = BlockDrafter(world.target, size, LAYERS)
        source = distil.Written(batches)
        spent = learn(drafter, block_objective(8), rate, world.target, source, STEPS)
        only = {size: drafter}
        yield BLOCK, only.get, spent


def truncated(target):
    """The target with its first and its last layer alone, as a block drafter has."""
    config = dataclasses.replace(target.config, layers=LAYERS)
    model = Transformer(config, nnx.Rngs(0))
    state, chosen = nnx.state(target), np.array([0, target.config.layers - 1])
    state["layers"] = jax.tree.map(lambda x: x[chosen], state["layers"])
    nnx.update(model, state)
    return model


def learn(student, objective, rate, teacher, source, steps, **settings) -> float:
    """Trains a drafter from what the target says; returns CPU-seconds."""
    run = Trainer(student, objective, rate, frozen=(teacher,), log=False, **settings)
    return sum(row["cpu_seconds"] for row in run.fit(source, steps))


def measure(world: World, drafter, temperature: float, at_once: int) -> dict:
    """What a drafter brings; both ways are run twice, the second time counted."""
    prompts, mask, keys = world.held_out()
    settings = {
        "max_tokens": 64,
        "eos_ids": chat.eos_ids(world.tokenizer),
        "temperature": temperature,
    }
    n = N if at_once == N else N // 4
    parts = [slice(i, i + at_once) for i in range(0, n, at_once)]

    def timed(ask):
        ask(prompts[parts[0]], mask[parts[0]], keys[parts[0]])  # compiles
        start = time.process_time()
        found = [ask(prompts[part], mask[part], keys[part]) for part in parts]
        jax.block_until_ready(found)
        return found, time.process_time() - start

    found, seconds = timed(
        lambda *rows: speculative.generate(world.target, drafter, *rows, **settings)
    )
    plain, plain_seconds = timed(
        lambda *rows: sampling.generate(world.target, *rows, **settings)
    )
    if temperature == 0:
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one.completions.tokens, other.tokens)
    passes = sum(int(x.passes.sum()) for x in found)
    kept = sum(int(x.kept.sum()) for x in found)
    tokens = sum(int(x.completions.mask.sum()) for x in found) - n
    return {
        "accepted_per_pass": tokens / passes,
        "acceptance": kept / (passes * drafter.block),
        "n": n,
        "seconds": seconds,
        "plain_seconds": plain_seconds,
    }


def rows_of(world: World) -> Iterator[dict]:
    """All rows of a seed."""
    yield from measured(world, LOOKUP, PromptLookup, 0.0)
    for name, make, spent in (*students(world), *of_layers(world)):
        yield from measured(world, name, make, spent)


def measured(world: World, name: str, make: Callable, spent: float) -> Iterator[dict]:
    """The rows of one kind of drafter, for every block that it can be had with."""
    for block in BLOCKS:
        drafter = make(block)
        if drafter is None:
            continue
        for temperature in TEMPERATURES:
            for at_once in (N, 1):
                row = {"target": "grpo", "drafter": name, "block": block}
                row |= {"temperature": temperature, "at_once": at_once}
                row |= {"seed": world.seed, "train_seconds": spent}
                row |= measure(world, drafter, temperature, at_once)
                row |= {"load": os.getloadavg()[0]}
                rounded = {
                    key: round(x, 4) if isinstance(x, float) else x
                    for key, x in row.items()
                }
                print(rounded, flush=True)
                yield rounded


def read() -> list[dict]:
    """The rows of the table so far."""
    return tables.read(TABLE)


def main():
    """Runs the seeds that the table has not yet, and writes each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    done = read()
    home = stages.stage_folder("grpo")
    for seed in parser.parse_args().seeds:
        if any((row["target"], row["seed"]) == ("grpo", str(seed)) for row in done):
            continue
        world = World(weights.load(home), chat.load_tokenizer(home), seed)
        done += rows_of(world)
        tables.write(TABLE, done, FIELDS)


if __name__ == "__main__":
    main()
