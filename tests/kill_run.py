"""Trains a tiny lesson, killing it several times on the way; or without any kill.

    python tests/kill_run.py toy|grpo FOLDER KILLS

Each attempt is a forked process that starts JAX anew and runs the same command. The
kills are SIGKILLs: one before training starts, one while a checkpoint is being
written, the others when a random number of steps are done and a random time later.
The last attempt runs to its end and writes `final.npz`. Prints the steps at each kill.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not survive a fork

import jax
import numpy as np
from distributed_toy import LONGEST, distance, examples
from flax import nnx
from toy_training import Toy

from helpers.batches import packed_rows, prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.tasks.maths import word_problems
from helpers.text.tokenizer import tokenizer_class, train_tokenizer
from helpers.training import objectives
from helpers.training.optimizers import adamw, muon
from helpers.training.trainer import Trainer

STEPS, SAVE_EVERY = 20, 4


def tiny_model(seed):
    config = ModelConfig("llama", 320, 16, 2, 2, 1, 8, 32)
    return Transformer(config, nnx.Rngs(seed))


def share_of_digits(prompts, completions, **columns):
    """A reward that differs between the answers of an untrained model."""
    return [sum(map(str.isdigit, text)) / (1 + len(text)) for text in completions]


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
    prompts = prompt_batches.prompts(rows, tokenizer, batch=4, buckets=(256,), seed=5)
    sampling = {"group": 4, "max_tokens": 8, "seed": 7, "mask_truncated": False}
    batches = Rollouts(
        model, prompts, share_of_digits, tokenizer, resample=1, **sampling
    )
    objective, optimizer = objectives.policy_gradient(), adamw(3e-3, steps=STEPS)
    return Trainer(model, objective, optimizer, minibatches=2, **settings), batches


def train(lesson, folder):
    trainer, batches = trainer_and_batches(lesson, folder)
    table = trainer.fit(batches, STEPS)
    assert len(table) == STEPS
    arrays = {name: np.asarray(x) for name, x in trainer.named_arrays().items()}
    np.savez(folder / "final.npz", **arrays)


def forked(work):
    """Starts work() in a forked process, which ends with it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return child


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


def main():
    lesson, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    if lesson == "grpo":
        tokenizer_class()  # imports transformers once, and not in every attempt
    for wait in moments(folder, kills, random.Random(0)) if kills else []:
        child = forked(lambda: train(lesson, folder))
        ended = []

        def running(child=child, ended=ended):
            if not ended and os.waitpid(child, os.WNOHANG)[0]:
                ended.append(child)
            return not ended

        wait(running)
        if running():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print(f"killed after {finished_steps(folder)} steps", flush=True)
    _, status = os.waitpid(forked(lambda: train(lesson, folder)), 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
