"""Why a model could not be fetched, and what to do: the errors of `hub`."""

import errno
import json
import pathlib
import re
import urllib.parse

from helpers.model import hub_checksums, hub_listing

KEPT = "files that have arrived whole are kept"
OFFLINE = "The shipped models need no network: course.stage_folder('base')."


class ModelUnavailable(RuntimeError):
    """A model could not be fetched; the message says why, and what to do."""


class NotStored(ModelUnavailable):
    """The hub gave the model, and it did not arrive whole on this machine's disk."""


def unavailable(model, error, token):
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
            f"What answered for {model} is no model hub ({first_line(error)}). Is "
            "HF_ENDPOINT right, if it is set? A login page of the network may also "
            f"stand in between: open {page} in a browser. {OFFLINE}"
        )
    if isinstance(error, ValueError):  # of a name such as ../../x.json or /tmp/x.json
        return ModelUnavailable(
            f"The hub's list of {model} names a file outside of the model's folder "
            f"({first_line(error)}). It was not fetched. Take another repository, or "
            f"report it on {page}."
        )
    return ModelUnavailable(_unreached(model, error))


def not_given(model, lacking):
    """The error to raise of files that the hub lists, and that did not come."""
    return ModelUnavailable(
        f"The hub lists {lacking[0]} among the files of {model}, and did not give it "
        f"({len(lacking)} in all). Fetch it again in a while: {KEPT}."
    )


def said_of(refused):
    """How the hub refused, in a few words."""
    status = getattr(getattr(refused, "response", None), "status_code", None)
    return f"the hub answered {status}" if status else "the hub was not reached"


def _refused(model, page, error):
    """What an answer of the hub other than "not found" and "gated" means."""
    from huggingface_hub import errors

    response = error.response
    status = getattr(response, "status_code", None)
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
    if isinstance(error, errors.EntryNotFoundError):
        path = urllib.parse.urlsplit(str(response.url)).path
        return (
            f"{model} is not whole on the hub, which lists "
            f"{pathlib.PurePosixPath(urllib.parse.unquote(path)).name} and does not "
            f"have it (404). Take another repository, or report it on {page}."
        )
    said = first_line(error)
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
            f"{model} did not arrive whole ({first_line(error)}). Fetch it again: "
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
            f"the hub cannot be reached, or hung up ({first_line(error)}). Switch the "
            "internet on (Kaggle: in the notebook's settings), fetch it again "
            f"({KEPT}), start Python with HF_HUB_DISABLE_XET=1"
        )
    return (
        f"{model} is not complete on this machine, and {why}, or pass the folder of a "
        f"copy. {OFFLINE}"
    )


def first_line(error) -> str:
    """An error's first line, without a full stop or a token, within a sentence."""
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return re.sub(r"\bhf_\w+", "hf_…", line)
