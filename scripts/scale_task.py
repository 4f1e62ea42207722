"""What `make scale` trains: notebook 07's GRPO, from the shipped SFT model."""

import os
import pathlib

from helpers import recipes, runtime
from helpers.batches import prompt_batches
from helpers.evaluation.evaluator import evaluate
from helpers.generation.rollouts import Rollouts
from helpers.model import weights
from helpers.rewards import RewardSet, correct, format_reward
from helpers.scale import Judge
from helpers.tasks import word_problems
from helpers.text import chat
from helpers.training import Trainer, objectives, optimizers

SFT = runtime.ROOT / "data" / "tiny" / "sft"
SIZES = recipes.PRESETS["laptop"]
SAVED = 4  # steps between checkpoints


def rollouts(seed: int, prompts: int, pids: pathlib.Path | None = None) -> Rollouts:
    """The groups that trainer and workers are made for.

    Args:
      seed: of questions, their order and all noise.
      prompts: of a piece.
      pids: folder where a worker notes its process, for those who kill.
    """
    tokenizer, model = chat.load_tokenizer(SFT), weights.load(SFT)
    rows = word_problems.generate(20_000, seed=11 + 100 * seed, levels=(3,))
    widths = (SIZES.prompt_tokens,)
    questions = prompt_batches.prompts(
        rows, tokenizer, batch=prompts, buckets=widths, seed=seed
    )
    made = Rollouts(
        model,
        questions,
        reward(),
        tokenizer,
        seed=seed,
        group=SIZES.group,
        max_tokens=SIZES.completion_tokens,
    )
    _note(pids)
    return made


def reward() -> RewardSet:
    """What answers are worth."""
    return RewardSet({correct: 1.0, format_reward: 0.1})


def judge(pids: pathlib.Path | None = None) -> Judge:
    """What scores the answers of all workers; `pids` as in `rollouts`."""
    _note(pids)
    return Judge(reward())


def _note(pids):
    if pids is not None:
        pids.mkdir(parents=True, exist_ok=True)
        (pids / str(os.getpid())).touch()


def trainer(model, folder, steps: int, **settings) -> Trainer:
    """Notebook 07's trainer, with weights for what older weights sampled."""
    optimizer = optimizers.adamw(SIZES.rl.rate, steps=steps, warmup=3, final=0.3)
    objective = objectives.policy_gradient(sampler_cap=2.0)
    return Trainer(
        model,
        objective,
        optimizer,
        minibatches=4,
        folder=folder,
        save_every=SAVED,
        log=False,
        **settings,
    )


def measured(model, n: int):
    """Greedy answers to the first n test questions, graded."""
    test = word_problems.generate(500, seed=99, levels=(3,), split="test")
    return evaluate(
        model,
        chat.load_tokenizer(SFT),
        test[:n],
        max_tokens=SIZES.completion_tokens,
        samples=0,
        buckets=(SIZES.prompt_tokens,),
        log=False,
    )
