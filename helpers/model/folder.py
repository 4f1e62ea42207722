"""Writing a folder of weights so that nobody ever finds half of it, or two mixed."""

import json
import os
import pathlib
import shutil

from safetensors import SafetensorError

from helpers.runtime.processes import on_first

INDEX = "model.safetensors.index.json"
# Without its mark nobody takes a folder for one of this kind.
MODEL, ADAPTERS = "config.json", "adapter_config.json"
KINDS = {MODEL: "a model", ADAPTERS: "adapters"}


class WeightsError(ValueError):
    """A model folder is incomplete, damaged, or not what its config.json says."""


def write(folder, mark, fill):
    """Fills a folder: files are made aside, then renamed; process 0 does it.

    Args:
      folder: made if missing; files of the same names are replaced.
      mark: MODEL or ADAPTERS, the file that leaves first and comes last.
      fill: writes the files, that one included, into the folder it is given.
    Raises:
      WeightsError: the disk is full, say, or the folder is of the other kind; what
        was there before is kept.
    """
    on_first(lambda: _write(pathlib.Path(folder), mark, fill))


def write_json(content, path):
    """Writes what JSON can hold, as transformers formats it."""
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _write(folder, mark, fill):
    for other in KINDS.keys() - {mark}:
        if (folder / other).exists():
            raise WeightsError(
                f"{folder} holds {KINDS[other]} ({other}). With {KINDS[mark]} beside, "
                "readers would put the adapters onto that model, or look for another: "
                "choose another folder."
            )
    aside = folder / f".part-{os.getpid()}"
    try:
        aside.mkdir(parents=True, exist_ok=True)
        _remove_what_killed_saves_left(folder)
        fill(aside)
        _move_in(aside, folder, mark)
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{folder} could not be written ({error}). Free some space, or choose a "
            "folder that you may write to, and save again."
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _move_in(aside, folder, mark):
    """Renames the new files into the folder: all of them or, after an error, none.

    The mark leaves first and comes last, so whoever reads or is killed in between never
    has the files of two models.
    """

    def mark_last(names):
        return sorted(names, key=lambda name: name == mark)

    new = mark_last(path.name for path in aside.iterdir())
    old = aside / "old"
    old.mkdir()
    arrived = []
    try:
        for name in (*reversed(new), INDEX):
            if (folder / name).exists():
                (folder / name).replace(old / name)
        for name in new:
            (aside / name).replace(folder / name)
            arrived.append(name)
    except BaseException:
        for name in reversed(arrived):
            (folder / name).unlink()
        for name in mark_last(path.name for path in old.iterdir()):
            (old / name).replace(folder / name)
        raise


def _remove_what_killed_saves_left(folder):
    for left in folder.glob(".part-*"):
        try:
            os.kill(int(left.name.removeprefix(".part-")), 0)  # is the process there?
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except (PermissionError, ValueError):
            continue
