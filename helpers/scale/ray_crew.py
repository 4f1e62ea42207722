"""Workers as Ray actors: processes on this machine or on any of a cluster.

`ray start --head` on one machine and `ray start --address=…` on others make a cluster;
this file uses it and never starts one. Actors are detached and have names: a trainer
that was killed and starts again finds its workers as they are, with their programs
compiled. Needs the extra `scale`.
"""

import functools
import os
import re
import socket
import time
from typing import Any

from helpers.scale.crew import RunStopped, WorkerLost
from helpers.scale.judge import Judge, judged_elsewhere
from helpers.scale.worker import Worker

READY = 300.0  # seconds that a worker may take to start and to load its model
BUSY = 30.0  # seconds that one of an earlier trainer may still be busy
CHECKED = 1.0  # seconds between two looks at the head of the cluster
JUDGED = 600.0  # seconds that a judge may take to score the answers of a piece
JUDGE = "judge"
WORKER = re.compile(r"worker-(\d+)-(\d+)")  # its number, and how often it was started
AT_ONCE = 16  # calls that a judge works on side by side


class _Actor(Worker):
    """A worker that pulls the weights it is told of, where it has not got them."""

    def __init__(self, make, judge=None):
        super().__init__(make)
        self.published = None
        if judge is not None:
            judged_elsewhere(self.rollouts, functools.partial(_asked, judge))

    def pid(self):
        """The process it runs in."""
        return os.getpid()

    def answer_with(self, published, ticket):
        """Pulls weights, if they are others than it has, and answers.

        Args:
          published: (name of the run's life, version, [reference to the arrays]).
        """
        import ray

        if published[:2] != self.published:
            self.load(published[1], ray.get(published[2][0]))
            self.published = published[:2]
        return self.answer(ticket)


def _asked(judge, method, *arguments):
    """What a method of a judge gives; its process may have to be started again."""
    import ray

    return ray.get(judge.ask.remote(method, *arguments), timeout=JUDGED)


class _JudgeActor:
    """A judge in a process of its own."""

    def __init__(self, make):
        self.own: Judge = make()

    def ask(self, method, *arguments):
        """What a method of the judge gives."""
        return getattr(self.own, method)(*arguments)


class RayCrew:
    """A `crew.Crew` of Ray actors, each a process with a model of its own.

    Args:
      make: `make()` gives a worker its `Rollouts`; what Ray can send, best a partial of
        an importable function.
      count: of workers.
      run: name of the run; a trainer that starts again with it finds its workers, and
        takes them: no two trainers may run at a time under one name.
      cpus: that Ray reserves for each; a fraction lets them share.
      judge: `judge()` gives the `judge.Judge` that scores and runs tools for all of
        them, in a process of its own, which is started again when it dies; None: each
        worker does it itself.
    Raises:
      RunStopped: no cluster is there, or it is another's.
    """

    def __init__(self, make, count: int, run: str, cpus: float = 1.0, judge=None):
        import ray
        import ray.exceptions

        self.ray, self.errors = ray, ray.exceptions
        self.gone = self.errors.RayActorError, self.errors.ObjectLostError
        self.make, self.count, self.run, self.cpus = make, count, run, cpus
        try:
            ray.init("auto", namespace=run, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError) as error:
            raise RunStopped(
                f"There is no Ray cluster to join ({error}). Start one with `ray start"
                " --head`, then run the same command again."
            ) from None
        self.life = ray.get_runtime_context().get_job_id()
        self.head = ray.get_runtime_context().gcs_address
        self.actors: dict[int, Any] = {}
        self.starts: dict[int, int] = {}  # how often each was started before
        self.starting: dict[int, tuple] = {}  # those that are not up yet, since when
        self._published: tuple | None = None
        self._looked = 0.0
        self.judge = self._judge(judge) if judge else None
        self._attach()

    def _judge(self, make):
        """The judge that an earlier trainer left, or a new one."""
        kind = self.ray.remote(_JudgeActor).options(
            name=JUDGE,
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=AT_ONCE,
            num_cpus=0,
        )
        return kind.remote(make)

    def _attach(self):
        """Takes over workers that an earlier trainer left, and starts the others."""
        self.attached = 0
        for name in sorted(self.ray.util.list_named_actors()):
            if (found := WORKER.fullmatch(name)) is None:
                continue  # the judge, or what somebody else named
            number, start = map(int, found.groups())
            self.starts[number] = max(start, self.starts.get(number, 0))
            if (actor := self._living(name)) is None:
                continue
            if number < self.count and number not in self.actors:
                self.actors[number] = actor
                self.attached += 1
            else:
                self.ray.kill(actor)
        for number in range(self.count):
            if number not in self.actors:
                self._start(number)

    def _living(self, name):
        """The worker of that name, if it answers; one that hangs is ended."""
        try:
            actor = self.ray.get_actor(name)
        except ValueError:  # it died since its name was listed
            return None
        try:
            self.ray.get(actor.pid.remote(), timeout=BUSY)
            return actor
        except (*self.gone, self.errors.GetTimeoutError):
            self.ray.kill(actor)
            return None

    def _start(self, number):
        self.starts[number] = start = self.starts.get(number, -1) + 1
        options = {"num_cpus": self.cpus, "max_restarts": 0, "lifetime": "detached"}
        kind = self.ray.remote(_Actor).options(
            name=f"worker-{number}-{start}", **options
        )
        self.actors[number] = actor = kind.remote(self.make, self.judge)
        self.starting[number] = actor.pid.remote(), time.monotonic()

    def workers(self) -> list[int]:
        """The numbers of all workers that are up; a dead one shows when it is asked."""
        for number, (reference, since) in list(self.starting.items()):
            over = time.monotonic() - since > READY
            if over or self.ray.wait([reference], timeout=0)[0]:
                del self.starting[number]
        return sorted(set(self.actors) - set(self.starting))

    def publish(self, version: int, arrays: dict) -> None:
        """Puts weights into the object store; those before may go once nobody reads.

        Ray writes to its disk what does not fit into memory.

        Raises:
          RunStopped: they fit into neither.
        """
        try:
            reference = self.ray.put(arrays)
        except (self.errors.ObjectStoreFullError, self.errors.OutOfDiskError):
            size = sum(x.nbytes for x in arrays.values()) / 1e6
            raise RunStopped(
                f"{size:.1f} MB of weights fit neither into Ray's object store nor on"
                " its disk. Make room in its --temp-dir, or start it with a larger"
                " --object-store-memory; then run the same command again."
            ) from None
        self._published = self.life, version, [reference]

    def ask(self, worker: int, ticket: dict):
        """Has a worker begin an answer; the reference to what it will be."""
        return self.actors[worker].answer_with.remote(self._published, ticket)

    def finished(self, handles: list, seconds: float) -> list:
        """Those that are done, or failed; see `crew.Crew`."""
        if not handles:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait(handles, num_returns=1, timeout=seconds)
        more, _ = self.ray.wait(handles, num_returns=len(handles), timeout=0)
        return more or done

    def result(self, handle):
        """What a finished handle holds; WorkerLost if that is nothing."""
        try:
            return self.ray.get(handle, timeout=READY)
        except self.gone:
            raise WorkerLost("its process is gone") from None
        except self.errors.RayError as error:
            cause = getattr(error, "cause", None) or error
            line = str(cause).strip().splitlines()[-1]
            raise WorkerLost(f"{type(cause).__name__}: {line}") from None

    def replace(self, worker: int) -> None:
        """Ends a worker, in whatever state it is, and starts another in its place.

        Raises:
          RunStopped: the head is gone, perhaps with the worker.
        """
        self._require_head()
        self.ray.kill(self.actors[worker])
        self._start(worker)

    def end(self) -> None:
        """Ends all workers, and the judge."""
        for actor in [*self.actors.values(), *([self.judge] if self.judge else [])]:
            self.ray.kill(actor)

    def require_running(self) -> None:
        """RunStopped if the head of the cluster is gone; asks it once in a while."""
        if time.monotonic() - self._looked >= CHECKED:
            self._looked = time.monotonic()
            self._require_head()

    def _require_head(self):
        """The head answers. Calls to one that is gone hang, and end this process."""
        host, port = self.head.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=10.0).close()
        except OSError as error:
            raise RunStopped(
                f"The head of the Ray cluster at {self.head} is gone ({error}). What is"
                " trained is saved: start the head again, then the same command."
            ) from None
