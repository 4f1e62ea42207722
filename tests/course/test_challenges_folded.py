"""Each challenge stands in its notebook as all do, and its table says what it says."""

import csv

import course_notebooks as course
import pytest

from helpers.exercises.challenges import Outcome
from scripts import challenges

THERE = challenges.challenges()
MINE = {"04", "05", "07", "08", "08b", "09", "10", "11", "15"}


def rows(number):
    return [row for row in challenges.read() if row["notebook"] == number]


def test_the_training_notebooks_have_one():
    assert MINE <= set(THERE)


@pytest.mark.parametrize("number", THERE)
def test_it_stands_before_the_summary_under_its_own_heading(number):
    cells = course.read(number).cells
    places = [i for i, cell in enumerate(cells) if "challenge" in course.tags(cell)]
    (place,) = places
    headings = [cell.source.splitlines()[0] for cell in cells if cell.source]
    said = cells[place - 1].source
    assert said.startswith("## Challenge"), said[:40]
    assert headings[place + 3].startswith("## Summary")


@pytest.mark.parametrize("number", THERE)
def test_the_stub_is_told_so_as_the_notebook_shows(number, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.chdir(course.FOLDER)
    one = THERE[number]
    outcome = challenges.judged(one, one.stub, seed=0)
    assert isinstance(outcome, Outcome) and not outcome.passed and outcome.spent == 0
    (cell,) = course.tagged(course.read(number), "challenge-check")
    shown = "".join(output.get("text", "") for output in cell.outputs)
    assert shown.strip() == outcome.message
    said = course.read(number).cells
    (stub,) = course.tagged(course.read(number), "challenge")
    before = said[[c.id for c in said].index(stub.id) - 1].source
    assert f"**{outcome.to_beat:.0%}**" in before and f"{outcome.budget:,}" in before
    for row in rows(number):
        assert float(row["to_beat"]) == outcome.to_beat
        assert int(row["budget"]) == outcome.budget


@pytest.mark.parametrize("number", THERE)
def test_the_best_attempt_beat_the_number_with_three_seeds_and_says_so(number):
    table = rows(number)
    assert [int(row["seed"]) for row in table] == [0, 1, 2]
    for row in table:
        assert float(row["reached"]) > float(row["to_beat"])
        assert 0 < int(row["spent"]) <= int(row["budget"])
    assert challenges.sentence(table) in " ".join(THERE[number].told.split())


def test_teachers_get_the_table_as_it_is():
    text = challenges.TEACHING.read_text()
    table = text.split(challenges.BEGIN)[1].split(challenges.END)[0].strip()
    assert table == challenges.homework(challenges.read())
    assert len(table.splitlines()) == 2 + len(THERE)
    reached = {}
    for row in challenges.read():
        reached.setdefault(row["notebook"], []).append(100 * float(row["reached"]))
    widest = max(max(values) - min(values) for values in reached.values())
    assert f"differ by up to {widest:.0f} points" in " ".join(text.split())


def test_a_run_that_failed_is_not_written_down():
    failed = Outcome(False, "Not yet: it should be more.", 0.5, 0.6, 3, 4)
    with pytest.raises(ValueError, match="seed 1: Not yet"):
        challenges.row("07", 1, failed, 9.0)


def test_a_row_takes_the_place_of_the_same_run(monkeypatch, tmp_path):
    monkeypatch.setattr(challenges, "TABLE", tmp_path / "challenges.csv")
    for number, seed, reached in (("09", 1, 0.5), ("07", 0, 0.6), ("09", 1, 0.75)):
        outcome = Outcome(True, "Passed.", reached, 0.4, 3, 4)
        challenges.write(challenges.row(number, seed, outcome, 12.4))
    with open(challenges.TABLE, newline="") as file:
        table = list(csv.reader(file))
    assert table == [
        list(challenges.FIELDS),
        ["07", "0", "0.6", "0.4", "3", "4", "12"],
        ["09", "1", "0.75", "0.4", "3", "4", "12"],
    ]


@pytest.mark.parametrize("number", THERE)
def test_telling_again_changes_nothing(number, monkeypatch, tmp_path):
    (tmp_path / "notebooks").mkdir()
    copy = tmp_path / "notebooks" / course.path(number).name
    copy.write_bytes(course.path(number).read_bytes())
    monkeypatch.setattr(challenges, "ROOT", tmp_path)
    challenges.tell(number)
    assert copy.read_bytes() == course.path(number).read_bytes()


def test_the_sentence_is_written_anew_and_nothing_else(monkeypatch, tmp_path):
    (tmp_path / "notebooks").mkdir()
    copy = tmp_path / "notebooks" / course.path("09").name
    copy.write_bytes(course.path("09").read_bytes())
    monkeypatch.setattr(challenges, "ROOT", tmp_path)
    monkeypatch.setattr(challenges, "TABLE", tmp_path / "challenges.csv")
    for seed in range(3):
        outcome = Outcome(True, "Passed.", 0.111 * (seed + 5), 0.4, 19, 20)
        challenges.write(challenges.row("09", seed, outcome, 1.0))
    challenges.tell("09")
    (one,) = challenges.challenges().values()
    stated = "It reached 55.5%, 66.6% and 77.7% with seeds 0, 1 and 2, and spent 19"
    assert f"{stated} of 20." in " ".join(one.told.split())
    assert one.attempt == THERE["09"].attempt and one.check == THERE["09"].check


def test_an_attempt_is_run_with_the_notebooks_imports_and_the_seed(capsys):
    one = challenges.Challenge(
        imports="import math", stub="", check="judge(attempt)", told="", attempt=""
    )
    answer = "def judge(attempt):\n    return attempt()\n"
    answer += "def attempt():\n    return math.floor(seed + 0.5)"
    assert challenges.judged(one, answer, seed=7) == 7
