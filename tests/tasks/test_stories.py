"""The English of problems and stories: articles, plurals, pronouns, verbs."""

import random
import re

import pytest

from helpers.tasks.maths.problem_parts import story
from helpers.tasks.maths.word_problems import generate


def many_rows(split="train", n=4000, seed=0):
    return generate(n, seed=seed, levels=(1, 2, 3, 4), split=split)


SHE = set("Aisha Anna Emma Lucy Maya Mia Nora Zoe".split())
HE = set("Ben Juan Leo Max Omar Ravi Sam Tom".split())
NOUNS = (
    "bead card coin marble shell stamp sticker apple cake cookie egg orange pear book "
    "hat lamp mug pen shirt ticket box bag page hour day week year friend dollar"
).split()
VERBS = (
    "have buy find get give lose eat put run walk save spend earn pay read fill work"
)


def check_english(text):
    names = "|".join(SHE | HE)
    singular = "|".join(NOUNS)
    assert not re.search(r"[{}]|  | [.,?]|\b[01]\b|None|<function|object at", text), (
        text
    )
    assert not re.search(r"\ba [aeiou]", text, re.IGNORECASE), text
    assert not re.search(r"\ban (?!hour)[^aeiou]", text, re.IGNORECASE), text
    assert not re.search(rf"\b\d+ (more |fewer )?({singular})\b", text), text
    assert not re.search(rf"\b(an?|each|one) ({singular})e?s\b", text), text
    bare = re.sub(rf"\b(does|do|and|will) ({names})\b", "", text)
    assert not re.search(rf"\b({names}|he|she) ({VERBS.replace(' ', '|')})\b", bare), (
        text
    )
    assert not re.search(rf"\bdoes [a-z ]*({names}) \w+s\b(?! than)", text), text
    assert not re.search(r"\b[Tt]hey \w+s\b", text), text
    assert not re.search(rf"\b({names}) and ({names}) \w+s\b", text), text
    assert not re.search(rf"\b({singular})e?s (is|has|costs|was)\b", text), text
    for sentence in re.split(r"(?<=[.?])\s", text):
        assert re.match(r"[A-Z]", sentence) and sentence[-1] in ".?", text


def check_pronouns(text):
    """He and she stand for whom the sentence before, or this one, began with."""
    subject = None
    for sentence in re.split(r"(?<=[.?])\s", text):
        named = re.findall("|".join(SHE | HE), sentence)
        first = re.match(r"(The next day |Then |On \w+ )?(\w+)", sentence)[2]
        if first in SHE | HE:
            subject = named[0]
        for word in re.findall(r"\b(he|she|his|her)\b", sentence.lower()):
            assert subject in (SHE if word in ("she", "her") else HE), text


@pytest.mark.parametrize("split", ["train", "test"])
def test_questions_and_answers_are_english(split):
    for row in many_rows(split, seed=3):
        steps = re.sub(r"<<.*?>>", "", row["answer"]).split("\n")[:-1]
        check_english(row["question"])
        check_english(" ".join(steps))
        check_pronouns(row["question"] + " " + " ".join(steps))
        assert row["question"].count("?") == 1 and row["question"][-1] == "?"
        assert re.search(r"(^|\. )How (much|many|old|far) ", row["question"]), row
        assert len(row["question"].split()) <= 50, row
        named = set(re.findall(r"\b[A-Z]\w+\b", row["question"])) & (SHE | HE)
        assert named == set(row["names"]) and len(named) == len(row["names"])


def test_stories_are_english_without_a_question():
    rng = random.Random(0)
    stories = [story(rng) for _ in range(3000)]
    for text in stories:
        check_english(text)
        check_pronouns(text)
        assert 3 <= text.count(".") <= 4 and "?" not in text
    assert len(set(stories)) > 2900


def test_the_whole_world_is_told_in_few_words():
    rng = random.Random(0)
    texts = [f"{row['question']} {row['answer']}" for row in many_rows(n=8000)]
    texts += [story(rng) for _ in range(2000)]
    assert len(set(re.findall(r"[A-Za-z]+", " ".join(texts)))) <= 350
