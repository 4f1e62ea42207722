"""What a notebook prints first."""

import jax
import pytest

from helpers import runtime
from helpers.course import set_up
from helpers.course.syllabus import LESSONS, STAGES
from helpers.recipes import presets


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "COURSE_PRESET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def test_every_stage_a_notebook_trains_has_a_name():
    trained = [stage for lesson in LESSONS.values() for stage in lesson.stages]
    assert sorted(trained) == sorted(STAGES), "each stage has a name and one notebook"


@pytest.mark.parametrize(
    "variable, place",
    [("COLAB_RELEASE_TAG", "colab"), ("KAGGLE_KERNEL_RUN_TYPE", "kaggle")],
)
def test_banner_says_to_switch_the_runtime(monkeypatch, capsys, variable, place):
    assert runtime.where() == "laptop"
    set_up.banner("07")
    assert "No TPU" not in capsys.readouterr().out
    monkeypatch.setenv(variable, "1")
    assert runtime.where() == place
    assert set_up.banner("07").name == "laptop-real"
    assert "No TPU here" in capsys.readouterr().out


def test_banner_gives_the_minutes_of_the_preset(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PRESET", "v5e-1")
    assert set_up.banner("07") == presets.PRESETS["v5e-1"]
    out = capsys.readouterr().out
    assert f"about {LESSONS['07'].minutes['v5e-1']} min (planned, not measured)" in out
    set_up.banner("06")
    assert "time not measured here" in capsys.readouterr().out
    monkeypatch.setenv("COURSE_PRESET", "laptop")
    set_up.banner("07")
    out = capsys.readouterr().out
    assert f"about {LESSONS['07'].minutes['laptop']} min" in out
    assert str(runtime.build_folder()) not in out, "no local folders in saved outputs"


def test_banner_gives_the_memory_that_a_device_reports(monkeypatch, capsys):
    class Chip:
        platform, device_kind = "tpu", "TPU v5 lite"

        def memory_stats(self):
            return {"bytes_limit": int(15.75 * 2**30)}

    for devices in "devices", "local_devices":
        monkeypatch.setattr(jax, devices, lambda: [Chip()])
    assert set_up.banner("07").name == "v5e-1"
    assert "1 × TPU v5 lite of 15.75 GiB" in capsys.readouterr().out
