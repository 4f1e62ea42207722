"""The walk through the course, and the app at its end."""

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import (
    GREY,
    HEARD,
    JUDGED,
    OTHER,
    PLAIN,
    SAID,
    SMALL,
    text_width,
)

WALK = (  # style, then heading and text of maths and of food
    (
        HEARD,
        ("03 Base model", "states a number, seldom works it out"),
        ("A base that sees", "has read pictures, knows no tool"),
    ),
    (
        SAID,
        ("04 SFT", "imitates worked solutions"),
        ("09 SFT", "imitates: look, call, answer"),
    ),
    (
        JUDGED,
        ("07 GRPO, 08 GSPO", "tries, and is rewarded for right numbers"),
        ("10 GRPO", "tries, with the nutrition tool in the loop"),
    ),
    (
        OTHER,
        ("11 Distillation", "hands it on to a smaller student"),
        ("14 Assistant", "an app that people can use"),
    ),
)


def walk() -> Picture:
    """The walk: SFT, RL and what follows, for maths and for food."""
    columns = [
        ", then ".join(f"“{head}” ({text})" for head, text in column)
        for column in list(zip(*WALK, strict=True))[1:]
    ]
    picture = Picture(
        "Imitate, be rewarded, hand on",
        "Two columns of boxes with the numbers of the notebooks, joined by arrows from "
        f"top to bottom. Maths: {columns[0]}. Food: {columns[1]}.",
    )
    left, right = 12, 186
    y = picture.top
    for x, name in ((left, "Maths"), (right, "Food")):
        picture.label(x + 81, y, name, size=14, bold=True, anchor="middle")
    y += 24
    for i, (style, maths, food) in enumerate(WALK):
        for x, (head, text) in ((left, maths), (right, food)):
            frame = picture.box(x, y, 162, head, text, style, h=64)
            if i + 1 < len(WALK):
                picture.arrow(
                    (frame.cx, frame.bottom + 2), (frame.cx, frame.bottom + 22)
                )
        y += 64 + 24
    return picture


LANES = ("person", "app", "model", "tool", "log")
TOLD = (  # from, to, what
    ("person", "app", "a photo, “How many kcal in 150 g?”"),
    ("app", "model", "picture and question, as tokens"),
    ("model", "app", "a call: <<lookup pizza 150>>"),
    ("app", "tool", "the call, checked: pizza, 150 g"),
    ("tool", "app", "the result: 402 kcal"),
    ("app", "model", "the result, as tokens"),
    ("model", "app", "the answer: #### 402"),
    ("app", "person", "call, result and answer, one by one"),
    ("person", "app", "“It was 300 g. Log it.”"),
    ("app", "log", "a meal: pizza, 300 g, 804 kcal"),
)


def app_conversation() -> Picture:
    """Who tells whom what in the food-logging app, from photo to diary."""
    told = "; ".join(
        f"{i}. {what} ({start} to {end})"
        for i, (start, end, what) in enumerate(TOLD, 1)
    )
    picture = Picture(
        "The model never touches the tool: the app stands between them",
        "A sequence of messages between five parties, side by side: "
        f"{', '.join(LANES)}. From top to bottom: {told}.",
    )
    styles = (PLAIN, PLAIN, SAID, OTHER, HEARD)
    lanes = {
        name: picture.box(12 + 68.5 * i, picture.top, 62, name, "", style, pad=4).cx
        for i, (name, style) in enumerate(zip(LANES, styles, strict=True))
    }
    y = picture.top + 34
    for number, (start, end, what) in enumerate(TOLD, 1):
        y = _message(picture, y, lanes, start, end, f"{number}. {what}")
    return picture


def _message(picture, y, lanes, start, end, text) -> float:
    """A text, and below it an arrow from lane to lane; gives where the next begins.

    The lanes' lines stop where the text is.
    """
    from_, to = lanes[start], lanes[end]
    half = text_width(text, SMALL) / 2
    middle = min(max((from_ + to) / 2, 12 + half), 348 - half)
    words = picture.label(middle, y, text, anchor="middle")
    low = words.bottom + 8
    for x in lanes.values():
        free = not words.x - 4 < x < words.right + 4
        picture.line((x, y if free else low - 6), (x, low + 14), colour=GREY)
    inset = 3 if to > from_ else -3
    picture.arrow((from_ + inset, low), (to - inset, low))
    return low + 14
