"""Adapters of a stage are found by name, and go on from the weights that they fit."""

import dataclasses
import shutil

import pytest
import tiny_models

from helpers.model import lora
from helpers.model.folder import WeightsError
from helpers.recipes import maths, presets

SIZES = presets.PRESETS["laptop-real"]
MODEL = tiny_models.model("llama")
ADAPTED = tiny_models.adapted(MODEL, targets=("q",))


@pytest.fixture(autouse=True)
def build(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def keep(stage, base, fingerprint="", before="", model=ADAPTED):
    folder = maths.adapters_folder(stage, SIZES)
    started = maths.adapters_id(before, SIZES) if before else ""
    lora.save(model, folder, base, fingerprint, started)
    return folder


def find(stage, model, fingerprint=""):
    sizes = dataclasses.replace(SIZES, model=str(model))
    return maths.find(stage, sizes, fingerprint)


def test_weights_are_compared_and_not_what_they_are_called():
    folder = keep("sft", "/here/model", "aaaa")
    assert find("sft", "/there/model", "aaaa") == folder
    said = "adapters of /here/model, and .* trains /here/model, whose weights are other"
    with pytest.raises(WeightsError, match=said):
        find("sft", "/here/model", "bbbb")


@pytest.mark.parametrize("kept, now", [("", ""), ("", "bbbb"), ("aaaa", "")])
def test_without_both_fingerprints_it_goes_by_the_place(
    kept, now, tmp_path, monkeypatch
):
    """As earlier versions kept them; an id of the hub is no place."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model")
    folder = keep("sft", "model", kept)
    for spelled in "model", "./model/", tmp_path / "model", "link":
        assert find("sft", spelled, now) == folder
    for other in "other", "org/model", tmp_path:
        with pytest.raises(WeightsError, match="without a fingerprint"):
            find("sft", other, now)
    keep("grpo", "org/model", kept)
    assert find("grpo", "org/model", now)
    with pytest.raises(WeightsError, match="of org/model, and .* trains org/other"):
        find("grpo", "org/other", now)


@pytest.mark.parametrize("stage", ["sfft", "", None, "../../etc", "sft ", 3, ["sft"]])
def test_a_slip_in_a_stages_name_is_told_from_one_not_yet_trained(stage):
    assert find("sft", "a/model") is None
    keep("mine", "a/model")
    with pytest.raises(ValueError) as caught:
        find(stage, "a/model")
    said = str(caught.value)
    assert repr(stage) in said and "sft, grpo, " in said
    assert said.endswith("with the preset laptop-real: mine.")


def test_a_stage_of_ones_own_is_one_once_it_is_kept():
    assert not maths.trained_here("mine", SIZES)
    with pytest.raises(ValueError, match="laptop-real: none yet"):
        find("mine", "a/model")
    folder = keep("mine", "a/model")
    assert find("mine", "a/model") == folder
    assert maths.trained_here("mine", SIZES)
    with pytest.raises(ValueError, match="preset v5e-1: none yet"):
        maths.find("mine", presets.PRESETS["v5e-1"], "")
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match="no stage 'mine'"):
        find("mine", "a/model")


@pytest.mark.parametrize("stage", ["", None, "../../etc", "a/b", ".hidden", "-x"])
def test_nothing_is_kept_outside_of_the_runs(stage):
    with pytest.raises(ValueError, match="cannot name a folder"):
        maths.adapters_folder(stage, SIZES)
