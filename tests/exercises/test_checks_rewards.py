"""The self-checks of notebook 05 turn away the answers that learners give first."""

import re
from collections import Counter

import pytest

from helpers.exercises import rewards as checks
from helpers.rewards import functions
from helpers.tools.calculator import calculate


def verifier(text, numbers, target, *, fits=None, mark=True, lines=False):
    """The solution of exercise 1, with its usual mistakes as switches."""
    _, found, rest = text.rpartition("####")
    line = rest if lines else rest.partition("\n")[0]
    used = Counter(re.findall(r"[\d.]+", line))
    good = fits(used, numbers) if fits else not used - Counter(map(str, numbers))
    return float(bool(found or not mark) and good and calculate(line) == target)


@pytest.mark.parametrize(
    "mistake, word",
    [
        ({"fits": lambda used, numbers: True}, "28 itself"),
        ({"fits": lambda used, numbers: set(used) <= set(map(str, numbers))}, "twice"),
        ({"mark": False}, "without a ####"),
        ({"lines": True}, "its line only"),
    ],
)
def test_a_verifier_is_told_what_it_pays_for(mistake, word):
    verdict = checks.check_makes(lambda *given: verifier(*given, **mistake))
    assert not verdict.passed and word in verdict.message
    assert checks.check_makes(verifier).passed


def weights(correct, form, sums, length):
    names = ("correct", "format_reward", "annotations_hold", "length_penalty")
    return dict(zip(names, (correct, form, sums, length), strict=True))


@pytest.mark.parametrize(
    "answer, word",
    [
        (weights(1, 0.1, 0.1, 0), "something for each"),
        (weights(1, 0.5, 0.25, 0.25), "untidy"),  # a tie is not more
        ({"correct": 1.0}, "one weight"),
        (weights(1e40, 0.1, 0.1, 0.1), "float32"),
        (weights(1, 1e-300, 1e-300, 1e-300), "something for each"),
    ],
)
def test_weights_that_let_style_win_are_turned_away(answer, word):
    verdict = checks.check_weights(answer)
    assert not verdict.passed and word in verdict.message


def test_weights_with_substance_pass():
    assert checks.check_weights(weights(1, 0.1, 0.1, 0.1)).passed
    assert checks.check_weights(weights(10, 3, 3, 3)).passed


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "text"),
        (" ".join(map(str, range(1000))), "annotations_hold"),
        ("<<1=1>>", "contains_answer"),
        ("<<1=1>>" * 5000, "characters"),
    ],
)
def test_a_cheat_has_to_cheat_both(text, word):
    verdict = checks.check_cheat(text)
    assert not verdict.passed and word in verdict.message


def shown_work(*, gate=True, empty=True, bare=0.5):
    """The solution of exercise 4, with its usual mistakes as switches."""

    def reward(prompts, completions, answer, **_):
        right = functions.correct(prompts, completions, answer)
        scores = []
        for text, r in zip(completions, right, strict=True):
            holds = functions.annotations(text)
            worked = bool(holds) and all(holds)
            worked &= not (empty and re.search(r"<<[^=\d]*[\d.]+\D*=", text))
            scores.append((r if gate else 1.0) * (1.0 if worked else bare))
        return scores

    return reward


@pytest.mark.parametrize(
    "answer, word",
    [
        (functions.correct, "without any sum"),
        (functions.annotations_hold, "without any sum"),
        (shown_work(gate=False), "wrong answer"),
        (shown_work(empty=False), "<<1=1>>"),
        (shown_work(bare=0.0), "something"),
        (lambda prompts, completions, answer: [1.0] * len(completions), "columns"),
        (lambda prompts, completions, **_: [1.0], "one number per completion"),
    ],
)
def test_a_reward_for_shown_work_is_told_what_it_pays_for(answer, word):
    verdict = checks.check_shown_work(answer)
    assert not verdict.passed and word in verdict.message


def test_a_reward_for_shown_work_that_pays_for_both_passes():
    assert checks.check_shown_work(shown_work()).passed
