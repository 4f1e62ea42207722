"""What a model hub says a repository holds, looked at before any of it is fetched.

Without the hub, what lies here of it is held to its own index.
"""

from helpers.model import peft_folder, weights
from helpers.model.folder import ADAPTERS, MODEL

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class NoListing(RuntimeError):
    """What answered for a model did not list its files."""


def files(api, model: str, timeout: float) -> dict[str, str]:
    """{name: git's id of the content} of a model's files; of large ones the id is "".

    Args:
      api: a huggingface_hub.HfApi, whose errors come through.
      timeout: seconds that the hub may be silent.
    Raises:
      NoListing: the answer is something else, as of a proxy.
    """
    from huggingface_hub import errors

    try:
        info = api.model_info(model, timeout=timeout, files_metadata=True)
        return {  # git has a pointer in place of a large file
            str(file.rfilename): "" if file.lfs else str(file.blob_id)
            for file in info.siblings
        }
    except errors.HFValidationError:  # of the name; it is a ValueError, too
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NoListing(f"it gave no list of files: {error}") from error


def why_not(model: str, names) -> str:
    """Why nothing here reads a repository of these files, and what to do; else "".

    Only safetensors are read: a model's, and adapters', which `lora.load` takes.
    """

    def of(*kinds):
        return [name for name in sorted(names) if name.lower().endswith(kinds)]

    if of(".safetensors"):
        return ""
    if files := of(".gguf"):
        file = next((name for name in files if "q8_0" in name.lower()), files[0])
        return (
            f"{model} has no safetensors, but GGUF files: choose one, as with "
            f'file = huggingface_hub.hf_hub_download("{model}", "{file}"), make a '
            "folder of it with gguf.to_folder(file, folder), and pass that folder."
        )
    if files := of(*PICKLES):
        return (
            f"{model} has no safetensors, but pickles ({files[0]}), which are programs "
            "and never opened here. Take a repository with safetensors; or, if you "
            "trust its author, have the library that made it save it as such, and "
            "pass that folder."
        )
    return (
        f"{model} has no safetensors, and so no weights that are read here, but "
        f"{', '.join(sorted(names)[:3]) or 'no files at all'}. Take a repository that "
        "has them."
    )


def word_on(folder) -> str:
    """What to add of a fetched folder: how adapters are used, which are no model."""
    if not _is_of_adapters(folder):
        return ""
    return f" Adapters: lora.load puts them on the model that {ADAPTERS} names."


def is_part(folder) -> bool:
    """Whether files are missing of which a model, or adapters, are read.

    Raises:
      WeightsError: the index of its weights cannot be read.
    """
    if _is_of_adapters(folder):
        return not (folder / peft_folder.WEIGHTS).is_file()
    files = [folder / MODEL, *(path for path, _ in weights.weight_files(folder))]
    tokenizers = [folder / name for name in ("tokenizer.json", "tokenizer.model")]
    return not (
        all(path.is_file() for path in files)
        and any(path.is_file() for path in tokenizers)
    )


def _is_of_adapters(folder):
    return (folder / ADAPTERS).is_file() and not (folder / MODEL).is_file()
