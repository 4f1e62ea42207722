"""Self-checks of notebooks/04_sft: what is learned from a row of tokens."""

import numpy as np

from helpers.exercises.check import (
    Check,
    check_properties,
    filled,
    leaves_alone,
    whole,
    zeros_and_ones,
)

# Exercise 1: a row of 12 prompt tokens, 5 answer tokens, end of turn, newline.
PROMPT, ANSWER = 12, 5

# Exercise 2: what can be wrong with a loss mask.
FAULTS = (
    "nothing",
    "learns the question",
    "never learns to stop",
    "shifted by one",
    "learns padding",
)
_VERDICTS = {
    "Ada": "shifted by one",
    "Ben": "never learns to stop",
    "Cho": "nothing",
    "Dan": "learns padding",
    "Eve": "learns the question",
}

# Exercise 3: token ids of a toy template.
START, END, NEWLINE, USER, MODEL = 1, 2, 3, 4, 5


def suspects(mask) -> dict[str, list[int]]:
    """Five loss masks for one padded row, by who wrote them; exercise 2 judges them.

    Args:
      mask: the right mask, 0 on prompt and padding, 1 from the answer's first token
        through its end-of-turn; at least two tokens follow it.
    """
    right = np.asarray(mask, int)
    first, last = np.flatnonzero(right)[[0, -1]]
    masks = {name: right.copy() for name in _VERDICTS}
    masks["Ada"] = np.roll(right, 1)
    masks["Ben"][last] = 0
    masks["Dan"][last + 2 :] = 1
    masks["Eve"][1:first] = 1
    return {name: mask.tolist() for name, mask in masks.items()}


def check_positions(first, last) -> Check:
    """Exercise 1: whose hidden states predict the tokens that are learned."""
    row, targets = PROMPT + ANSWER + 2, ANSWER + 1
    return check_properties(
        ("name two positions", filled(first, last, what="two positions")),
        (
            "be two whole numbers",
            lambda: whole(first, last),
        ),
        (
            f"name positions of the row, 0 to {row - 1}",
            lambda: 0 <= first <= last < row,
        ),
        (
            "count as many predictions as there are tokens to learn, the end of the "
            "turn among them and the newline not",
            lambda: last - first + 1 == targets,
        ),
        (
            "name where predictions are made, not where their targets stand",
            lambda: (first, last) == (PROMPT - 1, PROMPT + targets - 2),
        ),
    )


def check_verdicts(verdicts) -> Check:
    """Exercise 2: the fault of each of five masks."""

    def judged(name):
        return lambda: verdicts[name] == _VERDICTS[name]

    def judged_all():
        return filled(*verdicts.values(), what="a fault of checks.FAULTS")()

    return check_properties(
        ("judge all five masks", judged_all),
        (
            "use the words of checks.FAULTS",
            lambda: set(verdicts.values()) <= set(FAULTS),
        ),
        *((f"judge {name}'s mask right", judged(name)) for name in _VERDICTS),
    )


def check_dialogue_mask(answer) -> Check:
    """Exercise 3: the mask of a conversation with several turns."""
    rng = np.random.default_rng(0)

    def turn(role, size):
        words = rng.integers(10, 99, size).tolist()
        return [START, role, NEWLINE, *words, END, NEWLINE]

    single = turn(USER, 4) + turn(MODEL, 3)
    double = single + turn(USER, 2) + turn(MODEL, 1)
    asked = turn(USER, 6) + [START, MODEL, NEWLINE]
    tricky = [START, USER, NEWLINE, 40, MODEL, NEWLINE, 41, END, NEWLINE]
    tricky += turn(MODEL, 2)

    first = turn(MODEL, 3) + turn(USER, 2) + turn(MODEL, 0)
    talks = [_conversation(rng) for _ in range(20)]

    def mask(tokens):
        return zeros_and_ones(answer(list(tokens)))

    return check_properties(
        ("give one entry per token", lambda: len(mask(single)) == len(single)),
        ("learn nothing a user says", lambda: not any(mask(turn(USER, 5)))),
        (
            "leave out the three tokens that open the model's turn",
            lambda: not any(mask(single)[9:12]),
        ),
        ("learn the model's words", lambda: mask(single)[12:15] == [1, 1, 1]),
        ("learn the end of the model's turn", lambda: mask(single)[15] == 1),
        ("leave out the newline after it", lambda: mask(single)[16] == 0),
        (
            "learn both answers of a conversation with two",
            lambda: mask(double)[:17] == mask(single) and sum(mask(double)[17:]) == 2,
        ),
        ("learn nothing where no answer has begun", lambda: not any(mask(asked))),
        (
            "not take the word `model` in a question for a turn",
            lambda: mask(tricky) == [0] * 12 + [1] * 3 + [0],
        ),
        (
            "learn an answer that opens the conversation, and one without words",
            lambda: mask(first) == [0] * 3 + [1] * 4 + [0] * 11 + [1, 0],
        ),
        (
            "learn nothing of a turn that has just been opened",
            lambda: mask([START, MODEL, NEWLINE]) == [0, 0, 0],
        ),
        (
            "be right for any conversation, with line breaks inside its turns",
            lambda: all(mask(tokens) == truth for tokens, truth in talks),
        ),
        ("leave the tokens as they are", lambda: leaves_alone(answer, double)),
    )


def _conversation(rng):
    """(tokens, mask) of some turns; words may be NEWLINE, USER or MODEL, too."""
    tokens, mask = [], []
    for role in rng.choice([USER, MODEL], size=5).tolist():
        words = rng.choice([NEWLINE, USER, MODEL, 10, 11, 12], rng.integers(6)).tolist()
        own = int(role == MODEL)
        tokens += [START, role, NEWLINE, *words, END, NEWLINE]
        mask += [0, 0, 0] + [own] * len(words) + [own, 0]
    return tokens, mask


def check_row_layout(answer) -> Check:
    """Exercise 4: segment ids and positions of a packed row."""
    rng = np.random.default_rng(4)
    rows = [rng.integers(1, 9, rng.integers(1, 6)).tolist() for _ in range(10)]

    def layout(lengths, room):
        segments, positions = answer(list(lengths), room)
        return [float(s) for s in segments], [float(p) for p in positions]

    def right(lengths, room):
        places = [(i, t) for i, n in enumerate(lengths, 1) for t in range(n)]
        places += [(0, 0)] * (room - len(places))
        return layout(lengths, room) == tuple(map(list, zip(*places, strict=True)))

    return check_properties(
        (
            "give as many entries as the row has room",
            lambda: [len(part) for part in layout([3, 2], 8)] == [8, 8],
        ),
        (
            "number the examples from 1, in order",
            lambda: layout([3, 2], 8)[0][:5] == [1, 1, 1, 2, 2],
        ),
        ("mark padding as segment 0", lambda: layout([3, 2], 8)[0][5:] == [0] * 3),
        (
            "count positions from 0 in every example",
            lambda: layout([3, 2], 8)[1][:5] == [0, 1, 2, 0, 1],
        ),
        (
            "fill a row without padding too",
            lambda: layout([1, 2, 1], 4) == ([1, 2, 2, 3], [0, 0, 1, 0]),
        ),
        ("keep an empty row empty", lambda: layout([], 3) == ([0] * 3, [0] * 3)),
        (
            "be right for any lengths, with and without padding",
            lambda: all(
                right(row, sum(row)) and right(row, sum(row) + 5) for row in rows
            ),
        ),
        (
            "leave the list of lengths as it is",
            lambda: leaves_alone(answer, [3, 2], 8),
        ),
    )
