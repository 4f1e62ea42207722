"""What is known of the models that the food app offers, and when they are in doubt."""

import numpy as np
import pytest

from helpers import runtime
from helpers.app import food_models
from helpers.course import recorded
from helpers.model import count_params, weights
from scripts import doubt


def test_the_courses_models_are_told_of(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    models = food_models.course_models()
    assert list(models) == list(food_models.STUDENTS)
    for choice, stage in zip(
        models.values(), food_models.STUDENTS.values(), strict=True
    ):
        assert choice.seen == food_models.DRAWINGS and "not one photo" in choice.seen
        model = weights.load(runtime.ROOT / "data" / "tiny" / stage, vision=True)
        assert f"{count_params(model):,} weights, shipped" in choice.runs
        assert choice.sure == food_models.SURE[stage]
    first, second = models.values()
    assert first.make() is first.make(), "it is loaded once"
    assert first.make().name == list(models)[0]
    with first.lock:
        assert not first.lock.acquire(blocking=False), "it works for one at a time"
        assert second.lock.acquire(blocking=False), (
            "which is not the other one's matter"
        )


@pytest.mark.parametrize("name", ["food_grpo", "gemma-3-4b-it"])
def test_a_server_is_told_of_by_the_name_of_its_model(name):
    choice = food_models.on_server("http://localhost:8000/v1", name, "secret")
    known = name in food_models.STUDENTS.values()
    assert choice.seen == (food_models.DRAWINGS if known else food_models.UNKNOWN)
    assert choice.runs == f"on the server at http://localhost:8000/v1, as {name}"
    assert "secret" not in repr(choice)
    backend = choice.make()
    assert (backend.model, backend.key) == (name, "secret")


@pytest.mark.parametrize("stage", food_models.STUDENTS.values())
def test_the_threshold_is_what_was_measured_on_training_drawings(stage):
    rows = [row for row in recorded.rows("doubt") if row["model"] == stage]
    assert {row["sure_from"] for row in rows} == {food_models.SURE[stage]}
    (train,) = (row for row in rows if row["pictures"] == "training drawings")
    assert train["unsure"] / train["n"] == pytest.approx(0.1, abs=0.02)


def test_nine_in_ten_reach_the_threshold():
    certainties = np.random.default_rng(0).permutation(np.arange(1, 101) / 100)
    sure = doubt.threshold(certainties)
    assert (certainties >= sure).sum() in (90, 91)


def test_pictures_to_doubt_hold_what_they_are_called():
    for _, picture, wanted in doubt.plain(3):
        assert picture.shape == (48, 48, 3) and not wanted
        assert np.ptp(picture, axis=(0, 1)).max() == 0
    assert len({picture.tobytes() for _, picture, _ in doubt.noise(3)}) == 3
    train, test = (doubt.drawings(split, 8, seed=1) for split in ("train", "test"))
    shown = [{picture.tobytes() for _, picture, _ in made} for made in (train, test)]
    assert not shown[0] & shown[1]


def test_a_row_counts_what_was_said():
    answers = [(0.9, True, True), (0.9, False, False), (0.2, True, False)]
    row = doubt.row("m", "k", 0.5, answers)
    assert (row["unsure"], row["looked_up"], row["looked_up_and_sure"]) == (1, 2, 1)
    assert (row["right_if_sure"], row["right_if_unsure"]) == ("1/2", "0/1")
