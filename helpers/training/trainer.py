"""One trainer for SFT, RL and distillation.

A lesson is a batch source (where batches come from) and an objective (which loss). This
file is the rest: it spreads the model and the batch over the devices, updates,
evaluates, logs, writes checkpoints and resumes.

With several processes (`helpers.runtime.distributed`), each runs this same code on its
share of the data. Process 0 writes the log and the record of a checkpoint.
"""

import contextlib
import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh

from helpers.batches.sources import BatchSource, require_fitting, require_readable
from helpers.runtime import distributed
from helpers.runtime.run_identity import describe_run
from helpers.runtime.sharding import make_mesh, place_batch
from helpers.training.checkpoints import Checkpoints
from helpers.training.logging import Callback, Logger, MetricsLog, Progress
from helpers.training.optimizers import Optimizer
from helpers.training.state import (
    NOTHING_LEARNED,
    NothingToLearn,
    TrainingState,
    nothing_learned,
    require_finite,
    require_finite_weights,
    require_same_policy,
)
from helpers.training.update import Objective

PATIENCE = 5  # batches in a row without any token that counts, before an error


@dataclasses.dataclass(eq=False, repr=False)
class Trainer:
    """Trains a model on batches; with a folder it can be killed and run again.

    The model says how it computes: its dtypes when it is loaded
    (`weights.load(folder, dtype=…, activations=…)`), and what the backward pass
    recomputes to save memory by `model.remat = "layer"`, "attention", "cheap" or
    "none". Parameters of 16 bits are trained without losing small moves to rounding
    (`optimizers.Compensated`); float32 with `activations="bfloat16"` learns as much in
    less memory.

    Args:
      model: the nnx module to train; it holds the new weights after every step.
      objective: one of `helpers.training.objectives`, or any function that is a
        `contracts.Objective`.
      optimizer: from `helpers.training.optimizers`, or any Optax transformation, whose
        own schedule then counts updates: `minibatches` of them in a step.
      frozen: modules the objective needs and that stay as they are, e.g. a teacher.
      wrt: which variables are trained, as an nnx filter; all others stay fixed. None:
        the adapters of a model that has any, else all its float parameters.
      mesh: devices to use, axes ("data", "model"); None takes all there are.
      minibatches: optimizer updates per batch.
      accumulate: gradient accumulation: pieces each update is computed in, to save
        memory; the update is that of the whole. None: one, but on a lone CPU as many
        as keep its caches warm.
      folder: where checkpoints and logs go; None writes no file.
      fresh: start again in a folder that holds a run, which is moved aside into
        `earlier-1` there; take it away again, or a killed run starts again as well.
      save_every: steps between checkpoints; 0 writes one at the end only.
      evaluate: `evaluate(model) -> dict` of numbers, which join the row of their step
        as "eval/…"; in every process. A resumed run keeps the numbers of its rows.
      evaluate_every: steps between evaluations; 0: never.
      log: False prints no progress line.
      loggers: where rows go, besides the files in the folder.
      callbacks: called after every step.
    """

    model: nnx.Module
    objective: Objective
    optimizer: Any
    _: dataclasses.KW_ONLY
    frozen: Sequence[nnx.Module] = ()
    wrt: Any = None
    mesh: Mesh | None = None
    minibatches: int = 1
    accumulate: int | None = None
    folder: str | os.PathLike | None = None
    fresh: bool = False
    save_every: int = 0
    evaluate: Callable[[nnx.Module], dict] | None = None
    evaluate_every: int = 0
    log: dataclasses.InitVar[bool] = True
    loggers: Sequence[Logger] = ()
    callbacks: Sequence[Callback] = ()

    def __post_init__(self, log):
        if any(module is self.model for module in self.frozen):
            raise ValueError(
                "frozen holds the model itself. Pass nnx.clone(model), a copy of it."
            )
        if (self.evaluate is None) != (self.evaluate_every == 0):
            raise ValueError("Pass both evaluate and evaluate_every, or neither.")
        if not isinstance(self.optimizer, Optimizer):
            self.optimizer = Optimizer(self.optimizer, None)
        mesh = make_mesh() if self.mesh is None else self.mesh
        self.state = TrainingState(self.model, self.frozen, self.wrt, mesh)
        self.checkpoints: Checkpoints | None = None
        if self.folder is not None:
            self.checkpoints = Checkpoints(self.folder)
        self.progress = Progress(log and distributed.is_first())
        self.metrics = MetricsLog(None, {}, 0)
        self.step, self.saved, self.resumed = 0, 0, False
        self.run: dict = {}  # what must be the same to resume
        self.waiting: list[tuple] = []  # steps that are not logged yet
        # Whether an update was interrupted, whose arrays were already overwritten.
        self.interrupted = False

    def fit(self, batches: BatchSource, steps: int) -> list[dict]:
        """Trains until `steps` steps are done in all, or the batches end.

        A folder that holds a checkpoint is resumed: the same command after a kill
        ends with the same numbers, and after the end returns the stored table.

        Args:
          batches: where they come from. Each process has its own source; metrics are
            averaged over them, samples are those of process 0.
          steps: total number of steps, those before a resume included.

        Returns:
          The table of metrics, one dict per step.

        Raises:
          helpers.training.state.TrainingDiverged: a loss, a gradient, a rate or the
            weights are not finite.
          helpers.training.state.NothingToLearn: no token counted for a long time.
          helpers.runtime.ranges.TextTooLong: texts are longer than those that the
            model, or a frozen one, was made for.
          ValueError: more than `steps` steps are done already, batches of another run
            would be gone on with, or rollouts are another model's.
          helpers.training.checkpoints.CheckpointError: full disk, damaged or foreign
            folder, or another process training in it.
          OSError: nothing can be written to the folder.
        """
        if self.interrupted:
            raise ValueError(
                "The last fit was interrupted in the middle of an update. Load the"
                " model again and make a new Trainer; it goes on from"
                f" {self._last_checkpoint()}."
            )
        require_same_policy(self.model, self.objective, batches)
        require_fitting((self.model, *self.state.frozen), batches)
        batches.send(self.state.wrt)
        lock = self.checkpoints.locked if self.checkpoints else contextlib.nullcontext
        with lock():
            self.state.place()
            if not self.resumed:
                self.state.compile(self.objective, self.optimizer.transform)
                self._resume(batches)
                self.resumed = True
            if self.step > steps:
                raise ValueError(
                    f"{self.step} steps are done, more than steps={steps}. Pass more,"
                    " or fresh=True to start again."
                )
            self._train(batches, steps)
        return self.metrics.rows

    def named_arrays(self) -> dict[str, jax.Array]:
        """Everything an update changes, parameters and optimizer state, by name."""
        return self.state.named_arrays()

    def _train(self, batches: BatchSource, steps: int):
        self.progress.start(self.step, steps)
        self.clock = time.monotonic(), time.process_time()
        self._log_steps(leave=0)  # those of a fit that was interrupted
        while self.step < steps and self._update(batches):
            saves = _is_due(self.step, self.save_every)
            # While the devices work on this step, the host logs the one before, unless
            # the model of this step is needed now.
            wanted = saves or self.callbacks or _is_due(self.step, self.evaluate_every)
            self._log_steps(leave=0 if wanted else 1)
            if saves:
                self._save(batches)
        self._log_steps(leave=0)
        if nothing_learned(self.metrics.rows):
            warnings.warn(NOTHING_LEARNED, stacklevel=3)
        if self.step > self.saved:
            self._save(batches)

    def _update(self, batches: BatchSource) -> bool:
        """One step; False if the batches have ended."""
        before = batches.get_state() if self.checkpoints else None
        try:
            batch, described = distributed.next_of_all(batches)
            if batch is None:
                return False
            require_readable(getattr(self.model, "config", None), batch)
            shown = {}
            if self.optimizer.learning_rate:
                shown["learning_rate"] = float(self.optimizer.learning_rate(self.step))
            require_finite({"step": self.step + 1} | shown, self._last_checkpoint())
            cuts = self.minibatches, self.accumulate
            batch = place_batch(batch, self.state.mesh, *cuts)
            updated = self.state.updated(batch, shown.get("learning_rate", 1.0))
        except BaseException:  # also Ctrl-C: the next fit draws this batch again
            # An update that has begun has donated its arrays.
            given = jax.tree.leaves((self.state.params, self.state.opt_state))
            self.interrupted = any(x.is_deleted() for x in given)
            if before is not None:
                batches.set_state(before)
            raise
        self.interrupted = True
        *state, metrics = updated
        self.state.adopt(*state)
        self.step += 1
        row = {"step": self.step, **shown, **described}
        self.waiting.append((row, metrics, list(batches.samples)))
        self.interrupted = False
        return True

    def _log_steps(self, leave: int):
        """Waits for the numbers of all steps but the last `leave`, and logs them."""
        rows = self.metrics.rows
        while len(self.waiting) > leave:
            row, metrics, samples = self.waiting[0]
            if not (rows and rows[-1] is row):  # it is after a Ctrl-C
                self._complete(row, metrics)
                self.metrics.write(row, samples)
            self.progress.update(row)
            self.waiting.pop(0)
            for callback in self.callbacks:
                callback.on_step(self, row)
            if len(rows) >= PATIENCE and nothing_learned(rows[-PATIENCE:]):
                why = f"In {PATIENCE} batches in a row: {NOTHING_LEARNED}"
                raise NothingToLearn(why)

    def _complete(self, row: dict, metrics: dict[str, jax.Array]):
        """Adds numbers from the devices, sums, times and evaluation to a step's row."""
        row |= {name: float(x) for name, x in jax.device_get(metrics).items()}
        try:
            require_finite(row, self._last_checkpoint())
        except RuntimeError:
            self.waiting.clear()
            raise
        now, cpu_now = time.monotonic(), time.process_time()
        total = sum(row["tokens_total"] for row in self.metrics.rows[-1:])
        row["tokens_total"] = total + row["tokens"]
        row["seconds"] = now - self.clock[0]
        row["cpu_seconds"] = cpu_now - self.clock[1]
        row["tokens_per_second"] = row["tokens"] / row["seconds"]
        evaluate = self.evaluate
        if evaluate and _is_due(row["step"], self.evaluate_every):
            result = distributed.together(lambda: dict(evaluate(self.model)))
            numbers = {f"eval/{name}": float(x) for name, x in result.items()}
            row |= distributed.averaged(distributed.gather(numbers))
            row["eval/seconds"] = time.monotonic() - now
        self.clock = time.monotonic(), time.process_time()

    def _resume(self, batches: BatchSource):
        """Goes on from the newest checkpoint and its log, if there is one."""
        position: dict = {}
        if self.checkpoints:
            if self.fresh:
                distributed.on_first(self.checkpoints.set_aside)
            # Described before training changes the model and the data.
            settings = self.objective, self.optimizer, self.minibatches
            self.run = describe_run(self.state, *settings)
            batches.get_state()
            arrays, record = self.checkpoints.restore(self.named_arrays(), self.run)
            if record:
                distributed.resume(batches, record["batches"])
                self.state.restore(arrays)  # last, after everything that may refuse
                self.step, position = record["step"], record["log"]
        self.saved = self.step
        writes = distributed.is_first()
        folder = self.checkpoints.run if self.checkpoints and writes else None
        loggers = self.loggers if writes else ()
        self.metrics = MetricsLog(folder, position, self.step, loggers)
        self.metrics.rows = distributed.gather(self.metrics.rows)[0]

    def _save(self, batches: BatchSource):
        """Writes a checkpoint, if there is a folder; weights have to be numbers."""
        require_finite_weights(self.state.params, self.step, self._last_checkpoint())
        if self.checkpoints:
            record = {
                "run": self.run,
                "batches": distributed.gather(batches.get_state()),
                "log": self.metrics.position(),
            }
            self.checkpoints.save(self.step, self.named_arrays(), record)
            self.saved = self.step

    def _last_checkpoint(self) -> str:
        return self.checkpoints.newest() if self.checkpoints else "none (no folder)"


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
