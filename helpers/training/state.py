"""The arrays that training changes, spread over the devices, and their update."""

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import lora
from helpers.runtime.devices import jit
from helpers.runtime.sharding import place, shardings, using
from helpers.training import optimizers
from helpers.training.update import build_update


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
