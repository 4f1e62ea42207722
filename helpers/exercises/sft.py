"""Self-checks of notebook 04: what is learned from a row of tokens."""

import numpy as np

from helpers.exercises.check import Check, check_properties, filled

# Exercise 1: what can be wrong with a loss mask.
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

# Exercise 2: token ids of a toy template.
START, END, NEWLINE, USER, MODEL = 1, 2, 3, 4, 5


def suspects(mask) -> dict[str, list[int]]:
    """Five loss masks for one padded row, by who wrote them, for exercise 1.

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


def check_verdicts(verdicts) -> Check:
    """Exercise 1: the fault of each of five masks."""
    properties = {
        "judge all five masks": filled(verdicts, what="a fault of checks.FAULTS"),
        "use the words of checks.FAULTS": lambda: {*verdicts.values()} <= {*FAULTS},
    }
    for name, truth in _VERDICTS.items():
        properties[f"judge {name}'s mask right"] = lambda name=name, truth=truth: (
            verdicts[name] == truth
        )
    return check_properties(properties)


def check_dialogue_mask(answer) -> Check:
    """Exercise 2: the mask of a conversation with several turns."""
    rng = np.random.default_rng(0)
    # The words of a turn may be NEWLINE, USER or MODEL, too.
    words, roles = [NEWLINE, USER, MODEL, 10, 11, 12], [USER, MODEL]

    def any_turn():
        return _turn(rng.choice(roles), *rng.choice(words, rng.integers(6)))

    question = _turn(USER, 40, 41)
    talks = [sum((any_turn() for _ in range(5)), []) for _ in range(30)]
    properties = {
        "learn nothing a user says": [(question,)],
        "learn the model's words and its END, and not the newline after it": [
            (question + _turn(MODEL, 42, 43),)
        ],
        "not take the word `model` in a question for a turn": [
            (_turn(USER, 40, MODEL, NEWLINE, 41),)
        ],
        "be right for any conversation, with line breaks inside its turns": [
            (talk,) for talk in talks
        ],
    }
    return check_properties(properties, answer, _dialogue_mask)


def _turn(role, *words):
    return [START, int(role), NEWLINE, *map(int, words), END, NEWLINE]


def _dialogue_mask(tokens):
    mask, learns = [], False
    for i, token in enumerate(tokens):
        if i >= 3 and tokens[i - 3] == START:
            learns = tokens[i - 2] == MODEL
        mask.append(int(learns))
        learns = learns and token != END
    return mask
