"""Runs whose folder is in object storage: `gs://bucket/runs/maths`.

Orbax's path layer, etils.epath, reads and writes there; arrays go through TensorStore.
Two things of a disk a bucket has not. A file cannot grow there: the logs of a run are
written on this machine, and copied with every checkpoint. And no kernel lets go of a
lock when its holder is preempted: the process that came last holds the run, and one
that came before stops at its next checkpoint.
"""

import os
import re
import secrets
import socket
import tempfile
import warnings
from pathlib import Path
from typing import cast

from etils import epath

SECONDS = 60.0  # that a bucket may take for its first answer
LOGS = ("metrics.jsonl", "samples.jsonl")


def is_bucket(folder: str | os.PathLike) -> bool:
    """Whether a folder is in object storage, and not on a disk."""
    return "://" in os.fspath(folder)


def place(folder: str | os.PathLike) -> Path:
    """The path of a folder; in a bucket it is Orbax's, which can what is used here."""
    if not is_bucket(folder):
        return Path(folder).absolute()
    import fsspec

    # TensorStore writes past the list of files that gcsfs would remember.
    fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False
    return cast(Path, epath.Path(folder))


def require_access(run: Path) -> None:
    """Writes to a bucket, reads that back and removes it, by both ways that are used.

    Raises:
      OSError: no network, no credentials, no such bucket, or no right to write there;
        within a minute or two.
    """
    try:
        import tensorstore

        store = tensorstore.KvStore.open(f"{run}/").result(timeout=SECONDS)
        store.write("access", b"granted").result(timeout=SECONDS)
        (run / "access").read_text()
        (run / "access").unlink()
    except Exception as error:  # gcsfs, google.auth and TensorStore each have their own
        raise OSError(
            f"{run} cannot be used: {type(error).__name__}: {str(error)[:300]}. Check"
            " the name of the bucket, the network, and the credentials (`gcloud auth"
            " application-default login`); it takes the package gcsfs."
        ) from None


def trouble(run: Path) -> tuple[type[Exception], ...]:
    """What is raised where a checkpoint cannot be written."""
    if not is_bucket(run):
        return OSError, ValueError
    from gcsfs.retry import HttpError

    return OSError, ValueError, HttpError


def cause(error: Exception) -> str:
    """What the operating system said, from an OSError or from Orbax's long message."""
    code = re.search(r"os_error_code='(\d+)'", str(error))
    number = int(code[1]) if code else getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)


class BucketRun:
    """Who trains in a run's folder in a bucket, and the logs that grow beside it.

    Args:
      run: the run folder, which is in a bucket.
    """

    def __init__(self, run: Path):
        self.run, self.lock = run, run / "run.lock"
        self.me = f"process {os.getpid()} on {socket.gethostname()}"
        self._folder = tempfile.TemporaryDirectory(prefix="run-logs-")
        self.logs = Path(self._folder.name)

    def claim(self) -> None:
        """Takes the run over, whoever had it.

        Warns:
          UserWarning: another process has not let go of it.
        """
        require_access(self.run)
        if self.lock.exists():
            warnings.warn(
                f"{self.lock.read_text()} has not let go of {self.run}. If it was"
                " killed, all is well; if not, it stops at its next checkpoint.",
                stacklevel=7,
            )
        self.token = f"{self.me}, {secrets.token_hex(4)}"
        self.lock.write_text(self.token)

    def require_claim(self) -> None:
        """Raises OSError if another process has taken the run over."""
        holder = self.lock.read_text() if self.lock.exists() else "nobody"
        if holder != self.token:
            raise OSError(
                f"{self.run} was taken over by {holder}, and only one may train there"
            )

    def release(self) -> None:
        """Lets go of the run, if nobody took it over."""
        if self.lock.exists() and self.lock.read_text() == self.token:
            self.lock.unlink()

    def fetch_logs(self) -> None:
        """Copies the logs of the run to this machine."""
        for name in LOGS:
            if (self.run / name).exists():
                (self.logs / name).write_bytes((self.run / name).read_bytes())

    def push_logs(self) -> None:
        """Copies the logs of this machine to the run."""
        for path in self.logs.iterdir():
            (self.run / path.name).write_bytes(path.read_bytes())
