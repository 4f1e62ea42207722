"""One trainer for SFT, RL and distillation.

A lesson is a batch source (where the batch comes from) and an objective (which loss);
this file is the rest: it spreads the model and the batch over the devices, updates,
logs, writes checkpoints and resumes. It knows nothing of where batches come from.

With several processes (`helpers.runtime.processes`), each runs this same code on its
share of the data; process 0 writes the log and what stands beside the arrays of a
checkpoint.
"""

import contextlib
import math
import time

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from helpers.runtime import processes
from helpers.runtime.jit import jit
from helpers.runtime.mesh import make_mesh
from helpers.runtime.run_identity import describe
from helpers.runtime.sharding import place, place_batch, shardings, using
from helpers.training.checkpoints import Checkpoints
from helpers.training.metrics_log import MetricsLog, Progress
from helpers.training.optimizers import Optimizer
from helpers.training.update import as_float32, build_update


class TrainingDiverged(RuntimeError):
    """The loss or the gradient stopped being a finite number."""


class Trainer:
    """Trains a model on batches; with a folder it can be killed and run again.

    Args:
      model: the nnx module to train; it holds the new weights after every step.
      objective: `objective(model, batch, *frozen) -> (loss, metrics)`; the loss is a
        mean and `metrics["weight"]` the number it was divided by.
      optimizer: from `helpers.training.optimizers`.
      frozen: modules the objective needs and that stay as they are, e.g. a teacher.
      folder: where checkpoints and logs go; None writes no file.
      fresh: start again in a folder that holds a run, which is moved aside into
        `earlier-1` there; take it away again, or a killed run starts again as well.
      mesh: devices to use, axes ("data", "model"); None takes all there are.
      save_every: steps between checkpoints; 0 writes one at the end only.
      minibatches: optimizer updates per batch.
      accumulate: pieces each update is computed in, to save memory; the update is
        that of the whole. None: one, but on a lone CPU as many as keep its caches warm.
      log: False prints no progress line.
      wrt: which variables are trained, as an nnx filter; all others stay fixed.
    """

    def __init__(
        self,
        model: nnx.Module,
        objective,
        optimizer: Optimizer,
        *,
        frozen=(),
        folder=None,
        fresh: bool = False,
        mesh: Mesh | None = None,
        save_every: int = 0,
        minibatches: int = 1,
        accumulate: int | None = None,
        log: bool = True,
        wrt=nnx.Param,
    ):
        if any(module is model for module in frozen):
            raise ValueError(
                "frozen holds the model itself, which training changes. Pass"
                " nnx.clone(model) to keep it as it is now."
            )
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.frozen, self.wrt = tuple(frozen), wrt
        self.mesh = make_mesh() if mesh is None else mesh
        self.save_every = save_every
        self.minibatches, self.accumulate = minibatches, accumulate
        self.checkpoints = None if folder is None else Checkpoints(folder)
        self.fresh = fresh
        self.progress = Progress(log and processes.is_first())
        self.step, self.log, self.unlogged, self.run = 0, None, [], {}
        self.torn = False  # stopped between an update and noting that it was made

    def fit(self, batches, steps: int) -> list[dict]:
        """Trains until `steps` steps are done in all, or the batches end.

        A folder that holds a checkpoint is resumed: the same command after a kill
        ends with the same numbers, and after the end returns the stored table.

        Args:
          batches: a batch source: `next(batches)` gives a dict of arrays,
            `get_state()` and `set_state()` its position, `metrics` and `samples`
            what it says about the last batch. Each process has its own; metrics are
            averaged over them, samples are those of process 0.
          steps: total number of steps, those before a resume included.

        Returns:
          The table of metrics, one dict per step.

        Raises:
          TrainingDiverged: a loss or gradient is not finite.
          ValueError: more than `steps` steps are done already, or batches of another
            run would be gone on with.
          helpers.training.checkpoints.CheckpointError: full disk, damaged or foreign
          folder,
            or another process training in it.
        """
        if self.torn:
            raise ValueError(
                "The last fit was interrupted in the middle of an update. Load the"
                " model again and make a new Trainer; it goes on from the last"
                f" checkpoint: {self._last_checkpoint()}."
            )
        with (
            self.checkpoints.locked() if self.checkpoints else contextlib.nullcontext()
        ):
            self._place()
            if self.log is None:
                self._compile()
                self._resume(batches)
            if self.step > steps:
                raise ValueError(
                    f"{self.step} steps are done, more than steps={steps}. Pass at"
                    f" least {self.step}, or train a new model from the start, in"
                    " another folder or with fresh=True."
                )
            self._train(batches, steps)
        return self.log.rows

    def _train(self, batches, steps):
        self.progress.start(self.step, steps)
        self.clock, saved = (time.monotonic(), time.process_time()), self.step
        while self.step < steps:
            before = batches.get_state() if self.checkpoints else None
            try:
                batch, described = processes.next_of_all(batches)
                if batch is None:
                    break
                rate = self.optimizer.learning_rate(self.step)
                batch = place_batch(batch, self.mesh, self.minibatches, self.accumulate)
                with using(self.params):
                    updated = self.update(
                        *(self.params, self.opt_state, self.fixed, self.teachers),
                        *(batch, rate),
                    )
            except BaseException:  # Ctrl-C, too: the next fit draws this batch again
                if before is not None:
                    batches.set_state(before)
                raise
            self.torn = True
            self.params, self.opt_state, metrics = updated
            nnx.update(self.model, self.params)
            self.step += 1
            row = {"step": self.step, "learning_rate": rate, **described}
            self.unlogged.append((row, metrics, list(batches.samples)))
            self.torn = False
            # While the devices work on this step, the host logs the one before.
            self._log_steps(leave=1)
            if self.save_every and self.step % self.save_every == 0:
                self._log_steps(leave=0)
                self._save(batches)
                saved = self.step
        self._log_steps(leave=0)
        if self.step > saved:
            self._save(batches)

    def _log_steps(self, leave: int):
        """Waits for the numbers of all steps but the last `leave`, and logs them."""
        while len(self.unlogged) > leave:
            row, metrics, samples = self.unlogged[0]
            if self.log.rows and self.log.rows[-1] is row:
                self.unlogged.pop(0)  # it was logged, and then came Ctrl-C
                continue
            row |= {name: float(x) for name, x in jax.device_get(metrics).items()}
            for name in ("loss", "grad_norm"):
                if not math.isfinite(row[name]):
                    self.unlogged.clear()
                    raise TrainingDiverged(
                        f"Step {row['step']}: {name} is {row[name]}, so its update was"
                        " left out. Lower the learning rate, or look at what this batch"
                        f" holds. Last good checkpoint: {self._last_checkpoint()}."
                    )
            total = self.log.rows[-1]["tokens_total"] if self.log.rows else 0.0
            row["tokens_total"] = total + row["tokens"]
            now = time.monotonic(), time.process_time()
            row["seconds"], row["cpu_seconds"] = (
                end - begin for end, begin in zip(now, self.clock, strict=True)
            )
            self.clock = now
            row["tokens_per_second"] = row["tokens"] / row["seconds"]
            self.log.write(row, samples)
            self.progress.update(row)
            self.unlogged.pop(0)

    def _place(self):
        """Spreads the model and the frozen modules over the mesh."""
        self.graph, params, fixed = nnx.split(self.model, self.wrt, ...)
        # An update overwrites its inputs; a copy spares arrays that others still hold.
        self.params = place(jax.tree.map(jnp.copy, params), self.mesh)
        self.fixed = place(fixed, self.mesh)
        nnx.update(self.model, self.params, self.fixed)
        self.teachers = [place(nnx.state(module), self.mesh) for module in self.frozen]
        for module, state in zip(self.frozen, self.teachers, strict=True):
            nnx.update(module, state)

    def _compile(self):
        """Makes the first optimizer state, and the update that XLA will compile."""

        def init(params):
            return self.optimizer.transform.init(as_float32(params))

        layout = shardings(jax.eval_shape(init, self.params), self.mesh)
        self.opt_state = jax.jit(init, out_shardings=layout)(self.params)
        graphs = [nnx.graphdef(module) for module in self.frozen]
        update = build_update(
            self.objective, self.optimizer.transform, self.graph, graphs
        )
        self.update = jit(
            update,
            donate_argnums=(0, 1),
            out_shardings=(shardings(self.params, self.mesh), layout, None),
        )

    def _resume(self, batches):
        folder, position = None, {}
        if self.checkpoints:
            folder = self.checkpoints.run
            if self.fresh:
                self.checkpoints.set_aside()
            # What the run is: looked at before it changes its model and its data.
            self.run = self._identity()
            batches.get_state()
            found = self.checkpoints.restore(self.named_arrays(), self.run)
            if found is not None:
                arrays, record = found
                processes.resume(batches, record["batches"])
                self._set_arrays(arrays)  # last: who is refused keeps the model as is
                self.step, position = record["step"], record["log"]
        writes = folder if processes.is_first() else None
        self.log = MetricsLog(writes, position, self.step)
        self.log.rows = processes.gather(self.log.rows)[0]

    def _save(self, batches):
        if self.checkpoints:
            record = {
                "run": self.run,
                "batches": processes.gather(batches.get_state()),
                "log": self.log.position(),
            }
            self.checkpoints.save(self.step, self.named_arrays(), record)

    def named_arrays(self) -> dict[str, jax.Array]:
        """Everything an update changes, parameters and optimizer state, by name."""
        state = {"params": self.params, "optimizer": self.opt_state}
        leaves, _ = jax.tree_util.tree_flatten_with_path(state)
        return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}

    def _set_arrays(self, arrays):
        state = {"params": self.params, "optimizer": self.opt_state}
        state = jax.tree_util.tree_map_with_path(
            lambda path, _: arrays[jax.tree_util.keystr(path)], state
        )
        self.params, self.opt_state = state["params"], state["optimizer"]
        nnx.update(self.model, self.params)

    def _identity(self) -> dict:
        """What must be the same for a folder to be resumed, item by item."""
        frozen = {f"frozen {i}": describe(x) for i, x in enumerate(self.frozen)}
        model = describe(self.model)
        weights = model.pop("weights")
        return {
            "model": model,
            **{name: f"{x.dtype}{x.shape}" for name, x in self.named_arrays().items()},
            "starting weights": weights,
            **frozen,
            "objective": describe(self.objective),
            "optimizer": self.optimizer.settings,
            "learning rate": describe(self.optimizer.learning_rate),
            "number of minibatches": self.minibatches,
        }

    def _last_checkpoint(self) -> str:
        return self.checkpoints.newest() if self.checkpoints else "none (no folder)"
