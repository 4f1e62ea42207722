"""What is known of the models that the food app offers, and when they are in doubt."""

import numpy as np
import pytest

from helpers import runtime
from helpers.app import food_models
from helpers.model import count_params, weights
from scripts import doubt


def test_the_courses_models_are_told_of(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    models = food_models.course_models()
    assert list(models) == list(food_models.STUDENTS)
    for choice, stage in zip(
        models.values(), food_models.STUDENTS.values(), strict=True
    ):
        assert choice.draws and "not one photo" in choice.seen
        model = weights.load(runtime.ROOT / "data" / "tiny" / stage, vision=True)
        assert f"{count_params(model):,} weights, shipped" in choice.runs


@pytest.mark.parametrize("name, draws", [("food_grpo", True), ("gemma-3-4b-it", False)])
def test_a_server_is_told_of_by_the_name_of_its_model(name, draws):
    choice = food_models.on_server(" http://localhost:8000/v1 ", f" {name} ", "secret")
    assert choice.draws == draws and "secret" not in repr(choice.runs)
    assert choice.runs == f"at http://localhost:8000/v1, as {name}"
    backend = choice.make()
    assert (backend.model, backend.key) == (name, "secret")


@pytest.mark.parametrize("stage", food_models.STUDENTS.values())
def test_the_threshold_is_what_was_measured_on_training_drawings(stage):
    rows = {row["pictures"]: row for row in food_models.doubt(stage)}
    assert {float(row["sure_from"]) for row in rows.values()} == {
        food_models.SURE[stage]
    }
    train = rows["training drawings"]
    assert int(train["unsure"]) / int(train["n"]) == pytest.approx(0.1, abs=0.02)


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
