"""Trains a tiny lesson that is killed several times on the way.

Each attempt is a process that starts JAX anew and runs the same command. The kills are
SIGKILLs: one before training starts, one while a checkpoint is being written, the
others when a random number of steps are done and a random time later. The last attempt
runs to its end and writes `final.npz`.
"""

import random
import time
from unittest import mock

import forked
import jax
import numpy as np
import toy_environments
import toy_tools
from distributed_toy import LONGEST, distance, examples
from flax import nnx
from toy_training import Toy

from helpers.batches import packed_rows, prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.training import objectives
from helpers.training.optimizers import adamw, muon
from helpers.training.trainer import Trainer

STEPS, SAVE_EVERY = 20, 4


def tiny_model(seed):
    config = ModelConfig("llama", 320, 16, 2, 2, 1, 8, 32)
    return Transformer(config, nnx.Rngs(seed))


class Slow:
    """A batch source that takes a while, so that a kill finds the toy at work."""

    def __init__(self, source):
        self.source = source

    def __getattr__(self, name):
        return getattr(self.source, name)

    def __next__(self):
        time.sleep(0.05)
        return next(self.source)


def norm(model):
    """What depends on every weight, to the last bit."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(nnx.state(model))]
    return {"norm": sum(float((x**2).sum()) for x in leaves)}


def trainer_and_batches(lesson, folder):
    settings = {"folder": folder, "save_every": SAVE_EVERY}
    if lesson == "toy":
        batches = packed_rows(examples(), batch=4, length=LONGEST, seed=3)
        optimizer = muon(1e-2, steps=STEPS, warmup=3)
        settings |= {"accumulate": 2, "evaluate": norm, "evaluate_every": 3}
        settings |= {"frozen": [Toy(seed=1)]}
        return Trainer(Toy(), distance, optimizer, **settings), Slow(batches)
    rows = word_problems.generate(40, seed=1, levels=(1,))
    texts = [row["question"] + row["answer"] for row in rows]
    tokenizer, model = train_tokenizer(texts, 320), tiny_model(0)
    use, reward = toy_environments.make("keep", turns=2, reply=24)
    prompts = prompt_batches.prompts(
        rows, tokenizer, batch=4, buckets=(64,), seed=5, environment=use
    )
    sampling = {"group": 4, "max_tokens": 8, "seed": 7, "mask_truncated": False}
    batches = Rollouts(model, prompts, reward, tokenizer, environment=use, **sampling)
    objective, optimizer = objectives.policy_gradient(), adamw(3e-3, steps=STEPS)
    return Trainer(model, objective, optimizer, minibatches=2, **settings), batches


@mock.patch.object(chat, "eos_ids", toy_tools.often_ends)
def train(lesson, folder):
    trainer, batches = trainer_and_batches(lesson, folder)
    table = trainer.fit(batches, STEPS)
    assert len(table) == STEPS
    arrays = {name: np.asarray(x) for name, x in trainer.named_arrays().items()}
    np.savez(folder / "final.npz", **arrays)


def finished_steps(folder):
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def moments(folder, kills, rng):
    """When to kill: one function per kill that returns as soon as it is time.

    Each takes `running()`, which turns False if the attempt ends before that.
    """

    def until(running, condition):
        while running() and not condition():
            time.sleep(0.004)

    def started():  # two attempts of one second write to one file
        return {(x.name, x.stat().st_mtime_ns) for x in folder.glob("events*")}

    def at_the_start(running):
        time.sleep(rng.uniform(0.05, 0.5))

    def while_writing(running):
        until(running, lambda: any(folder.glob("checkpoints/writing-*")))
        time.sleep(rng.uniform(0, 0.03))

    def after(steps):
        def wait(running):
            earlier = started()
            until(running, lambda: started() != earlier)
            until(running, lambda: finished_steps(folder) >= steps)
            time.sleep(rng.uniform(0, 0.1))

        return wait

    count = kills - 2
    spread = [
        after(1 + round((k + rng.random()) / count * (STEPS - 2))) for k in range(count)
    ]
    return [at_the_start, spread[0], while_writing, *spread[1:]]


def finish(lesson, folder):
    """Trains to the end."""
    process = forked.start(train, lesson, folder, log=folder / "log.txt")
    process.join()
    assert process.exitcode == 0, (folder / "log.txt").read_text()[-3000:]


def killed(lesson, folder, kills):
    """Trains to the end, with kills; how many of them met a process at work."""
    met = 0
    for wait in moments(folder, kills, random.Random(0)):
        process = forked.start(train, lesson, folder)
        wait(process.is_alive)
        met += process.is_alive()
        process.kill()
        process.join()
    finish(lesson, folder)
    return met
