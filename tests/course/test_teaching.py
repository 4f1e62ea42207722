"""docs/teaching.md: its plans fit the notebooks, its wrong answers are answered so."""

import contextlib
import io
import math
import re
from fractions import Fraction

import course_notebooks as course
import human_minutes
import numpy as np
import pytest

from helpers.course.syllabus import LESSONS
from helpers.tools import calculator
from scripts import grade_judge, grade_reading

TEXT = (course.ROOT / "docs" / "teaching.md").read_text()
NAMES = {
    "math": math,
    "np": np,
    "re": re,
    "Fraction": Fraction,
    "calculator": calculator,
}
SPARE = 0.4  # a stop takes at most so much more than counted, or five minutes


def rows(text):
    """The cells of each row of a Markdown table, without head and rule."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    ]
    return [row for row in found if not row[0].strip("-:") == ""][1:]


def plans():
    found = re.findall(r"<!-- plan (\d+) -->\n(.*?)<!-- /plan -->", TEXT, re.DOTALL)
    return [pytest.param(int(total), rows(text), id=total) for total, text in found]


def counted(number, sections, exercises, run):
    """Minutes that a stop takes, from the notebook as it stands."""
    notebook = human_minutes.sections(human_minutes.read(number))
    parts = [notebook[name.strip()] for name in sections.split(",")]
    asked = {n: minutes for part in parts for n, minutes in part.exercises.items()}
    chosen = [asked[int(n)] for n in exercises.split(",") if n.strip()]
    machine = LESSONS[number].minutes["laptop"] if run == "yes" else 0
    return sum(part.read for part in parts) + sum(chosen) + machine


@pytest.mark.parametrize("total, plan", plans())
def test_a_plan_adds_up_and_holds_what_it_promises(total, plan):
    clock, read, ran = 0, set(), set()
    for begins, minutes, number, sections, exercises, run in plan:
        hours, past = map(int, begins.split(":"))
        assert 60 * hours + past == clock, f"{begins} should be {clock} minutes"
        clock += int(minutes)
        if number == "–":
            continue
        needed = counted(number, sections, exercises, run)
        most = needed + max(5, SPARE * needed)
        said = f"{begins}: {minutes} min for {needed:.1f}"
        assert needed <= int(minutes) <= most, said
        for name in sections.split(","):
            assert (number, name.strip()) not in read, f"{begins}: twice"
            read.add((number, name.strip()))
        ran |= {number} if run == "yes" else set()
    assert clock == total
    assert ran == {number for number, _ in read}, "each notebook is run once"


@pytest.mark.parametrize("total, plan", plans())
def test_nobody_sits_longer_than_two_hours(total, plan):
    sat = 0
    for _, minutes, _, sections, *_ in plan:
        sat = 0 if sections in ("break", "lunch") else sat + int(minutes)
        assert sat <= 120


def test_the_plans_are_those_that_notebook_00_speaks_of():
    taught = {plan.id: {row[2] for row in plan.values[1]} - {"–"} for plan in plans()}
    assert taught["240"] == {"01", "03", "05", "07"}
    assert taught["480"] == taught["240"] | {"04", "09", "10"}
    assert taught["90"] < taught["240"]


def stops():
    """(number, text) of what is said about each notebook."""
    section = r"^### (\d\d) · .*?$(.*?)(?=^###? |\Z)"
    return re.findall(section, TEXT, re.DOTALL | re.MULTILINE)


def test_each_notebook_of_a_plan_has_a_stop_with_what_its_exercises_get():
    wanted: dict[str, set] = {}
    for plan in plans():
        for _, _, number, _, exercises, _ in plan.values[1]:
            if number != "–":
                found = {n.strip() for n in exercises.split(",") if n.strip()}
                wanted.setdefault(number, set()).update(found)
    told = dict(stops())
    assert set(told) == set(wanted)
    for number, text in told.items():
        asked, answered = text.split("| exercise |")
        assert "**Say.**" in asked and len(rows(asked)) >= 3
        assert {row[0] for row in rows("| exercise |" + answered)} == wanted[number]


def wrong_answers():
    for number, text in stops():
        for row in rows("| exercise |" + text.split("| exercise |")[1]):
            yield pytest.param(number, *row[:3], id=f"{number}-{row[0]}-{row[1][:30]}")


@pytest.mark.parametrize("number, exercise, answer, said", wrong_answers())
def test_a_wrong_answer_is_told_what_the_page_says(number, exercise, answer, said):
    lesson = grade_reading.lesson(course.path(number))
    asked = lesson.exercises[int(exercise) - 1]
    assert asked.title.startswith(f"{exercise} · ")
    names = NAMES | {"checks": grade_judge._checks(lesson)}
    value = eval(answer.strip("`"), dict(NAMES))
    given = value if len(asked.names) > 1 else (value,)
    names |= dict(zip(asked.names, given, strict=True))
    with contextlib.redirect_stdout(io.StringIO()):
        verdict = eval(asked.check, names)
    assert not verdict.passed
    assert verdict.message.removesuffix(".") == f"Not yet: it should {said}"


def test_minutes_of_a_person_follow_the_words():
    few = human_minutes.sections(course.read("07"))
    assert [name for name in few if name.isdigit()][:4] == ["0", "1", "2", "3"]
    assert "The loop in view" in few and "What broke?" in few
    assert human_minutes.words("two words <details>hint</details> `code` $x$") == 4
    for number in course.NUMBERS:
        notebook = course.read(number)
        parts = human_minutes.sections(notebook)
        reading, exercises = human_minutes.human_minutes(notebook)
        told = sum(len(part.exercises) for part in parts.values())
        assert told == len(course.exercises(notebook)), number
        assert sum(part.guesses for part in parts.values()) >= 3
        assert 10 <= reading <= 60 and 15 <= exercises <= 35, number
        assert human_minutes.line(notebook).startswith(f"about {reading} min")


def test_what_the_page_names_is_there():
    for path in re.findall(r"`((?:notebooks|scripts|tests)/[\w/.]+)`", TEXT):
        assert (course.ROOT / path).exists(), path
    makefile = (course.ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}: " in makefile, target
