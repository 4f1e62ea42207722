"""Tokens of prompts and answers: what is computed once, who wrote which."""

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import EMPTY, GREY, HEARD, SAID


def shared_prompt(prompt: int = 48, answer: int = 72, group: int = 4) -> Picture:
    """A prompt computed in front of each answer of its group, and computed once.

    Args:
      prompt, answer: tokens of the prompt and of each answer.
      group: answers to the prompt; up to 8 are drawn legibly.
    """
    flat, shared = group * (prompt + answer), prompt + group * answer
    above = f"In front of each answer: {flat} tokens"
    below = f"Once for all of them: {shared} tokens"
    picture = Picture(
        f"A prompt computed once: {flat / shared:.1f} times fewer tokens",
        f"Above, “{above}”: {group} rows, each a box “prompt, {prompt}” and a box "
        f"“answer, {answer}”. Below, “{below}”: a single box “prompt, {prompt}”, from "
        f"which arrows, “keys and values”, lead to {group} boxes “answer, {answer}”.",
    )
    head = picture.label(12, picture.top, above, bold=True)
    y = head.bottom + 6
    for i in range(group):
        picture.box(12, y + 29 * i, 130, "", f"prompt, {prompt}", HEARD, h=24)
        picture.box(144, y + 29 * i, 204, "", f"answer, {answer}", SAID, h=24)
    y += 29 * group + 14
    head = picture.label(12, y, below, bold=True)
    y = head.bottom + 6
    flow = picture.label(144 + 34, y, "keys and values", anchor="middle")
    y = flow.bottom + 4
    h = 29 * group - 5
    once = picture.box(12, y, 112, "", f"prompt, {prompt}", HEARD, h=h)
    for i in range(group):
        row = picture.box(186, y + 29 * i, 162, "", f"answer, {answer}", SAID, h=24)
        picture.arrow((once.right + 1, row.cy), (row.x - 1, row.cy))
    return picture


TURNS = (  # who, what it is, the tokens, whether the model wrote them
    ("heard", "the prompt", ("[picture]", "kcal", "in", "150", "g", "?"), False),
    ("said", "the call", ("<<lookup", "pizza", "150", ">>", "[end]"), True),
    ("heard", "the tool's result", ("kcal", "402"), False),
    ("said", "the answer", ("####", "402", "[end]"), True),
    ("padding", "fills the row", ("[pad]", "[pad]", "[pad]"), False),
)


def who_wrote() -> Picture:
    """A conversation with a tool: which tokens the model wrote, and the loss mask."""
    said = sum(len(tokens) for *_, tokens, wrote in TURNS if wrote)
    every = sum(len(tokens) for *_, tokens, _ in TURNS)
    rows = "; ".join(
        f"{who}, {what}: {' '.join(tokens)}, mask {int(wrote)} on each"
        for who, what, tokens, wrote in TURNS
    )
    lesson = f"The loss is a mean over {said} of {every} tokens: those that were said."
    picture = Picture(
        "The model answers for what it said, not for what it heard",
        f"A conversation as rows of tokens, each with its mask below. {rows}. {lesson}",
    )
    y = picture.top
    for who, what, tokens, wrote in TURNS:
        style = SAID if wrote else HEARD
        style = EMPTY if who == "padding" else style
        name = picture.label(12, y, who, bold=True)
        picture.label(name.right + 5, y, what, colour=GREY)
        for token in picture.tokens(12, name.bottom + 3, tokens, style):
            mask = str(int(wrote))
            picture.label(token.cx, token.bottom + 1, mask, mono=True, anchor="middle")
        y = name.bottom + 3 + 22 + 1 + 15 + 10
    picture.label(12, y, lesson, bold=True)
    return picture
