"""Self-checks of notebook 04: what is learned from a row of tokens."""

import numpy as np

from helpers.exercises.check import (
    Check,
    check_properties,
    filled,
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
    """Five loss masks for one padded row, by who wrote them, for exercise 2.

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
    properties = {
        "name two positions": filled(first, last, what="two positions"),
        f"name positions of the row, whole numbers from 0 to {row - 1}": lambda: (
            whole(first, last) and 0 <= first <= last < row
        ),
        "count a prediction for each token of the answer and the end of the turn": (
            lambda: last - first + 1 == targets
        ),
        "name where predictions are made, not where their targets stand": lambda: (
            (first, last) == (PROMPT - 1, PROMPT + targets - 2)
        ),
    }
    return check_properties(properties)


def check_verdicts(verdicts) -> Check:
    """Exercise 2: the fault of each of five masks."""
    fault = "a fault of checks.FAULTS"
    properties = {
        "judge all five masks": lambda: filled(
            *(verdicts[name] for name in _VERDICTS), what=fault
        )(),
        "use the words of checks.FAULTS": lambda: {*verdicts.values()} <= {*FAULTS},
    }
    for name, truth in _VERDICTS.items():
        properties[f"judge {name}'s mask right"] = lambda name=name, truth=truth: (
            verdicts[name] == truth
        )
    return check_properties(properties)


def check_dialogue_mask(answer) -> Check:
    """Exercise 3: the mask of a conversation with several turns."""
    rng = np.random.default_rng(0)
    question = [START, USER, NEWLINE, 40, 41, END, NEWLINE]
    talk = [*question, START, MODEL, NEWLINE, 42, 43, END, NEWLINE]
    tricky = [START, USER, NEWLINE, 40, MODEL, NEWLINE, 41, END, NEWLINE]
    cases = [(_conversation(rng),) for _ in range(30)]

    def mask(tokens):
        return zeros_and_ones(answer(tokens))

    properties = {
        "learn nothing a user says": [(question,)],
        "leave out what opens the model's turn": lambda: not any(mask([*talk])[7:10]),
        "learn the model's words and its END, and not the newline after it": [(talk,)],
        "not take the word `model` in a question for a turn": [(tricky,)],
        "be right for any conversation, with line breaks inside its turns": cases,
    }
    return check_properties(properties, mask, _dialogue_mask)


def _conversation(rng):
    """Tokens of some turns, whose words may be NEWLINE, USER or MODEL, too."""
    tokens = []
    for role in rng.choice([USER, MODEL], size=5).tolist():
        words = rng.choice([NEWLINE, USER, MODEL, 10, 11, 12], rng.integers(6)).tolist()
        tokens += [START, role, NEWLINE, *words, END, NEWLINE]
    return tokens


def _dialogue_mask(tokens):
    mask, learns = [], False
    for i, token in enumerate(tokens):
        if i >= 3 and tokens[i - 3] == START:
            learns = tokens[i - 2] == MODEL
        mask.append(int(learns))
        learns = learns and token != END
    return mask


def check_row_layout(answer) -> Check:
    """Exercise 4: segment ids and positions of a packed row."""
    rng = np.random.default_rng(4)
    rows = [rng.integers(1, 9, rng.integers(1, 6)).tolist() for _ in range(10)]
    cases = [(row, sum(row) + room) for row in rows for room in (0, 5)] + [([], 3)]

    def packed(lengths, room):
        places = [(i, t) for i, n in enumerate(lengths, 1) for t in range(n)]
        places += [(0, 0)] * (room - len(places))
        return tuple(map(list, zip(*places, strict=True)))

    def part(i):
        return [int(number) for number in answer([3, 2], 8)[i]]

    properties = {
        "number the examples from 1, in order": lambda: part(0)[:5] == [1, 1, 1, 2, 2],
        "count positions from 0 in each one": lambda: part(1)[:5] == [0, 1, 2, 0, 1],
        "be right for any lengths, with and without padding": cases,
    }
    return check_properties(properties, answer, packed)
