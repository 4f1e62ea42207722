"""Small games for a small policy: rollouts, and what it plays (notebook 10b)."""

from typing import NamedTuple

import jax
import numpy as np
from flax import nnx

from helpers.batches import prompt_batches
from helpers.evaluation.answers import generate_answers
from helpers.generation import EnvironmentUse, Rollouts
from helpers.model import scoring
from helpers.rewards import environment_reward
from helpers.tasks import games
from helpers.text import chat
from helpers.training import Trainer, objectives, optimizers

BUCKETS = (20, 32)  # tokens of the openings of *Higher or lower* and of Nim
MAX_TOKENS, MAX_REPLY_TOKENS = 2, 11  # a number and the end of the turn; a reply


class Settings(NamedTuple):
    """How GRPO plays and learns.

    rows, group: secrets of a step, and games with each. minibatches: updates in a step.
    steps, final: with the entropy bonus, and the share of the rate that is left then.
    settle: steps without a bonus after them.
    """

    steps: int = 100
    rows: int = 32
    group: int = 16
    rate: float = 2e-3
    minibatches: int = 4
    entropy_bonus: float = 0.02
    final: float = 0.2
    settle: int = 0


ARMS = {
    "main": Settings(entropy_bonus=0.03, final=1.0, settle=30),
    "bonus 0.02": Settings(),
    "bonus 0.02, longer": Settings(steps=160),
    "bonus 0.01": Settings(entropy_bonus=0.01),
}


def environment(game=games.HigherOrLower) -> EnvironmentUse:
    """Conversations of five turns with a game."""
    return EnvironmentUse(game, turns=games.TURNS, max_reply_tokens=MAX_REPLY_TOKENS)


def rollouts(model, tokenizer, game, sizes: Settings, seed: int) -> Rollouts:
    """Groups of games, each won or lost: a batch source for RL."""
    use = environment(game)
    rows, batch = games.ROWS[game], sizes.rows
    prompts = prompt_batches.prompts(
        rows, tokenizer, batch=batch, buckets=BUCKETS, seed=seed, environment=use
    )
    return Rollouts(
        model,
        prompts,
        environment_reward,
        tokenizer,
        group=sizes.group,
        max_tokens=MAX_TOKENS,
        seed=seed,
        mask_truncated=False,  # a number that does not end is a bad turn
        environment=use,
    )


def trainer(model, sizes: Settings, *, settle=False, **options) -> Trainer:
    """GRPO with these settings; the options are those of the `Trainer`.

    Args:
      settle: for the steps without a bonus.
    """
    phase = sizes.entropy_bonus, sizes.steps, sizes.final
    bonus, steps, final = (0.0, sizes.settle, 0.1) if settle else phase
    objective = objectives.policy_gradient(entropy_bonus=bonus)
    adamw = optimizers.adamw(sizes.rate, steps=steps, warmup=2, final=final)
    options |= {"minibatches": sizes.minibatches}
    return Trainer(model, objective, adamw, **options)


def play(model, tokenizer, game, rows, samples=0) -> list[tuple]:
    """For each row the trace of a greedy game, and those of sampled ones."""
    answers = generate_answers(
        model,
        tokenizer,
        rows,
        environment(game),
        max_tokens=MAX_TOKENS,
        samples=samples,
        batch=len(rows),
        buckets=BUCKETS,
        log=False,
    )
    return [(greedy.text, [x.text for x in sampled]) for greedy, sampled in answers]


def first_guesses(model, tokenizer) -> np.ndarray:
    """The probability of each number as the first guess of *Higher or lower*."""
    opening = games.HigherOrLower().reset({"secret": 1}, seed=0)
    ids = [chat.prompt_tokens(tokenizer, opening)]
    prompt, mask = prompt_batches.pad_prompts(ids, BUCKETS)
    hidden_PD, _ = nnx.jit(scoring.prefill)(model, prompt, mask)
    probabilities = jax.nn.softmax(model.logits(hidden_PD)[0])
    return np.asarray(probabilities)[tokenizer.convert_tokens_to_ids([*games.NUMBERS])]


def measure(model, tokenizer, samples=0) -> dict[str, float]:
    """*Higher or lower* with all secrets: games won, turns taken, and the opening.

    Args:
      samples: sampled games with each secret beside the greedy one.
    """
    rows = games.ROWS[games.HigherOrLower]
    transcripts = play(model, tokenizer, games.HigherOrLower, rows, samples)
    guesses = [games.numbers(greedy.messages) for greedy, _ in transcripts]
    won, turns = games.tally(rows, guesses)
    sampled = [trace.reward for _, traces in transcripts for trace in traces]
    first = first_guesses(model, tokenizer)
    return {
        "won_sampled": float(np.mean(sampled)) if samples else float("nan"),
        "won_greedy": won,
        "mean_turns": turns,
        "first_guess": int(first.argmax()) + 1,
        "probability": float(first.max()),
    }
