"""A bounded buffer between workers that sample and a trainer that learns.

It is a state machine without clocks, threads or processes. The unit of work is a
*piece*: a few prompts with their groups of answers, numbered from 0. Every piece is in
exactly one place:

    due        its prompts wait for a worker
    out        a worker samples its answers
    back       it is sampled, with the weights of some version
    learning   the trainer has it
    learned    done, never to be used again

Versions count the trainer's updates. A piece that was sampled with version v is *stale*
by `version - v`, and may be as stale as the limit η:

1. No more than (η + 1) updates' worth of pieces are out, back or learning. Pieces that
   come back in the order in which they went out are then never too old.
2. A piece that comes back too late is dropped and counted. Its prompts are due again.

Source: AReaL (2505.24298, section 5.1), which limits requests by the same count.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Lease(NamedTuple):
    """One attempt to sample a piece: its number, which attempt, and the request."""

    number: int
    attempt: int
    request: Any


class Answered(NamedTuple):
    """A piece that came back: its number, the weights' version, and its content."""

    number: int
    version: int
    content: Any


class Buffer:
    """Pieces on their way from prompts to updates.

    Args:
      draw: `draw()` makes the next request to a worker; None at the end.
      pieces: of an update.
      limit: η, how stale a piece may be.
    """

    def __init__(self, draw: Callable[[], Any], pieces: int = 1, limit: int = 0):
        self.draw, self.pieces, self.limit = draw, pieces, limit
        self.version = self.drawn = self.attempts = 0
        self.dropped = self.returned = 0  # pieces too old; pieces that were lost
        self.due: dict[int, Any] = {}
        self.out: dict[int, Lease] = {}
        self.back: dict[int, tuple[Answered, Lease]] = {}
        self.learning: list[int] = []
        self.ended = False  # no more requests can be drawn

    def issue(self) -> Lease | None:
        """The next piece to sample; None if nobody may run ahead, or there is none."""
        in_flight = len(self.out) + len(self.back) + len(self.learning)
        if in_flight >= self.pieces * (self.limit + 1):
            return None
        if not self.due:
            request = self.draw()
            if request is None:
                self.ended = True
                return None
            self.due[self.drawn] = request
            self.drawn += 1
        number = min(self.due)
        self.attempts += 1
        lease = Lease(number, self.attempts, self.due.pop(number))
        self.out[number] = lease
        return lease

    def push(self, lease: Lease, version: int, content) -> bool:
        """Takes in a sampled piece; False if it is too old, or its lease is void.

        Args:
          lease: from `issue`; void after it was given back.
          version: of the weights that sampled.
          content: what the trainer gets.
        """
        if not self._is_out(lease):
            return False
        del self.out[lease.number]
        self.back[lease.number] = Answered(lease.number, version, content), lease
        self._drop_stale()
        return lease.number in self.back

    def give_back(self, lease: Lease) -> bool:
        """Makes a piece due again whose worker is gone; False if it is not out."""
        if not self._is_out(lease):
            return False
        self.due[lease.number] = self.out.pop(lease.number).request
        self.returned += 1
        return True

    def take(self) -> list[Answered] | None:
        """The pieces of the next update, oldest first; None until enough are back.

        The last update may have fewer pieces than the others.
        """
        assert not self.learning, "call learned() after an update, before take()"
        last = self.ended and not (self.due or self.out)
        if len(self.back) < (1 if last else self.pieces):
            return None
        by_age = sorted((a.version, a.number) for a, _ in self.back.values())
        taken = [self.back.pop(number)[0] for _, number in by_age[: self.pieces]]
        self.learning = [answered.number for answered in taken]
        return taken

    def learned(self) -> None:
        """The update is done: a new version is out, and older answers may be stale."""
        self.learning = []
        self.version += 1
        self._drop_stale()

    @property
    def exhausted(self) -> bool:
        """Whether there are no more requests, and nothing is left to learn from."""
        return self.ended and not (self.due or self.out or self.back)

    def get_state(self) -> dict:
        """For JSON, between two updates: what is not learned is due again."""
        requests = {n: lease.request for n, lease in self.out.items()}
        requests |= {n: lease.request for n, (_, lease) in self.back.items()}
        return {
            "version": self.version + bool(self.learning),
            "drawn": self.drawn,
            "due": sorted((self.due | requests).items()),
            "dropped": self.dropped,
            "returned": self.returned,
        }

    def set_state(self, state: dict) -> None:
        """Goes on from a state; earlier leases are void."""
        self.version, self.drawn = state["version"], state["drawn"]
        self.dropped, self.returned = state["dropped"], state["returned"]
        self.due = {number: request for number, request in state["due"]}
        self.out, self.back, self.learning, self.ended = {}, {}, [], False

    def _is_out(self, lease):
        current = self.out.get(lease.number)
        return current is not None and current.attempt == lease.attempt

    def _drop_stale(self):
        for number, (answered, lease) in list(self.back.items()):
            if self.version - answered.version > self.limit:
                del self.back[number]
                self.due[number] = lease.request
                self.dropped += 1
