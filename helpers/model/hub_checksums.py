"""What has arrived from a model hub, held to what the hub says it is.

huggingface_hub compares sizes. Of a large file the hub also states the SHA-256, of a
small one git's id, and the cache names the file by it: `snapshots/<commit>/config.json`
is a link to `blobs/<id>`. Where a cache has no links (Windows) nothing is known, or
checked.

A small file's name alone says too little: it is an ETag, for which a proxy between may
have put a hash of its own, such as the plain SHA-1. So such a file is only held to an
id that the hub's list of files has, too; without a network there is no list.
"""

import contextlib
import hashlib
import os
import pathlib
import re


class Damaged(OSError):
    """A file from the hub is not the one that the hub names; it was deleted."""


def check(folder, git_ids=()) -> None:
    """Holds each file to its checksum: once, and again if it is fetched anew.

    Args:
      folder: a snapshot in the hub's cache.
      git_ids: those that the hub lists; of small files only these are checked.
    Raises:
      Damaged: names the files. They were deleted, so the next fetch gets them anew.
    """
    folder, git_ids = pathlib.Path(folder), set(git_ids)
    marks = folder.parents[1] / "checked"
    damaged = []
    for path in sorted(folder.rglob("*")):
        blob = path.parent / os.readlink(path) if path.is_symlink() else path
        if re.fullmatch("[0-9a-f]{64}", blob.name):
            checksum = _sha256
        elif re.fullmatch("[0-9a-f]{40}", blob.name) and blob.name in git_ids:
            checksum = _git_id
        else:
            continue
        if _is_marked(blob, marks):
            continue
        if blob.name == (found := checksum(blob)):
            _mark(blob, marks)
            continue
        name = path.relative_to(folder)
        damaged.append(f"{name} has the checksum {found[:12]}…, not {blob.name[:12]}…")
        for link in (blob.resolve(), blob, path):  # a blob may be one of several models
            link.unlink(missing_ok=True)
    if damaged:
        raise Damaged("; ".join(damaged))


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git_id(path):
    content = path.read_bytes()
    whole = b"blob %d\0" % len(content) + content
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()


def _is_marked(blob, marks):
    """Whether the blob was checked since it was written."""
    mark = marks / blob.name
    return mark.exists() and mark.stat().st_mtime_ns >= blob.stat().st_mtime_ns


def _mark(blob, marks):
    with contextlib.suppress(OSError):  # a full disk, or a cache that is only read
        marks.mkdir(exist_ok=True)
        (marks / blob.name).touch()
