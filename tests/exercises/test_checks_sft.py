"""The self-checks of notebook 04 turn away the answers that learners give first."""

import pytest

from helpers.exercises import check as machinery
from helpers.exercises import sft as checks


def right_mask():
    """A row of 6 prompt tokens, 4 learned ones, a newline and 4 of padding."""
    return [0] * 6 + [1] * 4 + [0] * 5


def dialogue_mask(tokens, *, opening=3, close=True):
    """The solution of exercise 3, with its two usual mistakes as switches."""
    mask, speaking = [], False
    for t in range(len(tokens)):
        before = tokens[max(t - opening, 0) : max(t - opening + 2, 0)]
        if before == [checks.START, checks.MODEL]:
            speaking = True
        ends = tokens[t] == checks.END
        mask.append(int(speaking and (close or not ends)))
        speaking = speaking and not ends
    return mask


def layout(lengths, room, *, restart=True, first=1):
    """The solution of exercise 4, with its two usual mistakes as switches."""
    segments, positions = [], []
    for segment, length in enumerate(lengths, start=first):
        start = 0 if restart else len(positions)
        segments += [segment] * length
        positions += range(start, start + length)
    padding = [0] * (room - len(segments))
    return segments + padding, positions + padding


@pytest.mark.parametrize(
    "first, last, word",
    [
        (12, 17, "targets stand"),  # where the targets stand
        (11, 15, "count as many"),  # without the end of the turn
        (11, 17, "count as many"),  # with the line break
        (30, 35, "positions of the row"),
    ],
)
def test_positions_that_are_wrong_are_told_why(first, last, word):
    verdict = checks.check_positions(first, last)
    assert not verdict.passed and word in verdict.message


def test_the_suspects_differ_from_the_right_mask_as_they_are_said_to():
    right, masks = right_mask(), checks.suspects(right_mask())
    assert [name for name, mask in masks.items() if mask == right] == ["Cho"]
    assert len({tuple(mask) for mask in masks.values()}) == 5
    assert sum(masks["Ben"]) == sum(right) - 1 and masks["Ben"][9] == 0
    assert masks["Ada"] == [0] * 7 + [1] * 4 + [0] * 4
    assert masks["Eve"][:6] == [0, 1, 1, 1, 1, 1]
    assert masks["Dan"][10:] == [0, 1, 1, 1, 1]


def test_one_wrong_verdict_is_named_and_nothing_is_given_away():
    verdicts = dict.fromkeys(("Ada", "Ben", "Cho", "Dan", "Eve"), "nothing")
    verdict = checks.check_verdicts(verdicts)
    assert not verdict.passed and "Ada" in verdict.message
    assert not any(fault in verdict.message for fault in checks.FAULTS)


@pytest.mark.parametrize(
    "mistake, word", [({"opening": 2}, "open"), ({"close": False}, "end of the model")]
)
def test_a_dialogue_mask_with_a_usual_mistake_is_told_which(mistake, word):
    assert checks.check_dialogue_mask(dialogue_mask).passed
    verdict = checks.check_dialogue_mask(lambda t: dialogue_mask(t, **mistake))
    assert not verdict.passed and word in verdict.message


@pytest.mark.parametrize(
    "mistake, word", [({"restart": False}, "from 0"), ({"first": 0}, "from 1")]
)
def test_a_row_layout_with_a_usual_mistake_is_told_which(mistake, word):
    assert checks.check_row_layout(layout).passed
    verdict = checks.check_row_layout(lambda *row: layout(*row, **mistake))
    assert not verdict.passed and word in verdict.message


def test_checks_are_verdicts_also_for_nonsense():
    for check in (checks.check_dialogue_mask, checks.check_row_layout):
        assert isinstance(check(None), machinery.Check)
    assert isinstance(checks.check_verdicts(None), machinery.Check)
    assert isinstance(checks.check_positions("a", None), machinery.Check)
