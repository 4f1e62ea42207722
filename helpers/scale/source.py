"""The batch source of asynchronous RL: the trainer draws from it as from `Rollouts`.

A thread sends requests to idle workers and takes in the pieces they sample, while the
trainer updates. What the workers are is up to the pool.
"""

import threading
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from helpers.batches.sources import BatchSource, Curriculum
from helpers.generation.rollouts import Rollouts
from helpers.runtime.run_identity import REMEDY, differences
from helpers.scale.buffer import Buffer, Lease
from helpers.scale.workers import (
    Piece,
    RayWorkerPool,
    RunStopped,
    WorkerLost,
    read_weights,
)

PER_TOKEN = ("completion", "loss_mask", "logprobs")  # (prompts, group, tokens)
PER_ANSWER = ("rewards", "advantages")  # (prompts, group)
PER_PROMPT = ("prompt", "prompt_mask")  # (prompts, tokens)
POLL = 1.0  # seconds between two checks of whether the pool still runs
JOIN = 10.0  # seconds that the thread gets to end when the pool is gone


class BrokenPiece(ValueError):
    """A worker sent something that no update may learn from."""


def draw_request(rollouts: Rollouts) -> dict | None:
    """The next request, for `Worker.answer`; None where the prompts end.

    Returns:
      A state of the rollouts, for JSON, with the `checksum` of the prompts that they
      draw from there.
    """
    request = rollouts.get_state()
    if (drawn := next(rollouts.prompts, None)) is None:
        return None
    rollouts.step += 1
    return request | {"checksum": checksum(drawn)}


def checksum(batch: dict[str, np.ndarray]) -> int:
    """CRC-32 of a batch's prompts and pictures, and of their shapes and dtypes."""
    crc = 0
    for name in (*PER_PROMPT, "images"):
        if name in batch:
            x = np.ascontiguousarray(batch[name])
            crc = zlib.crc32(f"{name} {x.shape} {x.dtype}".encode(), crc)
            crc = zlib.crc32(x.tobytes(), crc)
    return crc


def check_piece(piece: Piece, request: dict, newest: int) -> None:
    """Refuses a piece that no update may learn from.

    Args:
      piece: from a worker, whose rollouts have the settings of the request.
      request: from `draw_request`, which the worker was sent.
      newest: the newest version of the weights.
    Raises:
      BrokenPiece: its prompts are others, a number is not finite, or its weights are
        not ours.
    """
    if checksum(piece.batch) != request["checksum"]:
        raise BrokenPiece("its prompts are not those of the request")
    for name in (*PER_TOKEN, *PER_ANSWER):
        if not np.isfinite(piece.batch[name]).all():
            raise BrokenPiece(f"{name} has numbers that are not finite")
    if not 0 <= piece.version <= newest:
        raise BrokenPiece(f"its weights are of version {piece.version}, not of ours")


def joined(pieces: list[Piece]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """One batch of several pieces, padded to the widest, and their mean metrics.

    A metric is the mean over those pieces that have it.
    """
    metrics = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece.metrics):
        having = [piece for piece in pieces if name in piece.metrics]
        weights = [len(piece.batch["prompt"]) for piece in having]
        values = [piece.metrics[name] for piece in having]
        metrics[name] = float(np.average(values, weights=weights))
    batch = {}
    for name in pieces[0].batch:
        arrays = [piece.batch[name] for piece in pieces]
        if name in (*PER_TOKEN, *PER_PROMPT):
            width = max(x.shape[-1] for x in arrays)
            arrays = [
                np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width - x.shape[-1])])
                for x in arrays
            ]
        batch[name] = np.concatenate(arrays)
    return batch, metrics


class Pending(NamedTuple):
    """What a worker is busy with, and since when (seconds of a monotonic clock)."""

    worker: int
    lease: Lease
    since: float


class FromWorkers(BatchSource):
    """A batch source whose groups workers sample, with weights that may be a bit old.

    Its batches are those of `Rollouts`. `logprobs` are those of the weights that
    sampled (the *behaviour* policy), so the objective needs a cap:
    `objectives.policy_gradient(sampler_cap=2.0)`. It then weighs each token by the
    policy before the update over the behaviour, truncated, and clips against the
    policy before the update (2110.00641). With one worker and limit 0 its batches are
    those that the `rollouts` would make, bit by bit.

    `metrics` are those of the rollouts, and `staleness` (updates between sampling and
    learning, mean over the batch), and the totals `dropped` and `returned`.

    Args:
      rollouts: as for the synchronous loop, of the trainer's own model. Its prompts
        make the requests; it samples nothing.
      pool: the workers, each with the same rollouts and a model of its own; or what
        has the methods of a `RayWorkerPool`.
      pieces: of one batch; every piece has as many prompts as `rollouts` draws at once.
      limit: η, how stale a piece may be.
      deadline: seconds that a worker may take for a piece, before it is replaced. The
        first one takes longer, because it compiles.
      patience: failures in a row, of any workers, that end the run.
      say: called with a sentence on everything that goes wrong.
    Raises:
      ValueError: the rollouts have no reward, or a curriculum, which workers would not
        share; each of their turns is a row of its own; or the trainer runs in several
        processes.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        pool: RayWorkerPool,
        *,
        pieces: int = 1,
        limit: int = 0,
        deadline: float = 120.0,
        patience: int = 6,
        say: Callable[[str], None] = print,
    ):
        turn_rows = rollouts.dialogue.has_turn_rows(rollouts.tokenizer)
        odd = turn_rows or isinstance(rollouts.prompts, Curriculum)
        odd = odd or rollouts.reward is None
        if odd or jax.process_count() > 1:
            raise ValueError(
                "Workers answer for a trainer of one process, and score answers to "
                "requests that are drawn before: give Rollouts a reward, environments "
                'thoughts="keep", and prompts no curriculum.'
            )
        self.rollouts, self.pool, self.model = rollouts, pool, rollouts.model
        self.longest = rollouts.longest
        self.wrt: Any = None
        self.buffer = Buffer(lambda: draw_request(rollouts), pieces, limit)
        self._run = {"pieces": pieces, "limit": limit}  # of one run, all the time
        self.limit, self.deadline = limit, deadline
        self.patience, self.say = patience, say
        self.learned: list[int] = []  # numbers of pieces, in order
        self.stopped: BaseException | None = None
        self._pending: dict[Any, Pending] = {}
        self._failures = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def send(self, wrt) -> None:
        """The trainer says with an nnx filter what it trains: workers get that."""
        self.wrt = wrt

    def get_state(self) -> dict:
        """For JSON: what was not learned yet will be sampled again."""
        with self._changed:
            return {
                "run": dict(self._run),
                "rollouts": self.rollouts.get_state(),
                "buffer": self.buffer.get_state(),
            }

    def set_state(self, state: dict) -> None:
        """Goes on from a state; ValueError if it is that of another run."""
        if changed := differences(state["run"], self._run):
            raise ValueError(
                "The saved batches are not those of this asynchronous run:"
                f" {changed}. {REMEDY}"
            )
        with self._changed:
            self.rollouts.set_state(state["rollouts"])
            self.buffer.set_state(state["buffer"])

    def __next__(self) -> dict:
        """Publishes the newest weights, and waits for enough pieces.

        Where the run cannot go on it ends, so that the trainer saves; `close` raises.

        Raises:
          NothingToLearn: as `Rollouts` do, for the batches that are learned from.
          ValueError: it was closed.
        """
        if self._closed:
            raise ValueError("These batches are closed: make another FromWorkers.")
        version = self.buffer.version + bool(self.buffer.learning)
        try:
            self.pool.require_running()
            self.pool.publish(version, read_weights(self.model, self.wrt))
            taken = self._wait_for_pieces()
        except RunStopped as error:
            self._stop(error)
            raise StopIteration from error
        return self._batch(version, taken)

    def _wait_for_pieces(self):
        """The pieces of the next update; StopIteration once there will be none."""
        with self._changed:
            if self.buffer.learning:
                self.buffer.learned()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
            while not (self.stopped or self.buffer.exhausted):
                if (taken := self.buffer.take()) is not None:
                    return taken
                self._changed.wait(POLL)
                self.pool.require_running()  # the thread may hang in a call to it
        raise StopIteration

    def _batch(self, version, taken):
        pieces = [answered.content for answered in taken]
        batch, self.metrics = joined(pieces)
        self.rollouts.count_tied(batch)
        ages = [version - answered.version for answered in taken]
        self.metrics |= {
            "staleness": sum(ages) / len(ages),
            "dropped": float(self.buffer.dropped),
            "returned": float(self.buffer.returned),
        }
        self.samples = [sample for piece in pieces for sample in piece.samples][:4]
        self.learned += [answered.number for answered in taken]
        return batch

    def close(self) -> None:
        """Ends the thread; workers stay as they are.

        Raises:
          RunStopped: the batches ended because the run could not go on.
        """
        self._closed = True
        if self._thread is not None:  # it may hang in a call to a pool that is gone
            self._thread.join(None if self.stopped is None else JOIN)
        if self.stopped is not None:
            raise self.stopped

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        self._closed = True

    def _serve(self):
        """The thread: requests out, pieces in."""
        try:
            while not self._closed:
                self.pool.require_running()
                with self._changed:
                    self._issue()
                    self._changed.notify_all()
                for handle in self.pool.finished(list(self._pending), 0.05):
                    self._receive(handle)
                now = time.monotonic()
                for handle, pending in list(self._pending.items()):
                    if now - pending.since > self.deadline:
                        self._fail(handle, f"gave no answer for {self.deadline:.0f} s")
        except BaseException as error:
            self._stop(error)

    def _issue(self):
        """Gives every idle worker something to do."""
        busy = {pending.worker for pending in self._pending.values()}
        for worker in self.pool.workers():
            if worker in busy:
                continue
            if (lease := self.buffer.issue()) is None:
                break
            handle = self.pool.submit(worker, lease.request)
            self._pending[handle] = Pending(worker, lease, time.monotonic())

    def _receive(self, handle):
        worker, lease, _ = self._pending[handle]
        try:
            piece = self.pool.result(handle)
            with self._changed:  # weights are published before they are counted
                newest = self.buffer.version + bool(self.buffer.learning)
            check_piece(piece, lease.request, newest)
        except (WorkerLost, BrokenPiece) as error:
            self._fail(handle, str(error))
            return
        del self._pending[handle]
        self._failures = 0
        with self._changed:
            accepted = self.buffer.push(lease, piece.version, piece)
            age = self.buffer.version - piece.version
            self._changed.notify_all()
        if not accepted:
            self.say(
                f"worker {worker} took {piece.seconds:.1f} s: its answers are {age} "
                f"versions old, more than {self.limit}, and are dropped"
            )

    def _fail(self, handle, why):
        """A worker is lost: its piece is due again, and another takes its place."""
        worker, lease, _ = self._pending.pop(handle)
        with self._changed:
            self.buffer.give_back(lease)
        self._failures += 1
        self.say(
            f"worker {worker}, piece {lease.number}: {why}. The questions are asked "
            "again, of another worker"
        )
        if self._failures >= self.patience:
            raise RunStopped(
                f"{self._failures} attempts in a row failed, the last one: {why}. "
                "Everything trained is saved; fix the cause and start again."
            )
        self.pool.replace(worker)

    def _stop(self, error):
        with self._changed:
            self.stopped = error
            self._changed.notify_all()
