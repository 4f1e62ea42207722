"""Hand-written conversations as engines hand them to rewards, and what each one earns.

The conversations and their scores are those of `tests/food_conversations.py`.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from food_conversations import CASES, NAMES  # noqa: E402

from helpers.handover.conversations import on_conversations  # noqa: E402
from helpers.rewards import food_rewards  # noqa: E402
from helpers.tools.nutrition import TINY, TOOL  # noqa: E402
from helpers.tools.tool import trace  # noqa: E402


def rewards():
    """The nine food rewards, for conversations of the tiny model."""
    made = [getattr(food_rewards, name) for name in NAMES]
    return [on_conversations(reward, TINY, [TOOL]) for reward in made]


def in_messages():
    """(messages, portions, scores) of every conversation."""
    return [
        (trace(TINY, texts, [TOOL]).messages, portions, scores)
        for portions, texts, scores in CASES.values()
    ]


def in_one_turn():
    """(text, portions, scores) of those that are one turn: all that a text can be."""
    return [
        (texts[0], portions, scores)
        for portions, texts, scores in CASES.values()
        if len(texts) == 1
    ]


def require(theirs, expected, engine):
    """Fails where an engine got other scores than are written down.

    Args:
      theirs: a row of scores for each conversation, as `rewards` are ordered.
    """
    assert len(theirs) == len(expected) > 0
    for row, scores in zip(theirs, expected, strict=True):
        apart = max(abs(a - b) for a, b in zip(row, scores, strict=True))
        assert apart < 1e-6, f"{engine}: {row} where {scores} is written"
