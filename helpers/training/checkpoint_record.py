"""What makes a folder a checkpoint: `checkpoint.json`, written when all else is there.

It holds the record and a checksum of every file.
"""

import json
import shutil
import time
import zlib
from pathlib import Path

from etils import epath

NAME = "checkpoint.json"
FORMAT = 2  # of it: runs are described item by item


def files(folder: Path) -> list[Path]:
    """Every file below a folder, in the order of their names."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        found += files(path) if path.is_dir() else [path]
    return found


def checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of every file below a folder, by its path relative to the folder."""
    return {str(path.relative_to(folder)): checksum(path) for path in files(folder)}


def checksum(path: Path) -> int:
    """CRC-32 of a file, read in pieces of 16 MB."""
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 24):
            crc = zlib.crc32(piece, crc)
    return crc


def finish(folder: Path, record: dict) -> None:
    """Adds the record to all that was written to a folder."""
    write_record(folder, record | {"format": FORMAT, "files": checksums(folder)})


def write_record(folder: Path, record: dict) -> None:
    """Writes checkpoint.json, with a checksum of its own content."""
    crc = zlib.crc32(json.dumps(record).encode())
    text = json.dumps({"checksum": crc, "record": record}, indent=1)
    (folder / NAME).write_text(text)


def read_record(folder: Path) -> tuple[dict, str | None]:
    """The record of a checkpoint, and what is damaged in the folder (None: nothing)."""
    path = folder / NAME
    try:
        content = json.loads(path.read_text())
        record = content["record"]
        whole = content["checksum"] == zlib.crc32(json.dumps(record).encode())
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {}, f"{path}: {error!r}"
    if not whole:
        return {}, f"{path} is not what was written"
    for name, crc in record.get("files", {}).items():
        path = folder / name
        if not path.is_file():
            return {}, f"{path} is missing"
        if checksum(path) != crc:
            return {}, f"{path} is not what was written"
    return record, None


def remove(folders: list[Path]) -> None:
    """Removes folders with all that is in them, what makes them checkpoints first."""
    for folder in folders:
        if (folder / NAME).exists():
            (folder / NAME).unlink()
        epath.Path(folder).rmtree()


def remove_while_written(folder: Path, seconds: float = 2.0) -> None:
    """Removes a folder to which threads of a failed save may still be writing.

    Orbax raises the first error and does not wait for the other writes; what they leave
    behind later than `seconds` is removed at the next start.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)
        if not folder.exists():
            return
