"""Instructions that a program can check: one sentence about a word, and rules for it.

Nobody has to write a good answer. The rules are the reward.

A row has the "question", its "word", the names of its "rules", and an empty "answer".
"""

import pathlib
import random
import re

from helpers.rewards.functions import answer_text

NOUNS = pathlib.Path(__file__).with_name("nouns.txt").read_text("utf-8").split()
TRAIN = 130  # words to learn from; the others are held out
COLORS = (
    "red blue green yellow orange purple pink brown black white gray grey golden silver"
).split()


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return re.findall(r"[A-Za-z'’-]+", text)


# By name: what the question says, and whether a text follows it.
RULES = {
    "short": ("Use at most ten words.", lambda text: 3 < len(words_of(text)) <= 10),
    "lowercase": ("Use only lowercase letters.", str.islower),
    "shout": ("End with an exclamation mark.", lambda text: text.endswith("!")),
    "today": ("Begin with the word Today.", lambda text: text.startswith("Today")),
    "color": (
        "Mention a color.",
        lambda text: any(word in COLORS for word in words_of(text.lower())),
    ),
    "question": ("Write it as a question.", lambda text: text.endswith("?")),
}


def split_words(split: str) -> list[str]:
    """The words to learn from ("train"), or the held-out ones ("test")."""
    words = sorted(NOUNS)
    random.Random(0).shuffle(words)
    return words[:TRAIN] if split == "train" else words[TRAIN:]


def ask(words, rules=("short",)) -> list[dict]:
    """One row for each word, all with these rules."""
    texts = " ".join(RULES[name][0] for name in rules)
    return [
        {
            "question": f"Write one sentence about {word}. {texts}",
            "word": word,
            "rules": list(rules),
            "answer": "",
        }
        for word in words
    ]


def is_sentence(text: str) -> bool:
    """Whether a text is one sentence: one stop, at its end, and no line break."""
    return len(re.findall(r"[.!?](?=\s|$)", text)) == 1 and bool(
        re.fullmatch(r"[^\n]*[.!?]", text)
    )


def conditions(text: str, word: str, rules) -> list[bool]:
    """Whether a text is a sentence, is about the word, and follows each rule."""
    text = text.strip()
    begins = text[:1].isupper() or "lowercase" in rules
    follows = [RULES[name][1](text) for name in rules]
    return [begins and is_sentence(text), word in text.lower(), *follows]


def follows(prompts, completions, word, rules, **_) -> list[float]:
    """1 for an answer that meets all conditions. It must contain the row's word."""
    rows = zip(map(answer_text, completions), word, rules, strict=True)
    return [float(all(conditions(*row))) for row in rows]


def partly(prompts, completions, word, rules, **_) -> list[float]:
    """The share of its conditions that an answer meets: a slope towards `follows`."""
    rows = zip(map(answer_text, completions), word, rules, strict=True)
    return [sum(met) / len(met) for met in (conditions(*row) for row in rows)]


STOP_WORDS = set(
    "a an the is are was were be of to in on and or it its that this for with as at by "
    "from can has have very type kind word thing".split()
)


def says_something(prompts, completions, word, **_) -> list[float]:
    """How many words an answer adds to the word it is about: 1 from four on.

    Words of grammar, and words that contain the row's word, do not count. An answer of
    more than twelve words earns nothing.
    """
    scores = []
    for text, about in zip(map(answer_text, completions), word, strict=True):
        words = [each.lower() for each in words_of(text)]
        new = {w for w in words if w not in STOP_WORDS and about not in w}
        scores.append(min(len(new), 4) / 4 if len(words) <= 12 else 0.0)
    return scores
