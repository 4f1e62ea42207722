"""The self-checks of notebook 09 turn away the answers that learners give first."""

import pytest

from helpers.exercises import food_sft as checks
from helpers.tools.calls import HERMES


def image_tokens(patches_PC, columns, square, axes=(1, 3), turned=False):
    across, down = columns // square, len(patches_PC) // columns // square
    cut = patches_PC.reshape(down, square, across, square, -1).mean(axis=axes)
    return (cut.swapaxes(0, 1) if turned else cut).reshape(-1, patches_PC.shape[1])


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda patches, *sizes: patches, "one row for each square"),
        (lambda *given: 4 * image_tokens(*given), "stays 7"),
        (lambda *given: image_tokens(*given, axes=(0, 2)), "two rows and two columns"),
        (lambda *given: image_tokens(*given, turned=True), "reading order"),
        (lambda patches, *sizes: image_tokens(patches, 4, 2), "pictures of any shape"),
    ],
)
def test_averages_that_are_wrong_are_told_why(answer, word):
    assert checks.check_image_tokens(image_tokens).passed
    verdict = checks.check_image_tokens(answer)
    assert not verdict.passed and word in verdict.message


def problem(call, without):
    """The solution of exercise 2, leaving out one of its questions."""
    food, grams = (call.arguments.get(name) for name in ("food", "grams"))
    number = isinstance(grams, int | float)
    questions = {
        "tool": call.name == "lookup_nutrition",
        "grams are": "grams" in call.arguments,
        "too many": set(call.arguments) <= {"food", "grams"},
        "no text": isinstance(food, str),
        "quotes": number or "grams" not in call.arguments,
        "true": not isinstance(grams, bool),
        "of 0": not number or grams > 0,
        "5,000": not number or grams <= 5000,
    }
    return any(not holds for name, holds in questions.items() if name != without)


def execute(text, lookup, *, without=None, most=9, why="that cannot be done"):
    verdict = HERMES.parse(text)
    if verdict.error and without != "malformed":
        return [{"error": why}]
    return [
        {"error": why}
        if problem(call, without)
        else lookup(call.arguments["food"], call.arguments.get("grams", 100))
        for call in verdict.calls[:most]
    ]


@pytest.mark.parametrize(
    "mistake, word",
    [
        ({"without": "malformed"}, "malformed"),
        ({"without": "tool"}, "a tool that there is not"),
        ({"without": "grams are"}, "without grams"),
        ({"without": "too many"}, "too many"),
        ({"without": "no text"}, "no text"),
        ({"without": "quotes"}, "quotes"),
        ({"without": "true"}, "true"),
        ({"without": "of 0"}, "of 0"),
        ({"without": "5,000"}, "above 5,000"),
        ({"most": 1}, "both calls"),
        ({"why": "no"}, "in words"),
    ],
)
def test_an_executor_with_a_usual_mistake_is_told_which(mistake, word):
    assert checks.check_execute(execute).passed
    verdict = checks.check_execute(lambda *given: execute(*given, **mistake))
    assert not verdict.passed and word in verdict.message


def test_running_a_call_twice_is_noticed():
    def twice(text, lookup):
        execute(text, lookup)
        return execute(text, lookup)

    assert "once" in checks.check_execute(twice).message


def test_arguments_are_told_by_name_and_every_call_is_run():
    def by_place(text, lookup):
        calls = HERMES.parse(text).calls
        return [lookup(*call.arguments.values()) for call in calls]

    assert "grams first" in checks.check_execute(by_place).message
    two = checks.check_execute(lambda *given: execute(*given, most=2)).message
    assert "three or four" in two


def learned(turns, *, tool="user", end=1, line=0, learns=("model",)):
    row, mask = [], []
    for who, said in turns:
        mine = int(who in learns)
        row += ["<start_of_turn>", tool if who == "tool" else who, "\n", *said]
        row += ["<end_of_turn>", "\n"]
        mask += [0] * 3 + [mine] * len(said) + [mine * end, mine * line]
    return row, mask


def from_the_row(turns):
    row, mask = learned(turns)[0], []
    for place in range(len(row)):
        before = row[max(0, place - 3) : place]
        begun = before == ["<start_of_turn>", "model", "\n"]
        going_on = place > 0 and mask[-1] == 1 and row[place - 1] != "<end_of_turn>"
        mask.append(int(begun or going_on))
    return row, mask


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda turns: learned(turns)[1], "two things"),
        (lambda turns: learned(turns, tool="tool"), "under user"),
        (lambda turns: (learned(turns)[0], [1, 0]), "each piece"),
        (lambda turns: learned(turns, learns=("user", "model")), "the user says"),
        (lambda turns: learned(turns, learns=("tool", "model")), "the tool says"),
        (lambda turns: learned(turns, learns=()), "the model says"),
        (lambda turns: learned(turns, end=0), "end of the model's turns"),
        (lambda turns: learned(turns, line=1), "no other piece"),
        (from_the_row, "looks like a turn of the model"),
    ],
)
def test_masks_with_a_usual_mistake_are_told_which(answer, word):
    assert checks.check_learned(learned).passed
    verdict = checks.check_learned(answer)
    assert not verdict.passed and word in verdict.message


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda foods: sum(foods.count(f) for f in foods) / len(foods) ** 2, "own"),
        (lambda foods: 1 / len(set(foods)), "no food comes twice"),
        (lambda foods: float(len(set(foods)) == 1), "two pairs"),
        (lambda foods: {1: 1, 2: 1 / 3, 3: 0}[len(set(foods))], "three of one food"),
    ],
)
def test_a_chance_with_a_usual_mistake_is_told_which(answer, word):
    verdict = checks.check_by_luck(answer)
    assert not verdict.passed and word in verdict.message
