"""A save killed at any moment loses no file, and leaves none to the next one."""

import os
import pathlib

import pytest

from helpers.model import folder as folders
from helpers.model.folder import ADAPTERS, INDEX, MODEL, WeightsError, write

FORMER = {MODEL: "1", "tokenizer.json": "1", INDEX: "1", "a": "1"}
LATER = {MODEL: "2", "model.safetensors": "2", "a": "2"}


def filled(files):
    def fill(aside):
        for name, text in files.items():
            (aside / name).write_text(text)

    return fill


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def killed(folder, moves, monkeypatch):
    """A save in this process that ends after so many renames, tidying nothing up."""
    rename, count = pathlib.Path.replace, iter(range(moves))

    def replace(path, target):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", replace)
        patch.setattr(folders, "_clear", lambda part, folder: None)
        with pytest.raises(KeyboardInterrupt):
            write(folder, MODEL, filled(LATER))


@pytest.mark.parametrize("former", [FORMER, {}])
def test_whenever_a_save_was_killed_the_next_one_finds_the_old_files(
    former, tmp_path, monkeypatch
):
    """Three leave and three come; the index of the old has no successor."""
    leave = len((LATER.keys() | {INDEX}) & former.keys())
    for moves in range(leave + len(LATER)):
        folder = tmp_path / str(moves)
        if former:
            write(folder, MODEL, filled(former))
        killed(folder, moves, monkeypatch)
        assert list(folder.glob(".part-*"))
        folders.recover(folder)
        assert content(folder) == former
        assert not list(folder.glob(".part-*"))


def test_what_a_killed_save_wrote_is_no_part_of_the_next_one(tmp_path):
    """Under the number of this process, which a container gives to every run."""
    for name in (f".part-{os.getpid()}", f".part-{os.getpid()}-00ff00ff"):
        left = tmp_path / name
        left.mkdir()
        (left / "chat_template.jinja").write_text("another model's")
    write(tmp_path, MODEL, filled(LATER))
    assert content(tmp_path) == LATER
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_the_only_copy_of_the_old_files_outlives_a_save_that_fails(
    tmp_path, monkeypatch
):
    write(tmp_path, MODEL, filled(FORMER))
    killed(tmp_path, 1, monkeypatch)
    assert MODEL not in content(tmp_path)

    def full(aside):
        raise OSError("No space left")

    with pytest.raises(WeightsError, match="No space left"):
        write(tmp_path, MODEL, full)
    assert content(tmp_path) == FORMER
    with pytest.raises(WeightsError, match="holds a model"):
        write(tmp_path, ADAPTERS, filled({ADAPTERS: "3"}))


def test_files_that_cannot_be_put_back_stay_where_they_are(tmp_path, monkeypatch):
    write(tmp_path, MODEL, filled(FORMER))
    rename, count = pathlib.Path.replace, iter(range(3))

    def replace(path, target):
        if next(count, None) is None:
            raise OSError("gone")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", replace)
        with pytest.raises(WeightsError, match="gone"):
            write(tmp_path, MODEL, filled(LATER))
    folders.recover(tmp_path)
    assert content(tmp_path) == FORMER


def test_a_save_within_a_save_is_not_taken_for_one_that_was_killed(tmp_path):
    def fill(aside):
        write(tmp_path, MODEL, filled(FORMER))
        filled(LATER)(aside)

    write(tmp_path, MODEL, fill)
    assert content(tmp_path) == {"tokenizer.json": "1"} | LATER


def test_parts_of_others_are_left_alone(tmp_path):
    others = [
        f".part-{os.getppid()}-00ff00ff",
        ".part-mine",
        f".part-{os.getpid()}-x.gguf",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    write(tmp_path, MODEL, filled(LATER))
    assert all((tmp_path / name).is_dir() for name in others)
