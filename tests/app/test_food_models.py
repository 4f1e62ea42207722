"""What is known of the models that the food app offers, and when they are in doubt."""

import pytest

from helpers import runtime
from helpers.app import food_models
from helpers.course import results
from helpers.model import count_params, weights


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
    rows = [row for row in results.measured("doubt") if row["model"] == stage]
    assert {row["sure_from"] for row in rows} == {food_models.SURE[stage]}
    (train,) = (row for row in rows if row["pictures"] == "training drawings")
    assert train["unsure"] / train["n"] == pytest.approx(0.1, abs=0.02)
