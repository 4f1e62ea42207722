"""No text is longer than those that a model was made for."""

import jax
import numpy as np
import pytest
from tiny_models import cached_model

from helpers.batches import prompt_batches
from helpers.batches.packing import packed_rows
from helpers.evaluation.evaluator import evaluate
from helpers.generation import sessions
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import generate, row_keys
from helpers.runtime.ranges import TextTooLong
from helpers.runtime.sharding import make_mesh
from helpers.serving.drafters import PromptLookup
from helpers.serving.engine import Engine
from helpers.serving.speculative import generate as speculate
from helpers.text.tokenizer import train_tokenizer
from helpers.training.objectives import sft
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

TOKENIZER = train_tokenizer(["Mia has two apples."], 300)
MADE_FOR = 40
ROWS = [{"question": "one", "answer": "#### 1"}, {"question": "apples " * 4}]
ROWS[1] |= {"answer": "#### 2", "chosen": "yes", "rejected": "no"}
PROMPT, MASK = np.array([[3, 4, 5, 6, 0]]), np.array([[1, 1, 1, 1, 0]])
KEYS = row_keys(jax.random.key(0), 0, 1, 2)
EXAMPLES = [(range(2, 9), [1] * 7), (range(2, 2 + MADE_FOR), [1] * MADE_FOR)]


def model():
    sizes = {"layers": 1, "max_positions": MADE_FOR, "vocab": len(TOKENIZER)}
    return cached_model("qwen3", **sizes)


def prompts():
    return prompt_batches.prompts(ROWS, TOKENIZER, batch=1, buckets=(64,), seed=0)


LONGEST = prompts().longest
BUDGET = MADE_FOR - LONGEST  # with it, the longest prompt and its answer just fit


def sampled(policy, extra):
    room = {"max_tokens": MADE_FOR - 4 + extra, "eos_ids": (1,)}
    return generate(policy, PROMPT, MASK, KEYS, **room)


def speculated(policy, extra):
    room = {"max_tokens": MADE_FOR - 4 + extra, "eos_ids": (1,)}
    return speculate(policy, PromptLookup(), PROMPT, MASK, KEYS, **room)


def conversed(policy, extra):
    return sessions.prefill(policy, PROMPT, MASK, 2, MADE_FOR - 4 + extra)


def rolled_out(policy, extra):
    settings = {"group": 2, "max_tokens": BUDGET + extra}
    return Rollouts(policy, prompts(), None, TOKENIZER, **settings)


def evaluated(policy, extra):
    settings = {"max_tokens": BUDGET + extra, "samples": 0, "batch": 1, "log": False}
    return evaluate(policy, TOKENIZER, ROWS, **settings)


def served(policy, extra):
    return Engine(policy, (1,), blocks=8, longest=MADE_FOR + extra)


def trainer(policy):
    return Trainer(policy, sft(chunk=32), adamw(1e-3), mesh=make_mesh(), log=False)


def packed(policy, extra):
    """Rows may be longer than any text of theirs."""
    tokens = range(2, 2 + MADE_FOR + extra)
    rows = packed_rows(
        [EXAMPLES[0], (tokens, [1] * len(tokens))], batch=1, length=64, seed=0
    )
    return trainer(policy).fit(rows, 0)


DOORS = sampled, speculated, conversed, rolled_out, evaluated, served, packed


@pytest.mark.parametrize("door", DOORS)
def test_what_just_fits_is_taken_and_a_token_more_is_refused(door):
    door(model(), 0)
    with pytest.raises(TextTooLong, match=f"made for texts of {MADE_FOR}.*Shorten"):
        door(model(), 1)
