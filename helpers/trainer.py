"""One trainer for SFT, RL and distillation.

A lesson is a batch source (where the batch comes from) and an objective (which loss);
this file is the rest: it spreads the model and the batch over the devices, updates,
logs, writes checkpoints and resumes. It knows nothing of where batches come from.

It is written for one host with any number of devices.
"""

import contextlib
import math
import time

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh

from helpers.checkpoints import Checkpoints
from helpers.metrics_log import MetricsLog, Progress
from helpers.optimizers import Optimizer
from helpers.runtime import make_mesh
from helpers.sharding import place, place_batch, shardings


class TrainingDiverged(RuntimeError):
    """The loss or the gradient stopped being a finite number."""


class Trainer:
    """Trains a model on batches; with a folder it can be killed and run again.

    Args:
      model: the nnx module to train; it holds the new weights after every step.
      objective: `objective(model, batch, *frozen) -> (loss, metrics)`; the loss is a
        mean and `metrics["weight"]` the number it was divided by.
      optimizer: from `helpers.optimizers`.
      frozen: modules the objective needs and that stay as they are, e.g. a teacher.
      folder: where checkpoints and logs go; None writes no file.
      mesh: devices to use, axes ("data", "model"); None takes all there are.
      save_every: steps between checkpoints; 0 writes one at the end only.
      minibatches: optimizer updates per batch.
      accumulate: pieces each update is computed in, to save memory; the update is
        that of the whole.
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
        mesh: Mesh | None = None,
        save_every: int = 0,
        minibatches: int = 1,
        accumulate: int = 1,
        log: bool = True,
        wrt=nnx.Param,
    ):
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.frozen, self.wrt, self.show = tuple(frozen), wrt, log
        self.mesh = make_mesh() if mesh is None else mesh
        self.save_every = save_every
        self.minibatches, self.accumulate = minibatches, accumulate
        self.checkpoints = Checkpoints(folder) if folder is not None else None
        self.step, self.log, self.opt_state = 0, None, None

    def fit(self, batches, steps: int) -> list[dict]:
        """Trains until `steps` steps are done in all, or the batches end.

        A folder that holds a checkpoint is resumed: the same command after a kill
        ends with the same numbers, and after the end returns the stored table.

        Args:
          batches: a batch source: `next(batches)` gives a dict of arrays,
            `get_state()` and `set_state()` its position, `metrics` and `samples`
            what it says about the last batch.
          steps: total number of steps, those before a resume included.

        Returns:
          The table of metrics, one dict per step.

        Raises:
          TrainingDiverged: a loss or gradient is not finite.
          helpers.checkpoints.CheckpointError: full disk, damaged or foreign folder,
            or another process training in it.
        """
        with (
            self.checkpoints.locked() if self.checkpoints else contextlib.nullcontext()
        ):
            self._place()
            if self.log is None:
                self._resume(batches)
            self._train(batches, steps)
        return self.log.rows

    def _train(self, batches, steps):
        progress = Progress(steps, self.show)
        self.clock, saved, pending = time.monotonic(), self.step, None
        while self.step < steps and (batch := next(batches, None)) is not None:
            rate = self.optimizer.learning_rate(self.step)
            batch = place_batch(batch, self.mesh, self.minibatches, self.accumulate)
            self.params, self.opt_state, metrics = self.update(
                self.params, self.opt_state, self.fixed, self.teachers, batch, rate
            )
            nnx.update(self.model, self.params)
            self.step += 1
            # The device works on this step while the host reads the one before.
            self._finish(pending, progress)
            row = {"step": self.step, "learning_rate": rate}
            pending = row, metrics, dict(batches.metrics), list(batches.samples)
            if self.save_every and self.step % self.save_every == 0:
                self._finish(pending, progress)
                self._save(batches)
                saved, pending = self.step, None
        self._finish(pending, progress)
        if self.step > saved:
            self._save(batches)
        self.log.flush()

    def _finish(self, pending, progress):
        """Waits for a step's numbers, checks and logs them."""
        if pending is None:
            return
        row, metrics, source_metrics, samples = pending
        metrics = {name: float(x) for name, x in jax.device_get(metrics).items()}
        for name in ("loss", "grad_norm"):
            if not math.isfinite(metrics[name]):
                raise TrainingDiverged(
                    f"Step {row['step']}: {name} is {metrics[name]}. This update was"
                    " not applied. Lower the learning rate, or look at what this"
                    f" batch holds. Last good checkpoint: {self._last_checkpoint()}."
                )
        self.clock, seconds = time.monotonic(), time.monotonic() - self.clock
        rows = self.log.rows
        row |= metrics | {name: float(x) for name, x in source_metrics.items()}
        row["tokens_total"] = row["tokens"] + (rows[-1]["tokens_total"] if rows else 0)
        row["seconds"] = seconds
        row["tokens_per_second"] = row["tokens"] / seconds
        self.log.write(row, samples)
        progress.update(row)

    def _place(self):
        """Spreads model, optimizer state and frozen modules over the mesh."""
        graph, params, fixed = nnx.split(self.model, self.wrt, ...)
        teachers = [nnx.split(module) for module in self.frozen]
        # Updates overwrite their inputs; a copy spares arrays that others still hold.
        self.params = place(jax.tree.map(jnp.copy, params), self.mesh)
        self.fixed = place(fixed, self.mesh)
        self.teachers = [place(state, self.mesh) for _, state in teachers]
        nnx.update(self.model, self.params, self.fixed)
        for module, state in zip(self.frozen, self.teachers, strict=True):
            nnx.update(module, state)
        if self.opt_state is None:
            init = self.optimizer.transform.init
            in_float32 = jax.eval_shape(as_float32, self.params)
            layout = shardings(jax.eval_shape(init, in_float32), self.mesh)
            self.opt_state = jax.jit(
                lambda params: init(as_float32(params)), out_shardings=layout
            )(self.params)
            self.update = jax.jit(
                build_update(
                    self.objective,
                    self.optimizer.transform,
                    graph,
                    [graph for graph, _ in teachers],
                ),
                donate_argnums=(0, 1),
                out_shardings=(shardings(self.params, self.mesh), layout, None),
            )

    def _resume(self, batches):
        folder, position = None, {}
        if self.checkpoints:
            folder = self.checkpoints.run
            found = self.checkpoints.restore(self._arrays(), self._identity())
            if found is not None:
                arrays, record = found
                self._set_arrays(arrays)
                batches.set_state(record["batches"])
                self.step, position = record["step"], record["log"]
        self.log = MetricsLog(folder, position, self.step)

    def _save(self, batches):
        if self.checkpoints:
            record = {
                "run": self._identity(),
                "batches": batches.get_state(),
                "log": self.log.position(),
            }
            self.checkpoints.save(self.step, self._arrays(), record)

    def _arrays(self) -> dict[str, jax.Array]:
        """Everything an update changes, by name."""
        state = {"params": self.params, "optimizer": self.opt_state}
        leaves, _ = jax.tree_util.tree_flatten_with_path(state)
        return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}

    def _set_arrays(self, arrays):
        state = {"params": self.params, "optimizer": self.opt_state}
        names = jax.tree_util.tree_map_with_path(
            lambda path, _: jax.tree_util.keystr(path), state
        )
        state = jax.tree.map(arrays.__getitem__, names)
        self.params, self.opt_state = state["params"], state["optimizer"]
        nnx.update(self.model, self.params)

    def _identity(self) -> dict[str, str]:
        """What must be the same for a folder to be resumed."""
        shapes = [(x.shape, str(x.dtype)) for x in self._arrays().values()]
        return {
            "model": repr(getattr(self.model, "config", type(self.model).__name__)),
            "objective": describe(self.objective),
            "minibatches": str(self.minibatches),
            "shapes": str(shapes),
        }

    def _last_checkpoint(self) -> str:
        return self.checkpoints.newest() if self.checkpoints else "none (no folder)"


def build_update(objective, transform, graph, teacher_graphs):
    """The pure function of one step, to be compiled.

    Returns:
      `update(params, opt_state, fixed, teachers, batch, rate)`, where the leaves of
      `batch` are (minibatches, accumulate, rows, …) and `rate` is a scalar; it
      returns the new params and opt_state, and scalar metrics.
    """

    def update(params, opt_state, fixed, teachers, batch, rate):
        frozen = [
            nnx.merge(g, s) for g, s in zip(teacher_graphs, teachers, strict=True)
        ]

        def loss(params, piece):
            value, metrics = objective(nnx.merge(graph, params, fixed), piece, *frozen)
            return value, metrics | {"loss": value, "tokens": count_tokens(piece)}

        def one_update(state, pieces):
            params, opt_state = state
            gradient, metrics = whole_gradient(loss, params, pieces)
            metrics["grad_norm"] = optax.global_norm(gradient)
            moves, opt_state = transform.update(gradient, opt_state, as_float32(params))
            params = jax.tree.map(
                lambda p, move: (p + rate * move).astype(p.dtype), params, moves
            )
            good = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["grad_norm"])
            state = jax.tree.map(
                lambda new, old: jnp.where(good, new, old), (params, opt_state), state
            )
            return state, metrics

        state, metrics = jax.lax.scan(one_update, (params, opt_state), batch)
        return *state, combine(metrics)

    return update


def whole_gradient(loss, params, pieces):
    """Gradient and metrics of a batch from those of its pieces.

    Each piece's loss is a mean over its own `weight` (tokens or sequences); the mean
    over all of them has the gradient sum(weight * gradient) / sum(weight).

    Args:
      loss: `loss(params, piece) -> (scalar, metrics)`, metrics with "weight".
      params: what to differentiate by.
      pieces: dict of arrays (accumulate, rows, …).
    """

    def add(total, piece):
        gradient, metrics = jax.grad(loss, has_aux=True)(params, piece)
        weight = metrics["weight"]
        total = jax.tree.map(lambda t, g: t + weight * g, total, gradient)
        return total, metrics

    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    total, metrics = jax.lax.scan(add, zeros, pieces)
    weight = jnp.maximum(metrics["weight"].sum(), 1e-9)
    return jax.tree.map(lambda t: t / weight, total), combine(metrics)


def combine(metrics: dict) -> dict:
    """Metrics of a whole from those of its pieces (leading axis): sums and means.

    "weight" and "tokens" are added, all others averaged by weight.
    """
    weight = metrics["weight"]
    share = weight / jnp.maximum(weight.sum(), 1e-9)
    return {
        name: x.sum() if name in ("weight", "tokens") else (x * share).sum()
        for name, x in metrics.items()
    }


def count_tokens(batch):
    """Tokens the loss looks at: those under the loss mask, or all if there is none."""
    if "loss_mask" in batch:
        return batch["loss_mask"].sum()
    return float(max(x.size for x in batch.values()))


def as_float32(tree):
    """Parameters in float32, so that gradients' moments are kept in it."""
    return jax.tree.map(lambda x: x.astype(jnp.float32), tree)


def describe(objective) -> str:
    """The objective by name and the settings it closes over, to tell runs apart."""
    cells = getattr(objective, "__closure__", None) or ()
    names = objective.__code__.co_freevars if cells else ()
    plain = (int, float, str, tuple, type(None))
    settings = [
        f"{name}={cell.cell_contents!r}"
        for name, cell in zip(names, cells, strict=True)
        if isinstance(cell.cell_contents, plain)
    ]
    name = getattr(objective, "__qualname__", type(objective).__name__)
    return f"{name.split('.')[0]}({', '.join(settings)})"
