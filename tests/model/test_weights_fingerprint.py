"""Weights are known again wherever they lie, and trained ones are others."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file, save_file

from helpers import runtime
from helpers.model import lora, weights
from helpers.model.folder import WeightsError

TINY = runtime.ROOT / "data" / "tiny"
WHOLE = "model.safetensors"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TINY / "sft", tmp_path / "sft")


def changed(folder, edit):
    """The fingerprint after `edit` has changed the tensors."""
    tensors = {name: x.copy() for name, x in load_file(folder / WHOLE).items()}
    edit(tensors)
    save_file(tensors, folder / WHOLE)
    return weights.fingerprint(folder)


def put(name, row, numbers):
    """An edit that sets a row of a tensor."""
    return lambda tensors: tensors[name].__setitem__(row, numbers)


def test_it_is_that_of_the_weights_and_not_of_a_path_or_a_file(folder, monkeypatch):
    before = weights.fingerprint(TINY / "sft")
    assert len(before) == 16 and int(before, 16)
    assert weights.fingerprint(folder) == before
    monkeypatch.chdir(folder.parent)
    assert weights.fingerprint("sft") == before
    tensors = load_file(folder / WHOLE)
    (folder / WHOLE).unlink()
    cut = {f"part-{i}.safetensors": dict(list(tensors.items())[i::2]) for i in (0, 1)}
    places = {}
    for name, part in cut.items():
        save_file(part, folder / name)
        places |= dict.fromkeys(part, name)
    index = {"weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weights.fingerprint(folder) == before


def test_adapters_are_told_apart_by_their_numbers_and_not_by_what_is_noted(tmp_path):
    model, found = tiny_models.model("llama"), []
    for noise, note in ((0.3, ""), (0.3, "0123abcd"), (0.4, "")):
        adapted = tiny_models.adapted(model, targets=("q",), noise=noise)
        lora.save(adapted, tmp_path, "a/base", note)
        found.append(weights.adapters_fingerprint(tmp_path))
    assert found[0] == found[1] != found[2]
    with pytest.raises(WeightsError, match="missing or damaged"):
        weights.adapters_fingerprint(tmp_path / "none")


def test_every_stage_of_the_course_has_another():
    stages = [path.parent for path in TINY.glob(f"*/{WHOLE}")]
    assert len(stages) == len({weights.fingerprint(stage) for stage in stages}) > 5


def test_a_tensor_of_few_numbers_is_read_whole_and_of_others_some_rows(folder):
    """From the first to the last; what lies between them alone is not seen."""
    before = weights.fingerprint(folder)
    tensors = load_file(folder / WHOLE)
    large = max(tensors, key=lambda name: tensors[name].size)
    small = min(tensors, key=lambda name: tensors[name].size)
    assert tensors[large].size > weights.SMALL >= tensors[small].size
    for name, places in (large, (0, -1)), (small, (0, 1, -1)):
        for place in places:
            assert changed(folder, put(name, place, 9)) != before
            assert changed(folder, put(name, place, tensors[name][place])) == before
    assert changed(folder, put(large, 1, 9)) == before


@pytest.mark.parametrize("what", ["dtype", "shape", "name", "one less"])
def test_the_same_numbers_in_another_form_are_other_weights(what, folder):
    before = weights.fingerprint(folder)
    zeros = np.zeros((6, 4), np.float32)
    with_zeros = changed(folder, lambda t: t.update(extra=zeros))
    other = {
        "dtype": {"extra": zeros.astype(ml_dtypes.bfloat16)},
        "shape": {"extra": zeros.reshape(4, 6)},
        "name": {"more": zeros},
        "one less": {},
    }[what]
    after = changed(folder, lambda t: t.pop("extra") is t.update(other))
    assert after != with_zeros and (after == before) == (what == "one less")


def test_a_file_that_is_cut_off_or_not_there_is_named(folder):
    whole = (folder / WHOLE).read_bytes()
    (folder / WHOLE).write_bytes(whole[:-9])
    with pytest.raises(WeightsError, match=f"{WHOLE} is missing or damaged"):
        weights.fingerprint(folder)
    (folder / WHOLE).unlink()
    with pytest.raises(WeightsError, match=f"{WHOLE} is missing or damaged"):
        weights.fingerprint(folder)
