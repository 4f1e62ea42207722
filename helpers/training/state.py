"""The arrays that training changes, their update, and what makes it stop."""

import math

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import lora
from helpers.runtime.platform import jit
from helpers.runtime.sharding import place, shardings, using
from helpers.training import optimizers
from helpers.training.update import OffPolicyObjective, build_update


def trained(model: nnx.Module, wrt=None):
    """Which variables of a model are trained, as an nnx filter.

    Args:
      wrt: an nnx filter; None takes the adapters of a model that has any, else all its
        float parameters.

    Raises:
      ValueError: it matches nothing, or what has no gradient: a quantized matrix.
    """
    chosen = lora.trainable(model) if wrt is None else wrt
    fixed = nnx.All(chosen, nnx.Any(lora.Quantized, nnx.Not(lora.is_float)))
    has_fixed = jax.tree.leaves(nnx.state(model, fixed))
    if has_fixed or not jax.tree.leaves(nnx.state(model, chosen)):
        raise ValueError(
            f"wrt={wrt} matches {'quantized matrices' if has_fixed else 'nothing'} of"
            " this model. Leave wrt out, or add adapters: lora.add(model, rank)."
        )
    return chosen


class TrainingState:
    """Parameters, the optimizer's state, and the arrays that stay fixed.

    Args:
      model: holds the newest parameters after every `adopt`.
      frozen: modules that the objective is given.
      wrt: which variables are parameters, see `trained`.
      mesh: devices.
    """

    def __init__(self, model: nnx.Module, frozen, wrt, mesh):
        self.model, self.frozen, self.mesh = model, frozen, mesh
        self.wrt = trained(model, wrt)

    def place(self) -> None:
        """Spreads the model and the frozen modules over the mesh."""
        self.graph, *states = nnx.split(self.model, self.wrt, ...)
        params, fixed = states
        # An update overwrites its inputs; a copy spares arrays that others still hold.
        self.params = place(jax.tree.map(jnp.copy, params), self.mesh)
        self.fixed = place(fixed, self.mesh)
        nnx.update(self.model, self.params, self.fixed)
        self.teachers = [place(nnx.state(module), self.mesh) for module in self.frozen]
        for module, state in zip(self.frozen, self.teachers, strict=True):
            nnx.update(module, state)

    def compile(self, objective, transform) -> None:
        """Makes the first optimizer state, and the update that XLA will compile."""

        def init(params):
            return optimizers.first_state(transform, params)

        layout = shardings(jax.eval_shape(init, self.params), self.mesh)
        self.opt_state = jax.jit(init, out_shardings=layout)(self.params)
        graphs = [nnx.graphdef(module) for module in self.frozen]
        self.update = jit(
            build_update(objective, transform, self.graph, graphs),
            donate_argnums=(0, 1),
            out_shardings=(shardings(self.params, self.mesh), layout, None),
        )

    def updated(self, batch: dict, rate: float):
        """New parameters, new optimizer state and metrics; the old arrays are donated.

        Args:
          batch: from `helpers.runtime.sharding.place_batch`.
          rate: what the optimizer's moves are multiplied by.
        """
        with using(self.params):
            return self.update(
                self.params, self.opt_state, self.fixed, self.teachers, batch, rate
            )

    def adopt(self, params, opt_state) -> None:
        """Takes new parameters and optimizer state, also into the model."""
        self.params, self.opt_state = params, opt_state
        nnx.update(self.model, self.params)

    def named_arrays(self) -> dict[str, jax.Array]:
        """Everything an update changes, by name."""
        leaves = jax.tree_util.tree_leaves_with_path(self._whole())
        return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}

    def restore(self, arrays: dict[str, jax.Array]) -> None:
        """Goes on with `named_arrays` of a checkpoint."""
        leaves = [arrays[name] for name in self.named_arrays()]
        state = jax.tree.unflatten(jax.tree.structure(self._whole()), leaves)
        self.adopt(state["params"], state["optimizer"])

    def _whole(self):
        return {"params": self.params, "optimizer": self.opt_state}


# --- why training stops ---


class TrainingDiverged(RuntimeError):
    """Loss, gradient, learning rate or weights stopped being finite numbers."""


class NothingToLearn(RuntimeError):
    """Many batches in a row had nothing that an update could learn from."""


def require_same_policy(model, objective, batches) -> None:
    """Checks that answers are sampled from the policy that the objective assumes.

    Args:
      model: that is trained.
      objective: an `OffPolicyObjective` takes the model itself for the old policy.
      batches: a batch source, whose `model` samples and whose answers may be `limit`
        updates old.
    Raises:
      ValueError: another model samples; or answers may be old, and the objective counts
        them as the policy's.
    """
    if not isinstance(objective, OffPolicyObjective):
        return
    if batches.model is not None and batches.model is not model:
        raise ValueError(
            "The rollouts are sampled from another model than the one that is trained:"
            " pass the same to both (lora.add makes a new one)."
        )
    if batches.limit and not objective.weighs:
        raise ValueError(
            f"Answers may be {batches.limit} updates old: pass sampler_cap=2.0 to the"
            " objective, or limit=0 to FromWorkers."
        )


def require_finite(row: dict, checkpoint: str) -> None:
    """Checks the metrics of a step, whose update is left out if they are not finite.

    Args:
      row: with "step", and of "learning_rate", "loss" and "grad_norm" what is known.
      checkpoint: the last good one, in words.
    Raises:
      TrainingDiverged: rate, loss or gradient are not finite.
    """
    for name in ("learning_rate", "loss", "grad_norm"):
        if not math.isfinite(row.get(name, 0.0)):
            raise TrainingDiverged(
                f"Step {row['step']}: {name} is {row[name]}. Lower the learning rate,"
                f" or look at this batch. Last good checkpoint: {checkpoint}."
            )


def require_finite_weights(params, step: int, checkpoint: str) -> None:
    """Checks that no update has made weights infinite or NaN.

    Args:
      params: a tree of arrays.
      step: how many are done.
      checkpoint: the last good one, in words.
    Raises:
      TrainingDiverged: some are not finite.
    """
    for path, x in jax.tree_util.tree_flatten_with_path(params)[0]:
        if not _all_finite(x):
            raise TrainingDiverged(
                f"After step {step} {jax.tree_util.keystr(path)} is not finite. Lower"
                f" the learning rate. Last good checkpoint: {checkpoint}."
            )


@jax.jit  # once for each shape, whatever the tree
def _all_finite(x):
    return jnp.isfinite(x).all()


NOTHING_LEARNED = (
    "No token counted for the loss: the loss masks of these batches are empty. Answers"
    " that ran out of max_tokens are masked unless Rollouts has mask_truncated=False;"
    " give them a larger max_tokens. For SFT, see whether rows are so long that their"
    " answers are truncated."
)


def nothing_learned(rows: list[dict]) -> bool:
    """Whether there are rows of the table, and none of them counts a token."""
    return bool(rows) and not any(row["weight"] and row["tokens"] for row in rows)
