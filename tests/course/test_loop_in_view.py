"""The loop that notebook 07 writes out is the trainer's, and no other loop passes."""

import dataclasses

import course_notebooks as course
import pytest

from helpers.recipes import PRESETS
from helpers.tasks import word_problems

CELLS = (
    "def my_loss(",
    "END = ",
    "def score(",
    "mine, theirs = ",
    "def grpo_by_hand(",
    "by_hand, my_losses = ",
)
GIVEN = """
def prompt_batches():
    widths = (sizes.prompt_tokens,)
    return batches.prompts(
        train, tokenizer, batch=sizes.prompts, buckets=widths, seed=seed
    )


def rollouts(model):
    settings = {"group": sizes.group, "max_tokens": sizes.completion_tokens}
    return Rollouts(model, prompt_batches(), reward, tokenizer, seed=seed, **settings)


mesh = runtime.make_mesh()
folder = runtime.ROOT / "data" / "tiny" / "sft"
tokenizer = chat.load_tokenizer(folder)
reward = RewardSet({correct: 1.0, format_reward: 0.1})
"""


def compared(*change):
    """Runs the notebook's own cells on eight questions, with one text replaced.

    As they stand, they pass whenever the notebook is run.
    """
    notebook = course.read("07")
    (imports,) = course.tagged(notebook, "imports")
    cells = [cell.source for cell in course.code_cells(notebook)]
    chosen = [next(c for c in cells if c.startswith(begin)) for begin in CELLS]
    loop = "\n".join(chosen)
    assert loop.count(change[0]) == 1, f"{loop.count(change[0])} × {change[0]!r}"
    loop = loop.replace(*change)
    names = {
        "seed": 0,
        "sizes": dataclasses.replace(PRESETS["laptop"], prompts=8),
        "train": word_problems.generate(200, seed=11, levels=(3,)),
    }
    exec("\n".join([imports.source, GIVEN, loop]), names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("rewards_PG - baseline_P1", "rewards_PG"), id="not centred"),
        pytest.param(("b2=0.95", "b2=0.5"), id="another Adam"),
    ],
)
def test_another_loop_is_found_out(change, capsys):
    with pytest.raises(AssertionError):
        compared(*change)
    assert "they differ by" in capsys.readouterr().out  # by the comparison itself
