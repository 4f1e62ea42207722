"""The self-checks of notebook 10 turn away the answers that learners give first."""

import pytest
from exercise_answers import food

from helpers.course.stages import stage_folder
from helpers.exercises import food_grpo as checks
from helpers.rewards import food_rewards
from helpers.text import chat


def letters(text):
    tokenizer = chat.load_tokenizer(stage_folder("food_sft"))
    return [token for letter in text for token in tokenizer.encode(letter)]


@pytest.mark.parametrize(
    "spelling, word",
    [
        (None, "a list of token ids"),
        ("<<lookup pizza 150>>", "vocabulary"),
        ([10**6], "vocabulary"),
        ([*letters("<<lookup pizza 150>>"), 5], "exactly"),
        ([2, *letters("<<lookup pizza 150>>")], "control"),
        ([266, 302, 367, 229, 25, 29, 24, 267], "other tokens"),
    ],
)
def test_a_spelling_is_told_what_it_lacks(spelling, word):
    assert checks.check_spelling(letters("<<lookup pizza 150>>")).passed
    verdict = checks.check_spelling(spelling)
    assert not verdict.passed and word in verdict.message


@pytest.mark.parametrize(
    "answer, word",
    [
        (-0.9, "more than 0"),
        (0.4, "dearer"),
        (8 * 15 / 225, "dearer"),  # all the 225 are counted against looking again
        (8 * 15 / 160, "cheaper"),
        ("a lot", "number"),
    ],
)
def test_a_price_that_is_off_is_told_which_way(answer, word):
    verdict = checks.check_price(answer)
    assert not verdict.passed and word in verdict.message


@pytest.mark.parametrize("answer", [120 / 185, 0.65, 0.648])
def test_the_price_may_be_rounded(answer):
    assert checks.check_price(answer).passed


@pytest.mark.parametrize(
    "cheat, word",
    [
        ("#### no food", "list of texts"),
        ([], "played"),
        (["#### no food", "#### 402"], "played"),  # a turn after the answer
        (["<<lookup pizza 150>>", "#### 402"], "not be solved"),
        (["<<lookup sushi 150>>", "#### 218"], "paid in full"),
        (["I cannot tell."], "paid in full"),
        (["<<lookup pizza 150>>"] * 3, "paid in full"),
        (["<<lookup pizza 150>>", "#### 500"], "look nothing up"),
    ],
)
def test_a_cheat_has_to_cheat(cheat, word):
    verdict = checks.check_cheat(cheat)
    assert not verdict.passed and word in verdict.message


def test_denying_the_food_and_inventing_a_number_are_cheats():
    assert checks.check_cheat(["#### 500"]).passed
    assert checks.check_cheat(["<<lookup pizza", "#### 1"]).passed  # as a policy found
    assert checks.check_cheat(["#### no food"]).passed
    assert checks.check_cheat(["I see no plate.\n#### no food"]).passed


@pytest.mark.parametrize(
    "answer, word",
    [
        (food.mended(right=0), "what is solved more"),
        (food.mended(price=0), "where there is some"),
        (food.mended(price=1), "where there is some"),
        (food.mended(price=2), "of the right form"),
        (
            food.mended(
                silent=lambda t: food_rewards.NO_FOOD in t.said and not t.calls
            ),
            "without a call",
        ),
        (food.mended(silent=food.no_try), "broken off"),
        (food.mended(price=0, call=3), "needless calls dear"),
        (food.mended(empty=0), "on an empty plate"),
        (lambda prompts, completions, portions: [0.0] * len(prompts), "columns"),
        (lambda prompts, completions, **_: [0.0], "per completion"),
        (food_rewards.declined, "what is solved more"),
        (food_rewards.solved, "where there is some"),
    ],
)
def test_a_missing_price_is_told_what_it_misses(answer, word):
    verdict = checks.check_mended(answer)
    assert not verdict.passed and word in verdict.message


def test_a_mended_reward_passes():
    assert checks.check_mended(food.mended()).passed
