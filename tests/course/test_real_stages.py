"""The stages of a real model: each goes on from what it says, or does not begin."""

import sys

import disconnected
import pytest
import tiny_models

from helpers import runtime
from helpers.model import lora
from helpers.recipes import maths
from scripts import real, real_stages

SMALL = disconnected.SMALL


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr(real, "TABLE", tmp_path / "real.csv")
    monkeypatch.setattr(real, "WORK", tmp_path / "build")
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))


def test_every_stage_is_a_notebooks_own_section():
    for stage in real_stages.NOTEBOOKS:
        names = real_stages.section(stage)
        assert callable(names["on_real_weights"])
        assert f'there.keep("{stage}")' in source_of(stage)


def source_of(stage):
    return (
        (runtime.ROOT / "notebooks" / f"{real_stages.NOTEBOOKS[stage]}.ipynb")
        .read_text("utf-8")
        .replace('\\"', '"')
    )


class WentOn(Exception):
    """From a stage, or from none."""


class Asked:
    """In the place of a recipe: ends with the first thing that is asked of it."""

    def start(self, stage):
        raise WentOn(stage)

    def __getattr__(self, name):
        raise WentOn(None)


@pytest.mark.parametrize(
    "name", [name for name, stage in real_stages.STAGES.items() if stage.train]
)
def test_a_stage_goes_on_from_what_it_says(name, monkeypatch):
    monkeypatch.setattr(maths, "recipe", lambda *_: Asked())
    stage = real_stages.STAGES[name]
    with pytest.raises(WentOn) as caught:
        stage.train(SMALL, 0)
    assert caught.value.args[0] == (stage.after[0] if stage.after else None)


def keep(stage, before="", noise=0.3):
    """Adapters of a stage that went on from those of another."""
    model = tiny_models.adapted(tiny_models.model("llama"), targets=("q",), noise=noise)
    started = maths.adapters_id(before, SMALL) if before else ""
    folder = maths.adapters_folder(stage, SMALL)
    lora.save(model, folder, SMALL.model, started=started)
    assert maths.trained_here(stage, SMALL)


@pytest.mark.parametrize(
    "stages, there, name, needed",
    [
        (["gspo"], [], "gspo", "sft"),
        (["base", "grpo", "sft"], [], "grpo", "sft"),
        (["tool_sft"], [], "tool_sft", "sft"),
        (["sft", "tool_grpo_alone"], [], "tool_grpo_alone", "tool_grpo"),
        (["tool_student"], ["tool_grpo"], "tool_student", "sft"),
        (["tool_student"], ["sft"], "tool_student", "tool_grpo"),
        (["gsm8k_tool_grpo"], ["sft", "grpo"], "gsm8k_tool_grpo", "gsm8k_sft"),
    ],
)
def test_a_stage_whose_beginning_was_not_trained_here_is_refused_before_any(
    stages, there, name, needed, tmp_path, monkeypatch
):
    """It would begin with the model as it comes, and its row would not say so."""
    monkeypatch.setattr(maths, "recipe", lambda *_: pytest.fail("it began"))
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build" / "3"))
    for stage in there:
        keep(stage)
    said = f"{name} needs what {needed} ends with.*--stages {needed} {name}"
    with pytest.raises(real_stages.NotTrained, match=said):
        real.run(SMALL, stages, seed=3)
    assert not (tmp_path / "real.csv").exists()


def test_what_was_trained_before_or_comes_before_is_enough():
    real_stages.require_trained(SMALL, [*real_stages.STAGES])
    keep("sft")
    real_stages.require_trained(SMALL, ["gspo", "tool_sft", "tool_grpo"])


@pytest.mark.parametrize(
    "name, needed",
    [("tool_grpo_alone", "tool_grpo"), ("tool_student", "tool_grpo")],
)
def test_a_follower_of_adapters_that_were_trained_anew_is_neither_measured_nor_used(
    name, needed, tmp_path, monkeypatch
):
    """Its row would stand beside another SFT's as if it came after that."""
    monkeypatch.setattr(maths, "recipe", lambda *_: pytest.fail("it began"))
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build" / "3"))
    keep("sft")
    keep("tool_grpo", before="sft")
    real_stages.require_trained(SMALL, [name])
    keep("sft")  # kept again, the same
    real_stages.require_trained(SMALL, [name])
    keep("sft", noise=0.4)
    said = f"{name} needs what {needed} ends .*went on from other adapters of sft than"
    with pytest.raises(real_stages.NotTrained, match=said):
        real.run(SMALL, [name], seed=3)
    keep("tool_grpo", before="sft")
    real_stages.require_trained(SMALL, [name])


def test_a_start_that_is_trained_anew_by_the_same_command_is_seen_before_its_follower(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(real, "record", lambda *_, **__: None)
    monkeypatch.setattr(real, "keep_curve", lambda *_: None)
    monkeypatch.setattr(real, "trained_seconds", lambda *_: 0.0)
    monkeypatch.setattr(maths, "recipe", lambda *_: Asked())
    monkeypatch.setattr(Asked, "start", lambda *_: None)
    again = real_stages.Stage(lambda *_: keep("sft", noise=0.4), "sft")
    monkeypatch.setitem(real_stages.STAGES, "sft", again)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build" / "3"))
    keep("sft")
    keep("tool_grpo", before="sft")
    with pytest.raises(real_stages.NotTrained, match="other adapters of sft"):
        real.run(SMALL, ["sft", "tool_grpo_alone"], seed=3)


def test_the_command_line_says_what_is_missing_and_ends(monkeypatch, tmp_path):
    words = ["real", "--stages", "gspo", "--seeds", "3"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="gspo needs what sft ends with"):
        real.main()
