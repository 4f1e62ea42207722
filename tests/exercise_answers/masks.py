"""Notebook 04: positions, masks, and rows."""

import numpy as np

from helpers.exercises.sft import END, MODEL, NEWLINE, START

TRUE = {
    "Ada": "shifted by one",
    "Ben": "never learns to stop",
    "Cho": "nothing",
    "Dan": "learns padding",
    "Eve": "learns the question",
}


def dialogue(tokens, *, opening=3, end=1, newline=0, stop=(END,)):
    """The solution of exercise 3, with its usual mistakes as switches."""
    mask, speaking = [], False
    for t, token in enumerate(tokens):
        begins = t >= opening and tokens[t - opening] == START
        if begins and tokens[t - opening + 1] == MODEL:
            speaking = True
        if token in stop and speaking:
            mask.append(end)
            speaking = False
        else:
            after = newline and t > 0 and tokens[t - 1] == END
            mask.append(int(speaking or bool(after)))
    return mask


def with_mistake(**mistake):
    return lambda tokens: dialogue(tokens, **mistake)


def by_turns(tokens):
    """A right alternative: turn by turn, from END to END."""
    mask, t = np.zeros(len(tokens), int), 0
    while t < len(tokens):
        if END not in tokens[t:]:
            break
        close = tokens.index(END, t)
        if tokens[t + 1] == MODEL:
            mask[t + 3 : close + 1] = 1
        t = close + 2
    return mask


def layout(lengths, room, *, first=1, restart=True, origin=0):
    """The solution of exercise 4, with its usual mistakes as switches."""
    segments, positions = [], []
    for segment, length in enumerate(lengths, start=first):
        start = origin if restart else len(positions)
        segments += [segment] * length
        positions += range(start, start + length)
    rest = room - len(segments)
    return segments + [0] * rest, positions + [0] * rest


def row(**mistake):
    return lambda lengths, room: layout(lengths, room, **mistake)


def with_arrays(lengths, room):
    """A right alternative, in NumPy."""
    segments, positions = np.zeros(room, int), np.zeros(room, int)
    start = 0
    for i, length in enumerate(lengths):
        segments[start : start + length] = i + 1
        positions[start : start + length] = np.arange(length)
        start += length
    return segments, positions


WRONG = {
    "04-1": {
        "of the targets": (12, 17),
        "without the end": (11, 15),
        "with the line break": (11, 17),
        "halves": (11.5, 16.5),
    },
    "04-2": {
        "all right": dict.fromkeys(TRUE, "nothing"),
        "one not judged": TRUE | {"Eve": None},
        "other words": TRUE | {"Dan": "padding is learned"},
        "two exchanged": TRUE | {"Dan": TRUE["Eve"], "Eve": TRUE["Dan"]},
    },
    "04-3": {
        "the opening, too": with_mistake(opening=2),
        "no end": with_mistake(end=0),
        "the line break after the end": with_mistake(newline=1),
        "stops at a line break": with_mistake(stop=(END, NEWLINE)),
    },
    "04-4": {
        "from 0": row(first=0),
        "positions go on": row(restart=False),
        "positions from 1": row(origin=1),
        "exchanged": lambda lengths, room: layout(lengths, room)[::-1],
    },
}

RIGHT = {
    "04-1": {"floats": (11.0, 16.0)},
    "04-2": {"another order": dict(reversed(TRUE.items()))},
    "04-3": {"a walk": dialogue, "turn by turn": by_turns},
    "04-4": {"arrays": with_arrays},
}
