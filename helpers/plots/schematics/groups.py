"""A group of answers and what is learned from it: GRPO's cycle, and DPO beside it."""

import numpy as np

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import HEARD, JUDGED, OTHER, PLAIN, SAID

ANSWERS = ("12", "13", "12", "84")  # to 8 + 4
REWARDS = np.array([1, 0, 1, 0])
ADVANTAGES = REWARDS - REWARDS.mean()


def _signed(value):
    return f"{value:+.1f}".replace("-", "−")


def grpo_cycle() -> Picture:
    """The cycle of GRPO, with one question and its group of four answers."""
    rewards = [str(reward) for reward in REWARDS]
    advantages = [_signed(advantage) for advantage in ADVANTAGES]
    mean = f"{REWARDS.mean():.1f}"
    steps = (
        ("1 Prompts", "a batch of questions; one of them: 8 + 4 = ?", PLAIN, ()),
        ("2 Sampler", "G answers to each question, here 4", SAID, ANSWERS),
        ("3 Rewards", "a number for each answer", JUDGED, rewards),
        ("4 Advantages", f"minus the group's mean, {mean}", JUDGED, advantages),
        ("5 Loss", "ratio × advantage, clipped; one mean over all tokens", PLAIN, ()),
        ("6 Update", "the sampler gets the new weights", SAID, ()),
    )
    told = "; ".join(
        f"“{head}”, {text}" + (f": {', '.join(chips)}" if chips else "")
        for head, text, _, chips in steps
    )
    picture = Picture(
        "GRPO: an answer is compared with its own group",
        f"Six boxes in a cycle, joined by arrows: {told}. From the update an arrow "
        "leads back up to the sampler.",
    )
    y, frames = picture.top, []
    for head, text, style, chips in steps:
        frame = picture.box(12, y, 306, head, text, style, room=34 if chips else 0)
        for i, chip in enumerate(chips):
            x = frame.cx - 117 + 60 * i
            picture.box(x, frame.bottom - 34, 54, "", chip, PLAIN, h=24, mono=True)
        if frames:
            picture.arrow((frame.cx, frames[-1].bottom + 1), (frame.cx, y - 1))
        frames.append(frame)
        y = frame.bottom + 22
    first, last = frames[1], frames[-1]
    lane = 338
    picture.arrow(
        (last.right + 1, last.cy),
        (lane, last.cy),
        (lane, first.cy),
        (first.right + 1, first.cy),
    )
    return picture


def preferences() -> Picture:
    """Where DPO's pair sits beside GRPO's group."""
    advantages = [_signed(advantage) for advantage in ADVANTAGES]
    pairs = ", ".join(f"{a} ({b})" for a, b in zip(ANSWERS, advantages, strict=True))
    group = "each moves by its advantage"
    pair = "one goes up, the other down, measured from a frozen reference"
    new, once = "new answers in every step", "pairs made once, before training"
    needs = ("needs a reward", "needs a preference")
    picture = Picture(
        "GRPO compares a group, DPO a pair",
        "Two columns under one question, 8 + 4 = ?. GRPO, a group: answers with "
        f"their advantages: {pairs}; {group}; {new}; {needs[0]}. DPO, a pair: 12, "
        f"chosen, and 84, rejected; {pair}; {once}; {needs[1]}.",
    )
    question = picture.box(96, picture.top, 168, "", "8 + 4 = ?", mono=True)
    left, right, w = 12, 186, 162
    y = question.bottom + 26
    for x, head, style in ((left, "GRPO", SAID), (right, "DPO", OTHER)):
        start = question.cx + (-40 if x == left else 40)
        picture.arrow((start, question.bottom + 1), (x + w / 2, y - 1))
        picture.box(x, y, w, head, "a group" if x == left else "a pair", style)
    y += 54
    for i, (answer, value) in enumerate(zip(ANSWERS, advantages, strict=True)):
        _judged(picture, left, y + 30 * i, answer, value)
    for i, (answer, value) in enumerate((("12", "chosen"), ("84", "rejected"))):
        _judged(picture, right, y + 30 * (i + 1), answer, value)
    y += 124
    for lines, style, h in (
        ((group, pair), JUDGED, 72),
        ((new, once), PLAIN, 46),
        (needs, HEARD, 30),
    ):
        for x, text in zip((left, right), lines, strict=True):
            picture.box(x, y, w, "", text, style, h=h)
        y += h + 8
    return picture


def _judged(picture, x, y, answer, value):
    picture.box(x, y, 60, "", answer, SAID, h=24, mono=True)
    picture.arrow((x + 61, y + 12), (x + 81, y + 12))
    picture.box(x + 82, y, 80, "", value, JUDGED, h=24)
