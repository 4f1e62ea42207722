"""No text is longer than those a model was made for: who asks for more is told so."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny_models
from tiny_models import cached_model

from helpers.app.assistant import BackendError
from helpers.app.local_model import LocalModel
from helpers.batches import prompt_batches
from helpers.batches.packing import packed_rows
from helpers.batches.preference_pairs import pairs
from helpers.batches.sources import require_readable
from helpers.evaluation.evaluator import evaluate
from helpers.generation import sessions
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import generate, row_keys
from helpers.model.config import ModelConfig
from helpers.model.rope import Stretch
from helpers.runtime.ranges import TextTooLong
from helpers.runtime.sharding import make_mesh
from helpers.serving.drafters import PromptLookup
from helpers.serving.scheduler import Engine
from helpers.serving.speculative import generate as speculate
from helpers.text.tokenizer import train_tokenizer
from helpers.tools import nutrition
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


def model(positions=MADE_FOR):
    return cached_model("qwen3", max_positions=positions, vocab=len(TOKENIZER))


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
def test_what_is_longer_than_the_model_was_made_for_is_refused(door):
    with pytest.raises(TextTooLong, match=f"made for texts of {MADE_FOR}.*Shorten"):
        door(model(), 1)


@pytest.mark.parametrize("door", DOORS)
def test_what_just_fits_is_taken(door):
    door(model(), 0)


@pytest.mark.parametrize("door", (conversed, rolled_out, served, packed))
def test_a_model_that_says_nothing_is_held_to_nothing(door):
    door(model(positions=0), 9)


def test_all_are_refused_before_any_prompt_is_answered():
    """The long prompt may come late: rollouts and evaluation look at all of them."""
    first = prompts()
    assert max(next(first)["prompt_mask"].sum() for _ in ROWS) == LONGEST
    for door in (rolled_out, evaluated):
        said = f"longest .*answer.*: {MADE_FOR + 1} tokens"
        with pytest.raises(TextTooLong, match=said):
            door(model(), 1)


def test_a_teacher_is_held_to_its_own_texts():
    rows = packed_rows(EXAMPLES, batch=1, length=64, seed=0)
    two = Trainer(
        model(99), sft(chunk=32), adamw(1e-3), frozen=[model(MADE_FOR - 1)], log=False
    )
    with pytest.raises(TextTooLong, match=f"made for texts of {MADE_FOR - 1}"):
        two.fit(rows, 0)


def test_pairs_say_how_long_they_are():
    source = pairs(ROWS[1:], TOKENIZER, batch=1, max_tokens=16, seed=0)
    batch = next(source)
    answers = batch["loss_mask"].sum(-1).max()
    assert source.longest == batch["prompt_mask"].sum() + answers


def test_a_batch_of_ones_own_is_looked_at_when_it_comes():
    """A source that says no `longest`; what lies behind what counts is nobody's."""
    config = model().config
    row = tiny_models.flat_batch([list(range(2, 2 + MADE_FOR))], length=64)
    require_readable(config, row)
    with pytest.raises(TextTooLong):
        require_readable(
            config, tiny_models.flat_batch([list(range(2, 3 + MADE_FOR))], length=64)
        )
    answers = [[[2] * 5, [3] * (MADE_FOR - 4)]]
    group = tiny_models.group_batch([[4] * 4], answers, budget=99)
    require_readable(config, group)
    answers[0][1] += [3]
    with pytest.raises(TextTooLong):
        require_readable(config, tiny_models.group_batch([[4] * 4], answers))


def test_the_app_says_so_to_whoever_asks():
    backend = LocalModel(model(), TOKENIZER, nutrition.TINY, "ours", max_tokens=99)
    with pytest.raises(BackendError, match=f"made for texts of {MADE_FOR}"):
        backend.begin("one", None)


def test_the_number_is_read_written_and_left_out():
    config = model().config
    told = config.to_hf()
    assert ModelConfig.from_hf(told) == config and config.positions == MADE_FOR
    del told["max_position_embeddings"]
    silent = ModelConfig.from_hf(told)
    assert silent.positions == 0 and silent.to_hf() == told


def test_a_linear_stretch_is_on_top_but_in_gemma():
    for family, factor in (("llama", 4), ("gemma3_text", 1)):
        config = tiny_models.config(family, stretch=Stretch("linear", 4.0))
        config = dataclasses.replace(config, max_positions=100)
        assert config.positions == 100 * factor
    assert tiny_models.config("llama", stretch=Stretch("llama3", 4.0)).positions == 8192
