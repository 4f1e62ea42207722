"""Who has which groups: a bounded buffer between workers that answer and a trainer.

A state machine without clocks, threads or processes. What travels is a *piece*: a few
prompts with their groups of answers, numbered from 0. Every piece is in one place:

    due        its questions wait for a worker
    out        a worker answers them
    back       they are answered, with the weights of some version
    learning   the trainer has them
    learned    done, and never again

Versions count the trainer's updates. A piece that was sampled with version v is *stale*
by `version - v`, and may be as stale as the limit η:

1. No more than (η + 1) updates' worth of pieces are out, back or learning. What comes
   back in the order in which it went out is then never too old.
2. What comes back later is dropped and counted. Its questions are due again.

Source: AReaL (2505.24298, section 5.1), which holds back requests by the same count.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Lease(NamedTuple):
    """One attempt to answer a piece: its number, which attempt, and what to answer."""

    number: int
    attempt: int
    ticket: Any


class Answered(NamedTuple):
    """A piece that came back: its number, the weights' version, and what is in it."""

    number: int
    version: int
    content: Any


def stale(sampled: int, version: int, limit: int) -> bool:
    """Whether a piece sampled with one version is too old for an update of another.

    Args:
      sampled: the version it was sampled with.
      version: the trainer's.
      limit: η, the most updates there may be between the two.
    """
    return version - sampled > limit


class Buffer:
    """Pieces on their way from questions to updates.

    Args:
      draw: `draw()` makes the next ticket, what a worker is to answer; None at the end.
      pieces: of an update.
      limit: η, how stale a piece may be.
    Raises:
      ValueError: fewer than one piece, or a limit below 0.
    """

    def __init__(self, draw: Callable[[], Any], pieces: int = 1, limit: int = 0):
        if pieces < 1 or limit < 0:
            raise ValueError(
                f"pieces={pieces} and limit={limit}: an update needs at least one"
                " piece, and 0 is the strictest limit, with which nobody runs ahead."
            )
        self.draw, self.pieces, self.limit = draw, pieces, limit
        self.version = self.drawn = self.attempts = 0
        self.dropped = self.returned = 0  # pieces too old; pieces that nobody answered
        self.due: dict[int, Any] = {}
        self.out: dict[int, Lease] = {}
        self.back: dict[int, tuple[Answered, Lease]] = {}
        self.learning: list[int] = []
        self.ended = False  # no more tickets can be drawn

    def issue(self) -> Lease | None:
        """The next piece to answer; None if nobody may run ahead, or there is none."""
        held = len(self.out) + len(self.back) + len(self.learning)
        if held >= self.pieces * (self.limit + 1):
            return None
        if not self.due:
            ticket = self.draw()
            if ticket is None:
                self.ended = True
                return None
            self.due[self.drawn] = ticket
            self.drawn += 1
        number = min(self.due)
        self.attempts += 1
        lease = Lease(number, self.attempts, self.due.pop(number))
        self.out[number] = lease
        return lease

    def push(self, lease: Lease, version: int, content) -> bool:
        """Takes in an answered piece; False if it is too old, or no longer asked for.

        Args:
          lease: from `issue`; one that was given back counts no more.
          version: of the weights that answered.
          content: what the trainer gets.
        """
        if not self._holds(lease):
            return False
        del self.out[lease.number]
        self.back[lease.number] = Answered(lease.number, version, content), lease
        self._drop_stale()
        return lease.number in self.back

    def give_back(self, lease: Lease) -> bool:
        """Makes a piece due again whose worker is gone; False if it is not out."""
        if not self._holds(lease):
            return False
        self.due[lease.number] = self.out.pop(lease.number).ticket
        self.returned += 1
        return True

    def take(self) -> list[Answered] | None:
        """What the next update learns from, oldest first; None until enough are back.

        The last update may have fewer pieces than the others.

        Raises:
          ValueError: the last update's pieces are still with the trainer.
        """
        if self.learning:
            raise ValueError("Call learned() after an update, before the next take().")
        last = self.ended and not (self.due or self.out)
        if len(self.back) < (1 if last else self.pieces):
            return None
        found = sorted((a.version, a.number) for a, _ in self.back.values())
        taken = [self.back.pop(number)[0] for _, number in found[: self.pieces]]
        self.learning = [answered.number for answered in taken]
        return taken

    def learned(self) -> None:
        """The update is done: a new version is out, and older answers may be stale."""
        self.learning = []
        self.version += 1
        self._drop_stale()

    @property
    def exhausted(self) -> bool:
        """Whether there are no more tickets, and nothing is left to learn from."""
        return self.ended and not (self.due or self.out or self.back)

    def get_state(self) -> dict:
        """For JSON, between two updates: what is not learned will be asked again."""
        leases = {n: lease.ticket for n, lease in self.out.items()}
        leases |= {n: lease.ticket for n, (_, lease) in self.back.items()}
        return {
            "version": self.version + bool(self.learning),
            "drawn": self.drawn,
            "due": sorted((self.due | leases).items()),
            "dropped": self.dropped,
            "returned": self.returned,
        }

    def set_state(self, state: dict) -> None:
        """Goes on from a state; what was out or back then is due, leases are void."""
        self.version, self.drawn = state["version"], state["drawn"]
        self.dropped, self.returned = state["dropped"], state["returned"]
        self.due = {number: ticket for number, ticket in state["due"]}
        self.out, self.back, self.learning, self.ended = {}, {}, [], False

    def _holds(self, lease):
        held = self.out.get(lease.number)
        return held is not None and held.attempt == lease.attempt

    def _drop_stale(self):
        for number, (answered, lease) in list(self.back.items()):
            if stale(answered.version, self.version, self.limit):
                del self.back[number]
                self.due[number] = lease.ticket
                self.dropped += 1
