"""Several processes that train one model, each on its share of the data.

Start the same script once per host, with `join()` as its first call of JAX
(https://docs.jax.dev/en/latest/multi_process.html). Every process then runs the same
program: it reads its own rows, the devices of all form one mesh, and process 0 writes
what is written once. The folder of a run must be on a disk that all of them see.

With one process, the usual case, these functions pass their arguments on.
"""

import json

import jax
import numpy as np
from jax.experimental import multihost_utils

SILENCE = 30  # seconds without a sign of life, after which a process counts as gone


class OtherProcessFailed(RuntimeError):
    """This process stops because another one cannot go on."""


def join(
    address: str | None = None, count: int | None = None, index: int | None = None
):
    """Makes this process one of several; on TPU hosts no argument is needed.

    When one of them is killed or hangs, JAX ends all others within a minute and names
    it on their standard error.

    Args:
      address: host:port of process 0.
      count: of processes.
      index: of this one.
    """
    jax.distributed.initialize(address, count, index, heartbeat_timeout_seconds=SILENCE)
    if jax.process_count() > 1 and jax.default_backend() == "cpu":
        # An update of distillation that was read from the cache of compiled programs
        # hung in its collectives (JAX 0.10.2); compiled anew it did not.
        jax.config.update("jax_enable_compilation_cache", False)


def share() -> tuple[int, int]:
    """(index, count): which process this is, of how many."""
    return jax.process_index(), jax.process_count()


def is_first() -> bool:
    """Whether this is the process that writes what is written once."""
    return jax.process_index() == 0


def gather(thing) -> list:
    """What every process passed, in the order of the processes.

    Args:
      thing: what JSON can represent; with one process it comes back as it is.
    """
    if jax.process_count() == 1:
        return [thing]
    text = np.frombuffer(json.dumps(thing).encode(), np.uint8)
    lengths = multihost_utils.process_allgather(np.int32(len(text)))
    # A power of two, so that few shapes are compiled.
    padded = np.zeros(1 << int(lengths.max() - 1).bit_length(), np.uint8)
    padded[: len(text)] = text
    texts = multihost_utils.process_allgather(padded)
    return [
        json.loads(row[:length].tobytes())
        for row, length in zip(texts, lengths, strict=True)
    ]


def together(work):
    """Runs work() in every process; if it fails in one, it fails in all.

    Otherwise the others would wait for that one forever.

    Raises:
      OtherProcessFailed: it failed in another process, which is named.
    """
    if jax.process_count() == 1:
        return work()
    result, failure = None, None
    try:
        result = work()
    except Exception as error:
        failure = error
    reports = gather(failure and f"{type(failure).__name__}: {failure}")
    if failure:
        raise failure
    for index, report in enumerate(reports):
        if report:
            raise OtherProcessFailed(f"Process {index} stopped with {report}")
    return result


def on_first(work):
    """Runs work() in process 0 while the others wait; if it fails, it fails in all."""
    return together(lambda: work() if is_first() else None)


def next_of_all(batches):
    """Every process's next batch, and the source's metrics averaged over processes.

    Returns:
      (batch, metrics); (None, {}) as soon as one process has no batch left.
    Raises:
      ValueError: in all processes, if their batches have other shapes, of which each
        would compute an update of its own.
    """
    batch = together(lambda: next(batches, None))
    shapes = batch and {name: [*getattr(x, "shape", ())] for name, x in batch.items()}
    if None in (everyones := gather(shapes)):
        return None, {}
    if any(each != everyones[0] for each in everyones):
        raise ValueError(
            f"The processes have batches of other shapes: {everyones}. Pass "
            "epochs=None, or as many rows to each."
        )
    metrics = {name: float(x) for name, x in batches.metrics.items()}
    return batch, averaged(gather(metrics))


def averaged(everyones: list[dict]) -> dict:
    """The metrics of all processes, by name, as their mean."""
    return {
        name: sum(metrics[name] for metrics in everyones) / len(everyones)
        for name in everyones[0]
    }


def resume(batches, states: list) -> None:
    """Continues a batch source from the states of all processes of the saved run.

    With as many processes as then, each takes its own state. Otherwise the source
    shares out what is left (`set_states`).
    """
    index, count = share()
    if len(states) == count:
        together(lambda: batches.set_state(states[index]))
    else:
        together(lambda: batches.set_states(states))


def whole(x) -> np.ndarray:
    """All numbers of an array, also where parts lie on devices of other processes."""
    if getattr(x, "is_fully_addressable", True):
        return np.asarray(jax.device_get(x))
    return multihost_utils.process_allgather(x, tiled=True)
