"""Steps on their way into the log: what the devices are still computing joins later."""

import time
from collections.abc import Callable, Iterator

import jax
from flax import nnx

from helpers.runtime import processes
from helpers.training.errors import require_finite, require_something_to_learn
from helpers.training.metrics_log import MetricsLog, Progress


class StepLog:
    """Completes the rows of steps, one after the other, and hands them to the log.

    Args:
      log: where they go.
      progress: the line that is shown.
      evaluation: () -> dict of numbers that join the row of a step, or None.
      evaluate_every: steps between two calls.
      patience: rows without any token that counts, before that is an error.
      last_checkpoint: () -> the newest one in words, for messages.
    """

    def __init__(
        self,
        log: MetricsLog,
        progress: Progress,
        *,
        evaluation: Callable[[], dict] | None,
        evaluate_every: int,
        patience: int,
        last_checkpoint: Callable[[], str],
    ):
        self.log, self.progress = log, progress
        self.evaluation, self.evaluate_every = evaluation, evaluate_every
        self.patience, self.last_checkpoint = patience, last_checkpoint
        self.waiting: list[tuple] = []

    def start(self) -> None:
        """Begins to measure the time of the next step."""
        self.clock = time.monotonic(), time.process_time()

    def add(self, row: dict, metrics: dict[str, jax.Array], samples: list) -> None:
        """Takes a step whose metrics the devices may still be computing."""
        self.waiting.append((row, metrics, list(samples)))

    def finished(self, leave: int) -> Iterator[dict]:
        """Waits for the numbers of all steps but the last `leave`, and logs them.

        A step to evaluate after must be the newest one: see `evaluates`.

        Raises:
          TrainingDiverged, NothingToLearn: see `helpers.training.errors`.
        """
        while len(self.waiting) > leave:
            row, metrics, samples = self.waiting[0]
            if not (self.log.rows and self.log.rows[-1] is row):  # as after a Ctrl-C
                row |= {name: float(x) for name, x in jax.device_get(metrics).items()}
                self._complete(row)
                self.log.write(row, samples)
            self.progress.update(row)
            self.waiting.pop(0)
            yield row
            require_something_to_learn(self.log.rows, self.patience)

    def evaluates(self, step: int) -> bool:
        """Whether the model is evaluated after this step."""
        return self.evaluation is not None and step % self.evaluate_every == 0

    def _complete(self, row):
        """Adds sums, times and evaluation to a row."""
        try:
            require_finite(row, self.last_checkpoint())
        except RuntimeError:
            self.waiting.clear()
            raise
        total = self.log.rows[-1]["tokens_total"] if self.log.rows else 0.0
        row["tokens_total"] = total + row["tokens"]
        now = time.monotonic(), time.process_time()
        row["seconds"], row["cpu_seconds"] = (
            end - begin for end, begin in zip(now, self.clock, strict=True)
        )
        row["tokens_per_second"] = row["tokens"] / row["seconds"]
        if self.evaluation and self.evaluates(row["step"]):
            row |= self.evaluation()
            row["eval/seconds"] = time.monotonic() - now[0]
        self.start()


def evaluation_of(evaluate, model: nnx.Module) -> Callable[[], dict] | None:
    """`evaluate(model)` in all processes together, as numbers by "eval/" and name.

    Raises:
      TypeError: (when called) it does not return a dict.
    """
    if evaluate is None:
        return None

    def evaluated():
        found = processes.together(lambda: evaluate(model))
        if not isinstance(found, dict):
            raise TypeError(
                f"evaluate returned a {type(found).__name__}; it must return a dict of"
                " numbers, such as {'accuracy': report.greedy}."
            )
        numbers = {f"eval/{name}": float(x) for name, x in found.items()}
        return processes.averaged(processes.gather(numbers))

    return evaluated
