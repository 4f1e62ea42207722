"""The self-checks of notebook 00 refuse the mistakes they are there to find."""

import os

import numpy as np
import pytest

from helpers import runtime
from helpers.exercises import start as checks

HERE = {
    "place": "laptop",
    "platform": "cpu",
    "preset": "laptop",
    "preset with 1 chip": "v5e-1",
    "preset with 8 chips": "v5e-8",
}


@pytest.fixture(autouse=True)
def laptop(monkeypatch):
    monkeypatch.setattr(runtime, "where", lambda: "laptop")
    monkeypatch.setenv("COURSE_PRESET", "laptop")


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"place": None}, "put a short text in place of None"),
        ({"place": "colab"}, "name the place"),
        ({"platform": "tpu"}, "kind of device"),
        ({"preset": "v5e-1"}, "preset that the banner says"),
        ({"preset with 1 chip": "v5e-8"}, "one TPU chip"),
        ({"preset with 8 chips": "v5e-1"}, "eight TPU chips"),
        ({"colour": "blue"}, "five keys"),
    ],
)
def test_a_misread_banner_is_refused_with_the_reason(change, complaint):
    check = checks.check_here(HERE | change)
    assert not check.passed and complaint in check.message
    assert checks.check_here(HERE).passed


@pytest.mark.parametrize(
    "answer, complaint",
    [
        (lambda h, t: h @ t, "shape (2, 4)"),
        (lambda h, t: np.zeros((2, 4)), "each word's row"),
        (lambda h, t: h @ t.T if len(t) == 4 else h @ t * 2, "as many words"),
    ],
)
def test_scores_are_refused_with_the_reason(answer, complaint):
    check = checks.check_scores(answer)
    assert not check.passed and complaint in check.message


@pytest.mark.parametrize(
    "environment, complaint",
    [
        ({"BUILD": "/content/drive/MyDrive/course"}, "variable that the course reads"),
        ({"COURSE_BUILD": "MyDrive/course"}, "whole path"),
        ({"COURSE_BUILD": "/content/course"}, "outlives"),
        ({"COURSE_BUILD": "/content/drive/MyDrive"}, "folder of its own"),
        ({"COURSE_BUILD": "/content/drive/MyDrive/../x"}, "outlives"),
        ("/content/drive/MyDrive/course", "one entry"),
    ],
)
def test_a_folder_that_does_not_last_is_refused(environment, complaint, monkeypatch):
    monkeypatch.setenv("COURSE_BUILD", "/somewhere")
    check = checks.check_drive(environment)
    assert not check.passed and complaint in check.message
    assert os.environ["COURSE_BUILD"] == "/somewhere", "put back"
    good = {"COURSE_BUILD": "/content/drive/MyDrive/course"}
    assert checks.check_drive(good).passed
    monkeypatch.delenv("COURSE_BUILD")
    assert checks.check_drive(good).passed and "COURSE_BUILD" not in os.environ
