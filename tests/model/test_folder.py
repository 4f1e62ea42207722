"""A save killed at any moment loses no file, and leaves none to the next one."""

import json
import os
import pathlib

import pytest

from helpers.model import folder as folders
from helpers.model.folder import ADAPTERS, INDEX, MODEL, WeightsError, write

FORMER = {MODEL: "1", "tokenizer.json": "1", INDEX: "1", "a": "1"}
LATER = {MODEL: "2", "model.safetensors": "2", "a": "2"}
# Of transformers 4 and of a download in parts.
KEPT = {
    "README.md": "1",
    "model-mine.safetensors": "1",
    "model-100.safetensors": "1",  # somebody's copy of an earlier step
    "preprocessor_config.json": "1",
}
TEMPLATE = "additional_chat_templates/tool_use.jinja"
OF_TOKENIZER = {
    "special_tokens_map.json": "1",
    "added_tokens.json": "1",
    "chat_template.json": "1",
    "chat_template.jinja": "1",
    TEMPLATE: "1",
    "tokenizer.model": "1",
    "vocab.json": "1",
    "merges.txt": "1",
    "generation_config.json": "1",
}
SHARDS = {"model-00001-of-00002.safetensors": "1", "model-00002.safetensors": "1"}
LISTS_ONE = json.dumps({"weight_map": {"w": "model-00002.safetensors"}})
SCATTERED = FORMER | OF_TOKENIZER | SHARDS | KEPT | {INDEX: LISTS_ONE}
WITH_TOKENIZER = {MODEL: "2", "tokenizer.json": "2", "tokenizer_config.json": "2"}
WITH_TOKENIZER |= {"model.safetensors": "2"}


def filled(files):
    def fill(aside):
        for name, text in files.items():
            (aside / name).parent.mkdir(exist_ok=True)
            (aside / name).write_text(text)

    return fill


def content(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def killed(folder, moves, monkeypatch, later=None):
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
            write(folder, MODEL, filled(later or LATER))


@pytest.mark.parametrize(
    "former, later, leave",
    [
        (FORMER, LATER, 3),  # the index of the old has no successor
        ({}, LATER, 0),
        (SCATTERED, WITH_TOKENIZER, 14),  # all but KEPT and "a"
        (SCATTERED, WITH_TOKENIZER | {TEMPLATE: "2"}, 14),
        ({}, WITH_TOKENIZER | {TEMPLATE: "2"}, 0),
    ],
)
def test_whenever_a_save_was_killed_the_next_one_finds_the_old_files(
    former, later, leave, tmp_path, monkeypatch
):
    for moves in range(leave + len(later)):
        folder = tmp_path / str(moves)
        if former:
            write(folder, MODEL, filled(former))
        killed(folder, moves, monkeypatch, later)
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


def test_a_model_with_its_tokenizer_takes_the_place_of_all_parts_of_another(tmp_path):
    """Readers would put the old template, end and extra ids to the new entries."""
    write(tmp_path, MODEL, filled(SCATTERED))
    write(tmp_path, MODEL, filled(WITH_TOKENIZER))
    assert content(tmp_path) == WITH_TOKENIZER | KEPT | {"a": "1"}


def test_weights_in_parts_take_the_place_of_one_file_and_of_other_parts(tmp_path):
    write(tmp_path, MODEL, filled(LATER | SHARDS | {INDEX: LISTS_ONE}))
    parts = {MODEL: "3", INDEX: "3", "model-00001.safetensors": "3"}
    write(tmp_path, MODEL, filled(parts))
    assert content(tmp_path) == parts | {"a": "2"}


@pytest.mark.parametrize(
    "index", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {"w": [1]}}']
)
def test_a_damaged_index_keeps_no_model_from_being_saved(index, tmp_path):
    write(tmp_path, MODEL, filled(FORMER | {INDEX: index}))
    write(tmp_path, MODEL, filled(LATER))
    assert content(tmp_path) == {"tokenizer.json": "1"} | LATER


def test_an_index_that_lists_files_elsewhere_takes_none_away(tmp_path):
    outside = tmp_path / "a.safetensors"
    outside.write_text("1")
    index = json.dumps({"weight_map": {"w": "../a.safetensors", "v": str(outside)}})
    write(tmp_path / "model", MODEL, filled(FORMER | {INDEX: index}))
    write(tmp_path / "model", MODEL, filled(LATER))
    assert outside.read_text() == "1"


def test_a_save_without_a_tokenizer_leaves_all_parts_of_the_old_one(tmp_path):
    write(tmp_path, MODEL, filled(SCATTERED))
    write(tmp_path, MODEL, filled(LATER))
    left = {"tokenizer.json": "1"} | OF_TOKENIZER | KEPT
    assert content(tmp_path) == left | LATER


def test_adapters_leave_the_parts_of_a_tokenizer_beside_them(tmp_path):
    beside = {ADAPTERS: "1", "tokenizer.json": "1"} | OF_TOKENIZER
    write(tmp_path, ADAPTERS, filled(beside))
    write(tmp_path, ADAPTERS, filled({ADAPTERS: "2"}))
    assert content(tmp_path) == beside | {ADAPTERS: "2"}


def test_what_another_process_takes_away_first_need_not_leave(tmp_path, monkeypatch):
    write(tmp_path, MODEL, filled(FORMER))
    rename = pathlib.Path.replace

    def replace(path, target):
        if path == tmp_path / "a" and path.read_text() == "1":
            path.unlink()
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "replace", replace)
    write(tmp_path, MODEL, filled(LATER))
    assert content(tmp_path) == {"tokenizer.json": "1"} | LATER


def test_a_save_that_is_done_is_not_undone_where_another_has_just_begun(
    tmp_path, monkeypatch
):
    """The mark is gone again by then, as if this save had been killed."""
    write(tmp_path, MODEL, filled(FORMER))
    move_in = folders._move_in

    def then_another_takes_the_mark(aside, folder, mark):
        move_in(aside, folder, mark)
        (folder / mark).unlink()

    monkeypatch.setattr(folders, "_move_in", then_another_takes_the_mark)
    write(tmp_path, MODEL, filled(LATER))
    left = {"tokenizer.json": "1"} | LATER
    assert content(tmp_path) == {name: left[name] for name in left if name != MODEL}
