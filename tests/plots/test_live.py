"""A run's picture grows in its place, and goes on after an interruption."""

import html
import json
import re

import IPython.display
import pytest

from helpers.plots import live, markup

SHOWN = {"training": "reward", "test": "eval/right"}
SAMPLE = {"prompt": "2 < 3?", "completion": "yes & no", "reward": 0.5}


class Place:
    """A display in a notebook, as its handle is seen."""

    def __init__(self):
        self.shown = []

    def update(self, picture):
        self.shown.append(picture.data)


@pytest.fixture
def places(monkeypatch):
    """What the displays of a notebook hold, one after the other."""
    made = []

    def display(picture, display_id):
        made.append(Place())
        made[-1].update(picture)
        return made[-1]

    monkeypatch.setattr(markup, "in_notebook", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)
    return made


def row(step, **numbers):
    return {"step": step, "reward": step / 10, **numbers}


def alt(shown):
    return html.unescape(re.search(r'alt="([^"]*)"', shown)[1])


def test_one_picture_grows(places, tmp_path):
    run = live.Live(SHOWN, title="Mine", folder=tmp_path)
    run.start(0)
    run.write(row(1), [SAMPLE])
    run.write(row(2, **{"eval/right": 0.25}), [])
    (place,) = places
    assert alt(place.shown[0]) == "Mine, curves up to step 1: training 0.10."
    assert "2 &lt; 3?\n→ yes &amp; no (reward 0.50)" in place.shown[0]
    assert alt(place.shown[1]).endswith("step 2: training 0.20, test 0.25.")
    assert "<pre" not in place.shown[1]


def test_it_is_drawn_as_often_as_asked(places, tmp_path):
    run = live.Live(SHOWN, title="Mine", folder=tmp_path, every=3)
    run.start(0)
    for step in range(1, 8):
        run.write(row(step), [])
    assert [alt(shown).split(":")[0][-1] for shown in places[0].shown] == ["3", "6"]


def test_what_an_interrupted_run_wrote_is_drawn_again(places, tmp_path):
    lines = [json.dumps(row(step)) for step in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    run = live.Live(SHOWN, title="Mine", folder=tmp_path, every=3)
    run.start(2)
    run.write(row(3, reward=0.9), [])
    assert [each["reward"] for each in run.rows] == [0.1, 0.2, 0.9]


def test_a_script_prints_the_answers(capsys, tmp_path):
    run = live.Live(SHOWN, title="Mine", folder=tmp_path)
    run.start(0)
    run.write(row(1), [SAMPLE])
    run.write(row(2), [])
    assert capsys.readouterr().out == "2 < 3?\n→ yes & no\n"


def test_a_reward_beyond_0_to_1_is_drawn_inside_the_picture(tmp_path):
    run = live.Live(SHOWN, title="Mine", folder=tmp_path)
    run.rows = [row(1, reward=-3.0), row(2, reward=7.0), row(3, reward=float("nan"))]
    fig, _ = run._figure(run._points())
    assert fig.axes[0].get_ylim() == pytest.approx((-3.2, 7.2))
