"""A model, an objective and a batch source small enough to check by hand.

`Toy` has what the trainer must handle in a real model: weights stacked along a layer
axis, an embedding, norms. `Rows` makes a fresh masked regression batch at every step.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.batches import BatchSource

VOCAB, WIDTH, LAYERS = 16, 8, 2


def random(scale, rng, *shape):
    """Normal numbers, drawn by NumPy: nothing compiles."""
    return nnx.Param(jnp.asarray(scale * rng.normal(size=shape), jnp.float32))


class Layers(nnx.Module):
    def __init__(self, rng):
        self.matrix = random(0.3, rng, LAYERS, WIDTH, WIDTH)
        self.scale = nnx.Param(jnp.asarray(np.ones((LAYERS, WIDTH), np.float32)))


class Toy(nnx.Module):
    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.embed = random(1, rng, VOCAB, WIDTH)
        self.layers = Layers(rng)

    def __call__(self, tokens_BT):
        """Hidden states (B, T, WIDTH)."""
        x = self.embed[...][tokens_BT]
        for i in range(LAYERS):
            x = x + jnp.tanh(x @ self.layers.matrix[...][i]) * self.layers.scale[...][i]
        return x


def squared_error(model, batch):
    """Mean over the tokens under the mask of the distance to the target."""
    error_BT = jnp.square(model(batch["tokens"]).sum(axis=-1) - batch["target"])
    weight = batch["loss_mask"].sum()
    mean = (error_BT * batch["loss_mask"]).sum() / jnp.maximum(weight, 1)
    return mean, {"weight": weight, "error": jax.lax.stop_gradient(mean)}


class Rows(BatchSource):
    """A batch source: batch number `count` depends on the seed and the number only."""

    def __init__(self, seed=0, batch=8, length=5, end=None):
        self.seed, self.shape, self.end = seed, (batch, length), end
        self.count, self.metrics, self.samples = 0, {}, []

    def __next__(self):
        if self.end is not None and self.count >= self.end:
            raise StopIteration
        rng = np.random.default_rng((self.seed, self.count))
        self.count += 1
        self.metrics = {"reward": self.count / 100}
        self.samples = [{"prompt": f"row {self.count}", "completion": "ok"}]
        lengths = rng.integers(1, self.shape[1] + 1, self.shape[0])
        return {
            "tokens": rng.integers(0, VOCAB, self.shape).astype(np.int32),
            "target": rng.normal(size=self.shape).astype(np.float32),
            "loss_mask": (np.arange(self.shape[1]) < lengths[:, None]).astype(
                np.float32
            ),
            "rows": [{"question": "dropped on the way to the device"}],
        }

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


class Fixed(BatchSource):
    """A batch source that gives the same batch for ever."""

    def __init__(self, batch):
        self.batch = batch

    def __next__(self):
        return self.batch

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


def sharing_update(trainer, updates):
    """The trainer, with the update of another one that differs in nothing but its data.

    Each Trainer traces and compiles its own otherwise.

    Args:
      updates: a dictionary that keeps them, by what is trained.
    """
    state, compile_own = trainer.state, trainer.state.compile

    def compile_once(*settings):
        compile_own(*settings)
        trains = jax.tree.structure(state.params)
        state.update = updates.setdefault(trains, state.update)

    state.compile = compile_once
    return trainer


def weights(model):
    """All parameters by name, as NumPy arrays."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(nnx.state(model, nnx.Param))
    return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in leaves}


def assert_same_weights(model, other, **tolerance):
    """Equal bit by bit, or within a tolerance (`rtol`, `atol`)."""
    ours, theirs = weights(model), weights(other)
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        if tolerance:
            np.testing.assert_allclose(x, theirs[name], err_msg=name, **tolerance)
        else:
            np.testing.assert_array_equal(x, theirs[name], err_msg=name)
