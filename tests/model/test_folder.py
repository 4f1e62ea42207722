"""A save that is killed or fails never leaves a folder that reads as a wrong model."""

import pathlib
import threading

import pytest

from helpers.model.folder import ADAPTERS, INDEX, MODEL, WeightsError, write

FORMER = {MODEL: "1", "tokenizer.json": "1", "merges.txt": "1", INDEX: "1", "a": "1"}
FORMER |= {"additional_chat_templates/tool_use.jinja": "1"}
FORMER |= {"model-00001-of-00001.safetensors": "1", "model-mine.safetensors": "1"}
LATER = {MODEL: "2", "tokenizer.json": "2", "model.safetensors": "2"}
MINE = {"a": "1", "model-mine.safetensors": "1"}


def filled(files):
    def fill(aside):
        for name, text in files.items():
            (aside / name).parent.mkdir(exist_ok=True)
            (aside / name).write_text(text)

    return fill


def content(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_a_model_takes_the_place_of_all_parts_of_another_and_of_nothing_else(tmp_path):
    """Readers would put an old template, index or shard to the new weights."""
    write(tmp_path, MODEL, filled(FORMER))
    write(tmp_path, MODEL, filled(LATER))
    assert content(tmp_path) == LATER | MINE


def test_without_a_tokenizer_the_old_one_stays(tmp_path):
    write(tmp_path, MODEL, filled(FORMER))
    write(tmp_path, MODEL, filled({MODEL: "2", "model.safetensors": "2"}))
    left = content(tmp_path)
    assert left["tokenizer.json"] == left["merges.txt"] == "1"
    assert INDEX not in left


def test_whenever_a_save_is_killed_no_mixed_model_is_found(tmp_path, monkeypatch):
    rename = pathlib.Path.replace
    for moves in range(len(LATER) + 1):
        folder, count = tmp_path / str(moves), iter(range(moves))
        write(folder, MODEL, filled(FORMER))

        def replace(path, target, count=count):
            if next(count, None) is None:
                raise KeyboardInterrupt
            return rename(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(pathlib.Path, "replace", replace)
            patch.setattr("shutil.rmtree", lambda *_, **__: None)  # tidies nothing up
            if moves < len(LATER):
                with pytest.raises(KeyboardInterrupt):
                    write(folder, MODEL, filled(LATER))
                assert not (folder / MODEL).exists()
            else:
                write(folder, MODEL, filled(LATER))
        write(folder, MODEL, filled(LATER))
        assert content(folder) == LATER | MINE, "nothing is left of the killed save"


def test_a_full_disk_leaves_the_old_model_as_it_was(tmp_path):
    write(tmp_path, MODEL, filled(FORMER))

    def full(aside):
        filled(LATER)(aside)
        raise OSError("No space left")

    with pytest.raises(WeightsError, match="No space left.*Free some space"):
        write(tmp_path, MODEL, full)
    assert content(tmp_path) == FORMER


def test_adapters_and_a_model_do_not_share_a_folder(tmp_path):
    write(tmp_path, MODEL, filled(FORMER))
    with pytest.raises(WeightsError, match="holds a model.*another folder"):
        write(tmp_path, ADAPTERS, filled({ADAPTERS: "3"}))
    assert content(tmp_path) == FORMER


def test_a_save_waits_until_another_one_into_the_folder_has_ended(tmp_path):
    def fill_while_another_waits(aside):
        other.start()
        other.join(0.3)
        assert other.is_alive()
        filled(FORMER)(aside)

    other = threading.Thread(target=write, args=(tmp_path, MODEL, filled(LATER)))
    write(tmp_path, MODEL, fill_while_another_waits)
    other.join()
    assert content(tmp_path) == LATER | MINE
