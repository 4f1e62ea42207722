"""What a notebook prints first; finished models: whose are taken, which are damaged."""

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from helpers import runtime
from helpers.course import stages
from helpers.course.syllabus import LESSONS, STAGES
from helpers.recipes import presets


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "COURSE_PRESET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def write_model(folder):
    folder.mkdir(parents=True)
    arrays = {"a": np.zeros((3, 4), np.float32), "b": np.ones(5, np.float32)}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors", {"format": "np"})
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")


def test_the_learners_own_model_comes_before_the_shipped_one(monkeypatch, tmp_path):
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="Run notebook 04"):
        stages.stage_folder("sft")
    shipped = tmp_path / "data" / "tiny" / "sft"
    write_model(shipped)
    assert stages.stage_folder("sft") == shipped
    write_model(runtime.model_folder("sft"))
    assert stages.stage_folder("sft") == runtime.model_folder("sft")


@given(share=st.floats(0, 0.999))
def test_a_model_cut_short_is_not_taken(tmp_path_factory, share):
    folder = tmp_path_factory.mktemp("cut") / "model"
    write_model(folder)
    assert stages._is_whole(folder)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(share * len(content))])
    assert not stages._is_whole(folder)


@pytest.mark.parametrize("header", [b"garbage}", b"[]", b'{"a": {}}', b""])
def test_damaged_weights_give_way_to_the_shipped_model(monkeypatch, tmp_path, header):
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    shipped, learners = tmp_path / "data" / "tiny" / "sft", runtime.model_folder("sft")
    write_model(shipped)
    write_model(learners)
    size = len(header).to_bytes(8, "little")
    (learners / "model.safetensors").write_bytes(size + header + bytes(68))
    assert stages.stage_folder("sft") == shipped


def test_a_name_that_is_no_stage_lists_those_there_are():
    with pytest.raises(FileNotFoundError, match="no stage 'stf'.*base, sft, r1_zero"):
        stages.stage_folder("stf")


def test_every_shipped_model_is_taken():
    shipped = sorted((runtime.ROOT / "data" / "tiny").glob("*/config.json"))
    assert shipped
    for path in shipped:
        assert stages.stage_folder(path.parent.name) == path.parent


def test_every_stage_a_notebook_trains_has_a_name():
    trained = [stage for lesson in LESSONS.values() for stage in lesson.stages]
    assert sorted(trained) == sorted(STAGES), "each stage has a name and one notebook"


@pytest.mark.parametrize(
    "variable, place",
    [("COLAB_RELEASE_TAG", "colab"), ("KAGGLE_KERNEL_RUN_TYPE", "kaggle")],
)
def test_banner_says_to_switch_the_runtime(monkeypatch, capsys, variable, place):
    assert runtime.where() == "laptop"
    stages.banner("07")
    assert "No TPU" not in capsys.readouterr().out
    monkeypatch.setenv(variable, "1")
    assert runtime.where() == place
    assert stages.banner("07").name == "laptop-real"
    assert "No TPU here" in capsys.readouterr().out


def test_banner_gives_the_minutes_of_the_preset(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PRESET", "v5e-1")
    assert stages.banner("07") == presets.PRESETS["v5e-1"]
    out = capsys.readouterr().out
    assert f"about {LESSONS['07'].minutes['v5e-1']} min (planned, not measured)" in out
    monkeypatch.setenv("COURSE_PRESET", "laptop")
    stages.banner("07")
    out = capsys.readouterr().out
    assert f"about {LESSONS['07'].minutes['laptop']} min" in out
    assert str(runtime.build_folder()) not in out, "no local folders in saved outputs"


@pytest.mark.parametrize("version", [7, 8])
def test_an_uploaded_file_is_saved_under_its_name(tmp_path, version):
    button = stages.upload_button(tmp_path)
    content = memoryview(b'{"question": "?"}')
    files = [{"name": "../../rows.jsonl", "content": content}]
    new = {f.pop("name"): f for f in files} if version == 7 else tuple(files)
    button.notify_change(
        {"name": "value", "type": "change", "old": (), "new": new, "owner": button}
    )
    (path,) = tmp_path.iterdir()
    assert (path.name, path.read_bytes()) == ("rows.jsonl", bytes(content))
