"""Where files go, the seed and the tokens, on imitations of Colab and Kaggle."""

import os
import sys
import types

import pytest

from helpers import runtime
from helpers.runtime import platform


class SecretNotFoundError(Exception):
    """Colab's, when a secret is not there."""


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A new machine with nothing set; its secrets and its Drive can be set."""
    for (
        name
    ) in "COURSE_BUILD COURSE_SEED COLAB_RELEASE_TAG KAGGLE_KERNEL_RUN_TYPE".split():
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(platform, "DRIVE", tmp_path / "drive")
    monkeypatch.setattr(platform, "OUTPUT", tmp_path / "working")
    secrets = {}

    def get(name):
        if name not in secrets:
            raise SecretNotFoundError(name)
        return secrets[name]

    colab = types.ModuleType("google.colab")
    colab.drive = types.SimpleNamespace(mount=lambda path: None)
    colab.userdata = types.SimpleNamespace(get=get)
    kaggle = types.ModuleType("kaggle_secrets")
    kaggle.UserSecretsClient = lambda: types.SimpleNamespace(get_secret=get)
    return types.SimpleNamespace(colab=colab, kaggle=kaggle, secrets=secrets)


@pytest.fixture(params=["colab", "kaggle"])
def cloud(request, machine, monkeypatch):
    """One of the two platforms."""
    on = on_colab if request.param == "colab" else on_kaggle
    on(machine, monkeypatch)
    return machine


def on_colab(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", machine.colab)
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")


def on_kaggle(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaggle_secrets", machine.kaggle)
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")


@pytest.fixture
def colab(machine, monkeypatch):
    on_colab(machine, monkeypatch)
    return machine.colab


def test_folders_follow_course_build(monkeypatch, tmp_path):
    assert runtime.build_folder() == runtime.ROOT / "build"
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "mine"))
    assert runtime.run_folder("grpo") == tmp_path / "mine" / "runs" / "grpo"


def test_the_seed_is_a_small_whole_number(monkeypatch):
    for text, value in {"": 0, "7": 7, "999999": 999_999}.items():
        monkeypatch.setenv("COURSE_SEED", text)
        assert runtime.seed() == value
    for text in ("-1", "1.5", "one", "1000000", "²"):
        monkeypatch.setenv("COURSE_SEED", text)
        with pytest.raises(ValueError, match=f"COURSE_SEED is '{text}'.*unset"):
            runtime.seed()


def test_in_the_cloud_runs_go_where_they_outlive_the_machine(cloud, tmp_path):
    folder = runtime.use_persistent_storage()
    places = tmp_path / "drive" / "MyDrive", tmp_path / "working"
    assert folder.parent in places and folder.is_dir()
    assert runtime.run_folder("grpo") == folder / "runs" / "grpo"


def test_a_place_that_cannot_be_written_to_is_not_promised(
    colab, monkeypatch, tmp_path, capsys
):
    """Nor is it set: the cell, run again, mounts the drive again."""
    (tmp_path / "drive").write_text("in the way")
    with pytest.raises(OSError, match="course: Not a directory.*set COURSE_BUILD"):
        runtime.use_persistent_storage()
    assert "runs are kept" not in capsys.readouterr().out
    assert "COURSE_BUILD" not in os.environ


def test_copies_and_backups_of_checkpoints_are_none(colab, tmp_path, capsys):
    """Drive itself makes "00000009 (1)"; the first cell of a session goes on."""
    runs = tmp_path / "drive" / "MyDrive" / "llm-post-training-course" / "runs"
    for name in ("00000003", "00000012", "70.backup", "00000090 (1)", "5²", "٩٩"):
        (runs / "grpo" / "checkpoints" / name).mkdir(parents=True)
    (runs / "sft" / "checkpoints" / "8 (1)").mkdir(parents=True)
    runtime.use_persistent_storage()
    shown = capsys.readouterr().out
    assert "grpo, to step 12\n" in shown and "sft" not in shown


def test_a_drive_that_is_not_granted_leaves_runs_here_and_says_so(colab, capsys):
    def mount(path):
        raise ValueError("mount failed")

    colab.drive.mount = mount
    assert runtime.use_persistent_storage() == runtime.ROOT / "build"
    shown = capsys.readouterr().out
    assert "mount failed" in shown and "lost with it" in shown
    assert "COURSE_BUILD" not in os.environ


def test_a_token_comes_from_the_environment_without_line_breaks(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", " hf_1\n")
    assert runtime.token() == "hf_1"
    monkeypatch.setenv("HF_TOKEN", " \n")
    with pytest.raises(platform.TokenMissing, match="huggingface.co/settings/tokens"):
        runtime.token()


def test_the_platforms_secret_comes_first_and_a_missing_one_is_explained(
    cloud, monkeypatch
):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(platform.TokenMissing, match="HF_TOKEN.*the key.*Add-ons"):
        runtime.token()
    monkeypatch.setenv("HF_TOKEN", "from the environment")
    assert runtime.token() == "from the environment"
    cloud.secrets["HF_TOKEN"] = "secret"
    assert runtime.token() == "secret"
