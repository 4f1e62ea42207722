"""Runs that outlive the machine: on Google Drive, or in Kaggle's output folder.

A free machine is taken away within hours, and its disk with it. What lies where this
module sends it is found again, and training goes on from there.
"""

import os
import pathlib
import tempfile

from helpers.runtime.environment import build_folder, numbered, where

DRIVE = pathlib.Path("/content/drive")
OUTPUT = pathlib.Path("/kaggle/working")
NAME = "llm-post-training-course"


def keep_runs() -> pathlib.Path:
    """Keeps all that is made from here on beyond this machine; says what is there.

    On Colab it mounts Google Drive, which asks for leave; on Kaggle it takes the output
    folder. Elsewhere, and where COURSE_BUILD is set, nothing is changed. Call it before
    the first run of a session, in each session.

    Returns:
      `runtime.build_folder()` from now on.
    Raises:
      OSError: nothing can be written there.
    """
    place = None if os.environ.get("COURSE_BUILD") else _PLACES[where()]()
    require_writable(place or build_folder())
    if place:
        os.environ["COURSE_BUILD"] = str(place)
    folder = build_folder()
    print(f"runs are kept in {folder}")
    runs = folder / "runs"
    for run in sorted([*runs.glob("*"), *runs.glob("*/*")]):  # 15's have two stages
        if (told := _told(run)) and not run.name.startswith("earlier-"):
            print(f"  found there: {run.relative_to(runs)}, {told}")
    return folder


def require_writable(folder: pathlib.Path) -> None:
    """Makes a folder, and writes a byte there that is gone at once.

    Raises:
      OSError: nothing can be written there; says why, and what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
    except OSError as error:
        raise OSError(
            f"Nothing can be written to {folder}: {error.strerror or error}. Make room "
            "there, or choose a place where you may write: set COURSE_BUILD to it, or "
            "pass it as the folder."
        ) from None


def _on_drive():
    from google.colab import drive

    try:
        drive.mount(str(DRIVE))
    except Exception as error:  # Colab's own kinds: leave was not given, or no answer
        print(
            f"Google Drive could not be had ({error}), so runs stay on this machine "
            "and are lost with it. Run this cell again and allow it, or set "
            "COURSE_BUILD."
        )
        return None
    return DRIVE / "MyDrive" / NAME


def _on_kaggle():
    print(
        "Kaggle keeps the output folder if Session options → Persistence is set to "
        "'Files only', or when a version is saved."
    )
    return OUTPUT / NAME


_PLACES = {"colab": _on_drive, "kaggle": _on_kaggle, "laptop": lambda: None}


def _told(run):
    """How far a run has come, in words; "" of a folder that is none."""
    if (run / "model").is_dir():
        return "finished"
    saved = numbered(run / "checkpoints")
    return f"to step {int(saved[-1].name)}" if saved else ""
