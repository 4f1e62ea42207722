"""Where this runs, where files go, and the seed."""

import pytest

from helpers import runtime


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "COURSE_PRESET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def test_folders_follow_course_build(monkeypatch, tmp_path):
    assert runtime.run_folder("grpo") == tmp_path / "build" / "runs" / "grpo"
    monkeypatch.delenv("COURSE_BUILD")
    assert runtime.build_folder() == runtime.ROOT / "build"


def test_the_seed_is_a_small_whole_number(monkeypatch):
    monkeypatch.delenv("COURSE_SEED", raising=False)
    assert runtime.seed() == 0
    for said, value in {"": 0, "7": 7, "999999": 999_999}.items():
        monkeypatch.setenv("COURSE_SEED", said)
        assert runtime.seed() == value
    for said in ("-1", "1.5", "one", "1000000", "²", "1e3"):
        monkeypatch.setenv("COURSE_SEED", said)
        with pytest.raises(ValueError, match=f"COURSE_SEED is '{said}'.*unset"):
            runtime.seed()
