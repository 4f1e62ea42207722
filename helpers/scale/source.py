"""The batch source of asynchronous RL: the trainer draws from it as from `Rollouts`.

A thread hands out tickets to idle workers and takes in what they answer, while the
trainer updates. It does not care what workers are (`Crew`).
"""

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from helpers.generation.rollouts import Rollouts
from helpers.runtime import distributed
from helpers.runtime.run_identity import REMEDY, differences, listed
from helpers.scale import published, tickets
from helpers.scale.buffer import Buffer, Lease
from helpers.scale.crew import Crew, RunStopped, WorkerLost
from helpers.scale.pieces import BrokenPiece, joined, require_whole

LOOKS = 1.0  # seconds between two looks at whether anyone is there at all
LEAVES = 10.0  # seconds that a thread gets to end when nobody is


class Errand(NamedTuple):
    """What a worker is busy with, and since when (seconds of a monotonic clock)."""

    worker: int
    lease: Lease
    since: float


class FromWorkers:
    """A batch source whose groups others sample, with weights that may be a bit old.

    Its batches are those of `Rollouts`; `logprobs` are those of the weights that
    sampled (the *behaviour* policy), so the objective wants a cap:
    `objectives.policy_gradient(sampler_cap=2.0)`. It then weighs each token by the
    policy before the update over the behaviour, truncated, and clips against the
    policy before the update (2110.00641). With one worker and limit 0 its batches are
    those that the `rollouts` would make, bit by bit.

    `metrics` are those of the rollouts, and `staleness` (updates between sampling and
    learning, mean over the batch); and so far in all `dropped`, `returned`.

    Args:
      rollouts: as for the synchronous loop, of the trainer's own model. Its prompts
        make the tickets; it samples nothing.
      crew: the workers, each with the same rollouts and a model of its own.
      pieces: of one batch; every piece has as many prompts as `rollouts` draws at once.
      limit: η, how stale a piece may be.
      deadline: seconds that a worker may take for a piece, before it is replaced; its
        first takes longer, for it compiles.
      patience: failures in a row, of any workers, that end the run.
      say: told in a sentence of all that goes wrong.
    Raises:
      ValueError: the rollouts replace tied groups, so that how many prompts a batch
        takes is not known before; they have no reward; or the trainer is of several
        distributed.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        crew: Crew,
        *,
        pieces: int = 1,
        limit: int = 0,
        deadline: float = 120.0,
        patience: int = 6,
        say: Callable[[str], None] = print,
    ):
        if rollouts.resample:
            raise ValueError(
                f"resample={rollouts.resample} draws prompts depending on answers, and"
                " tickets are drawn before them. Pass resample=0 to Rollouts."
            )
        if rollouts.reward is None or distributed.share()[1] > 1:
            raise ValueError(
                "Workers answer for a trainer of one process, and score: give Rollouts"
                " a reward, and train several hosts, or by a teacher, with Rollouts."
            )
        self.rollouts, self.crew, self.model = rollouts, crew, rollouts.model
        self.longest = rollouts.longest
        self.wrt: Any = None
        self.buffer = Buffer(functools.partial(tickets.draw, rollouts), pieces, limit)
        self.limit, self.deadline = limit, deadline
        self.patience, self.say = patience, say
        self.metrics: dict[str, float] = {}
        self.samples: list[dict] = []
        self.learned: list[int] = []  # numbers of pieces, in order; since it was made
        self.seconds: list[float] = []  # that each of them took to sample
        self.updating: list[float] = []  # seconds from a batch to its new weights
        self.published: list[float] = []  # when weights were, on a monotonic clock
        self._handed: float | None = None  # when the last batch was
        self.stopped: BaseException | None = None
        self._errands: dict[Any, Errand] = {}
        self._failures = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def send(self, wrt) -> None:
        """Workers are sent these variables of the model: its trainer says which.

        Args:
          wrt: an nnx filter; None, before anybody says: those that `Trainer` takes.
        """
        self.wrt = wrt

    def get_state(self) -> dict:
        """Where it stands: what was not learned yet will be asked again."""
        with self._changed:
            return {
                "run": self._identity(),
                "rollouts": self.rollouts.get_state(),
                "buffer": self.buffer.get_state(),
            }

    def set_state(self, state: dict) -> None:
        """Goes on from a state; ValueError if it is that of another run."""
        if changed := differences(state["run"], self._identity()):
            raise ValueError(
                "The saved batches are not those of this asynchronous run:"
                f" {listed(changed)}. {REMEDY}"
            )
        with self._changed:
            self.rollouts.set_state(state["rollouts"])
            self.buffer.set_state(state["buffer"])

    def _identity(self):
        return {"pieces": self.buffer.pieces, "limit": self.limit}

    def __iter__(self):
        return self

    def __next__(self) -> dict:
        """Publishes the newest weights, and waits for enough answers.

        Where the run cannot go on it ends, so that the trainer saves; `close` raises.

        Raises:
          NothingToLearn: as `Rollouts` do, of the batches that are learned from.
          ValueError: it was closed.
        """
        if self._closed:
            raise ValueError("These batches are closed: make another FromWorkers.")
        version = self.buffer.version + bool(self.buffer.learning)
        try:
            self.crew.require_running()
            self.crew.publish(version, published.read(self.model, self.wrt))
            taken = self._taken()
        except RunStopped as error:
            self._stop(error)
            taken = None
        if taken is None:
            raise StopIteration
        return self._batch(version, taken)

    def _taken(self):
        """The pieces of the next update; None once there will be none."""
        self.published.append(time.monotonic())
        if self._handed is not None:
            self.updating.append(self.published[-1] - self._handed)
        with self._changed:
            if self.buffer.learning:
                self.buffer.learned()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
            while not (self.stopped or self.buffer.exhausted):
                if (taken := self.buffer.take()) is not None:
                    return taken
                self._changed.wait(LOOKS)
                self.crew.require_running()  # the thread may hang in a call to it
        return None

    def _batch(self, version, taken):
        found = [answered.content for answered in taken]
        batch, self.metrics = joined(found)
        self.rollouts.count_tied(batch)
        ages = [version - answered.version for answered in taken]
        self.metrics |= {
            "staleness": sum(ages) / len(ages),
            "dropped": float(self.buffer.dropped),
            "returned": float(self.buffer.returned),
        }
        self.samples = [sample for piece in found for sample in piece.samples][:4]
        self.learned += [answered.number for answered in taken]
        self.seconds += [piece.seconds for piece in found]
        self._handed = time.monotonic()
        return batch

    def close(self) -> None:
        """Ends the thread; workers stay as they are.

        Raises:
          RunStopped: the batches ended because the run could not go on.
        """
        self._closed = True
        if self._thread is not None:  # it may hang in a call to workers that are gone
            self._thread.join(None if self.stopped is None else LEAVES)
        if self.stopped is not None:
            raise self.stopped

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        self._closed = True

    def _serve(self):
        """The thread: tickets out, answers in."""
        try:
            while not self._closed:
                self.crew.require_running()
                with self._changed:
                    self._issue()
                    self._changed.notify_all()
                for handle in self.crew.finished(list(self._errands), 0.05):
                    self._receive(handle)
                now = time.monotonic()
                for handle, errand in list(self._errands.items()):
                    if now - errand.since > self.deadline:
                        self._fail(handle, f"gave no answer for {self.deadline:.0f} s")
        except BaseException as error:
            self._stop(error)

    def _issue(self):
        """Gives every idle worker something to do."""
        busy = {errand.worker for errand in self._errands.values()}
        for worker in self.crew.workers():
            if worker in busy:
                continue
            lease = self.buffer.issue()
            if lease is None:
                break
            handle = self.crew.ask(worker, lease.ticket)
            self._errands[handle] = Errand(worker, lease, time.monotonic())

    def _receive(self, handle):
        try:
            piece = self.crew.result(handle)
            with self._changed:  # weights are published before they are counted
                newest = self.buffer.version + bool(self.buffer.learning)
            ticket = self._errands[handle].lease.ticket
            require_whole(piece, ticket, self.rollouts, newest)
        except (WorkerLost, BrokenPiece) as error:
            self._fail(handle, str(error))
            return
        errand = self._errands.pop(handle)
        self._failures = 0
        with self._changed:
            before = self.buffer.dropped
            self.buffer.push(errand.lease, piece.version, piece)
            late = self.buffer.dropped - before
            age = self.buffer.version - piece.version
            self._changed.notify_all()
        if late:
            self.say(
                f"worker {errand.worker} took {piece.seconds:.1f} s: its answers are"
                f" {age} versions old, more than {self.buffer.limit}, and are dropped"
            )

    def _fail(self, handle, why):
        """A worker is lost: what it held is due again, and another takes its place."""
        errand = self._errands.pop(handle)
        with self._changed:
            self.buffer.give_back(errand.lease)
        self._failures += 1
        self.say(
            f"worker {errand.worker}, piece {errand.lease.number}: {why}. The questions"
            " are asked again, of another worker"
        )
        if self._failures >= self.patience:
            raise RunStopped(
                f"{self._failures} attempts in a row failed, the last one: {why}."
                " Everything trained is saved; mend the cause and start again."
            )
        self.crew.replace(errand.worker)

    def _stop(self, error):
        with self._changed:
            self.stopped = error
            self._changed.notify_all()
