"""Who answers tickets, as the trainer's side sees them; `ray_crew` has real ones."""

from collections.abc import Iterable
from typing import Any, Protocol

from helpers.scale.pieces import Piece


class WorkerLost(RuntimeError):
    """A worker is gone, or answered with an error; what it held is asked again."""


class RunStopped(RuntimeError):
    """The run cannot go on; what was trained is saved."""


class Crew(Protocol):
    """Workers that answer tickets somewhere; `ray_crew.RayCrew` is one."""

    def require_running(self) -> None:
        """Asked again and again, of two threads.

        Raises:
          RunStopped: whoever runs the workers is gone.
        """

    def workers(self) -> list[int]:
        """The numbers of all workers that are up."""

    def publish(self, version: int, arrays: dict) -> None:
        """From now on tickets are answered with these weights; see `published.read`."""

    def ask(self, worker: int, ticket: dict) -> Any:
        """Has a worker begin an answer; a handle, which can be hashed."""

    def finished(self, handles: list, seconds: float) -> Iterable:
        """Those of the handles that are done, or failed, within some seconds."""

    def result(self, handle: Any) -> Piece:
        """What a finished handle holds; WorkerLost if that is nothing."""

    def replace(self, worker: int) -> None:
        """Ends a worker, in whatever state it is, and starts another in its place."""
