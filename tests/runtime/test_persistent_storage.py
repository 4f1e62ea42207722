"""Runs are sent where they outlive the machine, on imitations of Colab and Kaggle."""

import os
import sys
import types

import pytest

from helpers import runtime
from helpers.runtime import platform


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A new machine: no folder is set, the places are empty."""
    for name in ("COURSE_BUILD", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(platform, "DRIVE", tmp_path / "drive")
    monkeypatch.setattr(platform, "OUTPUT", tmp_path / "working")


@pytest.fixture
def colab(monkeypatch):
    """Colab, whose mounts are counted."""
    mounted = []
    drive = types.SimpleNamespace(mount=mounted.append)
    module = types.ModuleType("google.colab")
    module.drive = drive
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", module)
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")
    return drive, mounted


def test_on_colab_runs_go_to_drive(colab, tmp_path):
    expected = tmp_path / "drive" / "MyDrive" / "llm-post-training-course"
    assert runtime.use_persistent_storage() == expected
    assert runtime.run_folder("grpo") == expected / "runs" / "grpo"
    assert colab[1] == [str(tmp_path / "drive")]


def test_a_place_that_cannot_be_written_to_is_not_promised(
    colab, monkeypatch, tmp_path, capsys
):
    """Nor is it set: the cell, run again, mounts the drive again."""
    (tmp_path / "drive").write_text("in the way")
    with pytest.raises(OSError, match="course: Not a directory.*set COURSE_BUILD"):
        runtime.use_persistent_storage()
    assert "runs are kept" not in capsys.readouterr().out
    assert "COURSE_BUILD" not in os.environ
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "drive" / "mine"))
    with pytest.raises(OSError, match="mine: Not a directory"):
        runtime.use_persistent_storage()


def test_copies_and_backups_of_checkpoints_are_none(colab, tmp_path, capsys):
    """Drive itself makes "00000009 (1)"; the first cell of a session goes on."""
    runs = tmp_path / "drive" / "MyDrive" / "llm-post-training-course" / "runs"
    for name in ("00000003", "00000012", "7", "70.backup", "00000090 (1)", "5²", "٩٩"):
        (runs / "grpo" / "checkpoints" / name).mkdir(parents=True)
    (runs / "sft" / "checkpoints" / "8 (1)").mkdir(parents=True)
    runtime.use_persistent_storage()
    said = capsys.readouterr().out
    assert "grpo, to step 12\n" in said and "sft" not in said


def test_without_leave_it_goes_on_and_says_what_is_lost(colab, capsys):
    def refused(path):
        raise ValueError("mount failed")

    colab[0].mount = refused
    assert runtime.use_persistent_storage() == runtime.ROOT / "build"
    said = capsys.readouterr().out
    assert "mount failed" in said and "lost with it" in said
    assert "COURSE_BUILD" not in os.environ


def test_on_kaggle_runs_go_to_the_output_folder(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    assert runtime.use_persistent_storage().parent == tmp_path / "working"
    assert "Persistence" in capsys.readouterr().out
