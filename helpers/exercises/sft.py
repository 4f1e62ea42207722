"""Self-checks of notebook 04: what is learned from a row of tokens."""

import numpy as np

from helpers.exercises.check import Check, check_properties, filled, whole

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
    properties = {
        "name two positions": filled(first, last, what="two positions"),
        "count a prediction for each token of the answer and the end of the turn": (
            lambda: whole(first, last) and last - first == ANSWER
        ),
        "name where predictions are made, not where their targets stand": lambda: (
            (first, last) == (PROMPT - 1, PROMPT - 1 + ANSWER)
        ),
    }
    return check_properties(properties)


def check_verdicts(verdicts) -> Check:
    """Exercise 2: the fault of each of five masks."""
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
    """Exercise 3: the mask of a conversation with several turns."""
    rng = np.random.default_rng(0)
    question = [START, USER, NEWLINE, 40, 41, END, NEWLINE]
    talk = [*question, START, MODEL, NEWLINE, 42, 43, END, NEWLINE]
    tricky = [START, USER, NEWLINE, 40, MODEL, NEWLINE, 41, END, NEWLINE]

    def conversation():
        """Tokens of some turns, whose words may be NEWLINE, USER or MODEL, too."""
        tokens, words = [], [NEWLINE, USER, MODEL, 10, 11, 12]
        for role in rng.choice([USER, MODEL], size=5).tolist():
            turn = rng.choice(words, rng.integers(6)).tolist()
            tokens += [START, role, NEWLINE, *turn, END, NEWLINE]
        return tokens

    def mask(tokens):
        mask, learns = [], False
        for i, token in enumerate(tokens):
            if i >= 3 and tokens[i - 3] == START:
                learns = tokens[i - 2] == MODEL
            mask.append(int(learns))
            learns = learns and token != END
        return mask

    properties = {
        "learn nothing a user says": [(question,)],
        "learn the model's words and its END, and not the newline after it": [(talk,)],
        "not take the word `model` in a question for a turn": [(tricky,)],
        "be right for any conversation, with line breaks inside its turns": [
            (conversation(),) for _ in range(30)
        ],
    }
    return check_properties(properties, answer, mask)


def check_row_layout(answer) -> Check:
    """Exercise 4: segment ids and positions of a packed row."""
    rng = np.random.default_rng(4)
    rows = [rng.integers(1, 9, rng.integers(1, 6)).tolist() for _ in range(10)]
    cases = [(row, sum(row) + room) for row in rows for room in (0, 5)] + [([], 3)]

    def packed(lengths, room):
        places = [(i, t) for i, n in enumerate(lengths, 1) for t in range(n)]
        places += [(0, 0)] * (room - len(places))
        return tuple(map(list, zip(*places, strict=True)))

    properties = {
        "number the examples from 1, in order": lambda: (
            [*answer([3, 2], 8)[0]][:5] == [1, 1, 1, 2, 2]
        ),
        "count positions from 0 in each one": [([3, 2], 8)],
        "be right for any lengths, with and without padding": cases,
    }
    return check_properties(properties, answer, packed)
