"""Rollout workers: what they do, how weights reach them, and workers as Ray actors.

`ray start --head` on one machine and `ray start --address=…` on others make a cluster.
`RayWorkerPool` joins it and never starts one. Its actors belong to the trainer's
process: Ray ends them with it. Ray needs the extra `scale`; the rest does not.
"""

import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.generation.rollouts import Rollouts
from helpers.training.state import trained

READY = 300.0  # seconds that a worker may take to start and to load its model
CHECK = 1.0  # seconds between two checks of the cluster's head


class WorkerLost(RuntimeError):
    """A worker is gone, or answered with an error; its piece is asked again."""


class RunStopped(RuntimeError):
    """The run cannot go on; what was trained is saved."""


class Piece(NamedTuple):
    """A batch that a worker sampled.

    batch: arrays by name, see `generation.Rollouts`. metrics, samples: of the Rollouts.
    version: of the weights that sampled. seconds: that it took.
    """

    batch: dict[str, np.ndarray]
    metrics: dict[str, float]
    samples: list[dict]
    version: int
    seconds: float


def read_weights(model: nnx.Module, wrt=None) -> dict[str, np.ndarray]:
    """All trained variables by name, on the host; waits for an update to end.

    Args:
      wrt: which are trained, as for the `Trainer`.
    """
    flat = nnx.to_flat_state(nnx.state(model, trained(model, wrt)))
    return {_name(path): np.asarray(jax.device_get(x[...])) for path, x in flat}


def write_weights(model: nnx.Module, arrays: dict[str, np.ndarray]) -> None:
    """Gives a model the trained variables of another.

    Args:
      model: of the same architecture; variables without an array stay as they are.
      arrays: from `read_weights`.
    Raises:
      ValueError: names, shapes or dtypes are another model's.
    """
    state = nnx.state(model, lambda path, _: _name(path) in arrays)
    flat = list(nnx.to_flat_state(state))
    here = {_name(path): (x.shape, jnp.dtype(x.dtype)) for path, x in flat}
    sent = {name: (x.shape, x.dtype) for name, x in arrays.items()}
    if here != sent:
        odd = next(n for n in sent if here.get(n) != sent[n])
        raise ValueError(
            f"The published weights are another model's: {odd} is {sent[odd]}, here"
            f" {here.get(odd)}. Trainer and workers must load the same folder, with the"
            " same adapters."
        )
    for path, x in flat:
        # Its sharding stays: the sampling program is compiled for it.
        x[...] = jax.device_put(arrays[_name(path)], x[...].sharding)
    nnx.update(model, nnx.from_flat_state(flat))


def _name(path) -> str:
    return ".".join(map(str, path))


class Worker:
    """Samples and scores requested groups with the newest weights it was given.

    Args:
      make: `make()` gives the same `Rollouts` that the trainer's process has, with a
        model of its own.
    """

    def __init__(self, make: Callable[[], Rollouts]):
        self.rollouts = make()
        self.rollouts.patience = sys.maxsize  # the trainer counts tied batches
        self.version: int | None = None

    def load(self, version: int, arrays: dict) -> None:
        """Takes weights from `read_weights`."""
        write_weights(self.rollouts.model, arrays)
        self.version = version

    def answer(self, request: dict) -> Piece:
        """Samples and scores the groups of a request, from `source.draw_request`.

        Raises:
          ValueError: the request is that of another run.
        """
        assert self.version is not None, "a worker needs weights first: call load()"
        start = time.monotonic()
        self.rollouts.set_state(request)
        batch = next(self.rollouts)
        metrics, samples = dict(self.rollouts.metrics), list(self.rollouts.samples)
        return Piece(batch, metrics, samples, self.version, time.monotonic() - start)


class _WorkerActor(Worker):
    """A worker that pulls published weights when it does not have them."""

    def ready(self):
        """Returns once the model is loaded."""

    def answer_with(self, version, weights, request):
        """Answers with weights of a version: [the reference to their arrays]."""
        import ray

        if version != self.version:
            self.load(version, ray.get(weights[0]))
        return self.answer(request)


class RayWorkerPool:
    """Workers as Ray actors, each a process with a model of its own.

    `FromWorkers` takes any pool with these methods.

    Args:
      make: `make()` gives a worker its `Rollouts`; Ray has to be able to send it, so
        best a partial of an importable function.
      count: of workers.
      cpus: that Ray reserves for each; a fraction lets them share.
    Raises:
      RunStopped: no cluster is there.
    """

    def __init__(self, make, count: int, cpus: float = 1.0):
        import ray
        import ray.exceptions

        self.ray, self.errors = ray, ray.exceptions
        self.make, self.cpus = make, cpus
        try:
            ray.init("auto", log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError) as error:
            raise RunStopped(
                f"There is no Ray cluster to join ({error}). Start one with `ray start"
                " --head`, then run the same command again."
            ) from None
        self.head = ray.get_runtime_context().gcs_address
        self.actors: dict[int, Any] = {}
        self.starting: dict[int, tuple] = {}  # those that are not up yet, since when
        self._published: Any = None  # version and weights
        self._checked = 0.0
        for number in range(count):
            self._start(number)

    def _start(self, number):
        kind = self.ray.remote(_WorkerActor).options(num_cpus=self.cpus)
        self.actors[number] = actor = kind.remote(self.make)
        self.starting[number] = actor.ready.remote(), time.monotonic()

    def workers(self) -> list[int]:
        """The numbers of all workers that are up; a dead one shows when it is used."""
        for number, (reference, since) in list(self.starting.items()):
            over = time.monotonic() - since > READY
            if over or self.ray.wait([reference], timeout=0)[0]:
                del self.starting[number]
        return sorted(set(self.actors) - set(self.starting))

    def publish(self, version: int, arrays: dict) -> None:
        """Puts weights into the object store; older ones go once nobody reads them.

        Raises:
          RunStopped: they fit neither into memory nor on Ray's disk.
        """
        try:
            reference = self.ray.put(arrays)
        except (self.errors.ObjectStoreFullError, self.errors.OutOfDiskError) as error:
            raise RunStopped(
                f"The weights fit neither into Ray's memory nor on its disk ({error})."
                " Make room in its --temp-dir; then run the same command again."
            ) from None
        self._published = version, [reference]

    def submit(self, worker: int, request: dict):
        """Has a worker begin a piece; returns a reference to what it will be."""
        return self.actors[worker].answer_with.remote(*self._published, request)

    def finished(self, handles: list, seconds: float) -> list:
        """Those of the handles that are done, or failed, within some seconds."""
        if not handles:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait(handles, num_returns=1, timeout=seconds)
        more, _ = self.ray.wait(handles, num_returns=len(handles), timeout=0)
        return more or done

    def result(self, handle) -> Piece:
        """The piece of a finished handle; WorkerLost if there is none."""
        try:
            return self.ray.get(handle, timeout=READY)
        except (self.errors.RayActorError, self.errors.ObjectLostError):
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

    def require_running(self) -> None:
        """RunStopped if the head of the cluster is gone; checks it once a second."""
        if time.monotonic() - self._checked >= CHECK:
            self._checked = time.monotonic()
            self._require_head()

    def _require_head(self):
        """The head answers. Ray's own calls to one that is gone hang."""
        host, port = self.head.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=10.0).close()
        except OSError as error:
            raise RunStopped(
                f"The head of the Ray cluster at {self.head} is gone ({error}). What is"
                " trained is saved: start the head again, then the same command."
            ) from None
