"""Self-checks of notebook 15: the rank that fits, and a reward."""

import numpy as np

from helpers.exercises.check import Check, check_properties
from helpers.tasks import instructions


def check_largest_rank(answer) -> Check:
    """The largest rank of LoRA that a chip's memory holds beside the frozen model."""
    rng, cases = np.random.default_rng(15), [([(100, 60)], 1e9)]  # plenty of room
    for count in (1, 2, 3, 4, 5):
        matrices = [tuple(shape) for shape in rng.integers(8, 200, (count, 2)).tolist()]
        for rank in (1, 2, 7, 64):  # that just fits the chip, and just does not
            chips = (needed(matrices, rank) / 0.9 * share for share in (1.0001, 0.9999))
            cases += [(matrices, chip) for chip in chips]

    def largest(matrices, chip):
        fits = [rank for rank in range(1, 65) if needed(matrices, rank) <= 0.9 * chip]
        return max(fits, default=None)

    properties = {
        "be None where the frozen model takes more than there is": [
            ([(100, 60)], 12_000)
        ],
        "count 2 bytes for a frozen number and 16 for a trained one: it, its gradient "
        "and two means, in float32": [([(100, 60)], 60_000)],
        "be right for other models and chips, up to a rank of 64": cases,
    }
    return check_properties(properties, answer, largest)


def needed(matrices, rank):
    """Bytes of the frozen matrices and of what is trained beside them."""
    return sum(2 * r * c + 16 * rank * (r + c) for r, c in matrices)


def check_says_something(answer) -> Check:
    """A reward for the words that a sentence adds to the one it is about."""
    rng, others = np.random.default_rng(15), [["Bread"]]
    words = "the is a of very Bread bread's fresh Fresh warm made with salt".split()
    for count in range(1, 15):
        others += rng.choice(words, (5, count)).tolist()
    twelve = "Bread, and that is all that is to be of it here."
    cases = {
        "pay a quarter for each new word": ["Bread is tasty.", "Warm bread is tasty."],
        "pay no more than 1.0": ["Bakers knead fresh bread every morning."],
        "pay nothing for words of grammar": ["That is for the bread."],
        "pay nothing for a word that contains the row's word": ["Breads are Breaded."],
        "count a word once, with a capital or without": ["Warm, warm, WARM bread."],
        "pay nothing for more than twelve words": [twelve, "Oh! " + twelve],
        "be right for other sentences": [" ".join(x) for x in others],
    }
    properties = {x: [(text, "bread") for text in texts] for x, texts in cases.items()}

    def says_something(text, word):
        return instructions.says_something([""], [text], word=[word])[0]

    return check_properties(properties, answer, says_something)
