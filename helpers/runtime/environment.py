"""Where this runs, and where files go."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def where() -> str:
    """The platform this runs on: "colab", "kaggle" or "laptop" (anything else)."""
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        return "colab"
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    return "laptop"


def build_folder() -> pathlib.Path:
    """Where everything made goes: COURSE_BUILD, else build/ beside helpers/."""
    return pathlib.Path(os.environ.get("COURSE_BUILD") or ROOT / "build").resolve()


def run_folder(name: str) -> pathlib.Path:
    """The folder of the training run `name`: its checkpoints, logs and final model."""
    return build_folder() / "runs" / name


def numbered(folder) -> list:
    """Paths of a folder that are named by a number, as checkpoints are, lowest first.

    Not "7.backup", nor "00000009 (1)", as Google Drive calls a copy.

    Args:
      folder: need not be there; in a bucket it is not, as long as nothing is in it.
    """
    found = folder.iterdir() if folder.is_dir() else ()
    named = [path for path in found if path.name.isascii() and path.name.isdigit()]
    return sorted(named, key=lambda path: int(path.name))


def seed() -> int:
    """The seed of this run of the course: COURSE_SEED, else 0.

    Raises:
      ValueError: it is not a whole number from 0 to 999,999; the notebooks make the
        seeds of their parts from it.
    """
    said = os.environ.get("COURSE_SEED") or "0"
    if not (said.isascii() and said.isdigit() and len(said) <= 6):
        raise ValueError(
            f"COURSE_SEED is {said!r}. Set it to a whole number from 0 to 999999, or "
            "unset it for 0."
        )
    return int(said)


def model_folder(name: str) -> pathlib.Path:
    """Where the run `name` saves its finished model, for `weights.save`."""
    return run_folder(name) / "model"
