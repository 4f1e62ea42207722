"""Gemma 4's decoder: layers of several kinds.

Local layers see a window; full ones see everything, with wider heads and fewer of them
for keys. The last layers have no keys and values: they use those that the last layer of
their kind before them made, so a cache holds less. Layers of a kind are one stack, and
the layers lie in groups that repeat (`spans_of`): a scan over groups holds a
scan over a group's local layers, and one over its full ones. So four layers are
compiled, at most, however many there are. Only decoding on TPUs has no scan
(`ops.decodes`).
"""

import dataclasses
import functools
import inspect
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental.compute_on import compute_on

from helpers.model import ops
from helpers.model.attention import EVERYTHING
from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.families import SHARING
from helpers.model.layer import Layer
from helpers.runtime.sharding import everywhere, gathered, spread


class Fixed(nnx.Variable):
    """Numbers of a model that are not trained."""


def gemma4_of(config: ModelConfig) -> Gemma4Config:
    """What only Gemma 4 has in a config of Gemma 4."""
    assert config.gemma4 is not None, "a decoder of another family"
    return config.gemma4


def config_of(config: ModelConfig, stack: str) -> ModelConfig:
    """The config of a decoder that had only the layers of this stack."""
    gemma4 = gemma4_of(config)
    changes: dict[str, Any] = {}
    if stack.endswith("full"):
        changes |= {"head_dim": gemma4.full_head_dim, "kv_heads": gemma4.full_kv_heads}
    if stack.startswith(SHARING) and gemma4.double_wide:
        changes |= {"ff": 2 * config.ff}
    return dataclasses.replace(config, **changes)


class Span(NamedTuple):
    """Layers next to each other that are one group, `repeats` times.

    A group is `local` layers of the one kind, then `full` of the other. first: the
    number of the first layer. shares: they use keys and values of earlier layers.
    """

    first: int
    repeats: int
    local: int
    full: int
    shares: bool


def spans_of(gemma4: Gemma4Config) -> list[Span]:
    """All layers, as groups that repeat: E2B is one span, and one that shares."""
    split = len(gemma4.kinds) - gemma4.sharing
    spans: list[Span] = []
    for first, kinds in ((0, gemma4.kinds[:split]), (split, gemma4.kinds[split:])):
        runs = [(kind, len(list(run))) for kind, run in itertools.groupby(kinds)]
        if runs and runs[0][0] == "full":
            runs.insert(0, ("local", 0))
        sizes = [run[1] for run in runs] + [0] * (len(runs) % 2)
        groups = zip(sizes[::2], sizes[1::2], strict=True)
        for (local, full), same in itertools.groupby(groups):
            repeats = len(list(same))
            spans.append(Span(first, repeats, local, full, first >= split))
            first += repeats * (local + full)
    return spans


class Gemma4Layer(Layer):
    """One block of a stack: a `Layer`, then its vector of each token, then a scale."""

    def __init__(self, config: ModelConfig, stack, rngs: nnx.Rngs, dtype=jnp.float32):
        super().__init__(config_of(config, stack), rngs, dtype)
        self.shares = stack.startswith(SHARING)
        if self.shares:
            for name in "k", "v", "k_norm":
                delattr(self, name)
        elif stack.endswith("full") and gemma4_of(config).keys_are_values:
            delattr(self, "v")
        D, E = config.width, gemma4_of(config).per_layer
        if E:
            self.input_gate = ops.random_matrix(rngs, (D, E), dtype)
            self.input_out = ops.random_matrix(rngs, (E, D), dtype)
            self.input_norm = ops.vector(D, 1.0, dtype)
        self.scale = Fixed(jnp.ones((1,), dtype))

    def __call__(  # type: ignore[override]
        self, x_PGTD, input_PGTE, cos_sin, earlier, masks, reach=EVERYTHING
    ):
        """Returns the new x, and this layer's keys and values; None if it shares.

        Args:
          input_PGTE: this layer's vectors of the tokens, or None.
          earlier: pieces; of a layer that shares, the new tokens' own among them.
        """
        x, kv = super().__call__(x_PGTD, cos_sin, earlier, masks, reach)
        if input_PGTE is not None:
            gate = jax.nn.gelu(self.project(x, "input_gate"), approximate=True)
            added = self.project(gate * input_PGTE, "input_out")
            x = x + self.norm(added, self.input_norm)
        return x * self.scale[...].astype(x.dtype), kv

    def attention(self, x_PGTD, cos_sin, earlier, masks, reach=EVERYTHING, at=None):
        """As `Layer.attention`; a layer that shares adds no keys of its own."""
        if not self.shares:
            return super().attention(x_PGTD, cos_sin, earlier, masks, reach, at)
        (q,) = self.heads(x_PGTD, "q")
        return self.look(q, cos_sin, earlier, masks, reach), None

    def queries_keys_values(self, x_PGTD):
        """As `Layer.queries_keys_values`; without a values matrix, keys are values."""
        if hasattr(self, "v"):
            return super().queries_keys_values(x_PGTD)
        q, k = self.heads(x_PGTD, "q", "k")
        return q, k, k

    def pieces(self, k_PGKTH, v_PGKTH, cos_sin):
        """As `Layer.pieces`; values are normalised, too, without a weight."""
        v_PGKTH = ops.rms_norm(
            v_PGKTH, jnp.ones(()), self.config.norm_eps, plus_one=False
        )
        return super().pieces(k_PGKTH, v_PGKTH, cos_sin)


class Gemma4Layers(nnx.Module):
    """All layers: a stack of each kind, walked in the order in which they stand."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        self.config = config
        for name, layers in gemma4_of(config).stacks.items():
            make = functools.partial(Gemma4Layer, config, name, dtype=dtype)
            setattr(self, name, ops.stack(make, len(layers), rngs))

    def __call__(
        self, x, inputs_LPGTE, positions_PGT, seen, pieces, reach, remat, last_PG=None
    ):
        """Returns the new x, and ({kind: keys}, {kind: values}) of the new tokens.

        Args:
          inputs_LPGTE: each layer's vectors of the tokens (`PerLayer`), or None.
          seen: (allowed, distance) of each piece, the new tokens last.
          pieces: (keys, values) of the earlier pieces, both by kind.
          reach: of a layer that looks at everything.
          remat: wraps one layer, see `ops.REMAT`.
          last_PG: the one token of each row that goes through the layers that share,
            where there are any: x has (P, G, 1, D) of it behind them. None: all do.
        """
        walk = _Walk(self, positions_PGT, seen, reach, remat)
        if ops.decodes(x):
            return walk.one_by_one(x, inputs_LPGTE, pieces)
        made: dict[str, list] = {}
        shared: dict[str, list] = {}
        used = dict.fromkeys(gemma4_of(self.config).stacks, 0)
        for span in spans_of(gemma4_of(self.config)):
            if span.shares and not shared:
                pieces = [*pieces, _joined(made)]
                shared = {kind: _at(_of_kind(pieces, kind), -1) for kind in made}
                if last_PG is not None:
                    last = functools.partial(ops.picked, at_PG=last_PG)
                    x, positions, last_seen = jax.tree.map(
                        last, (x, positions_PGT, seen)
                    )
                    walk = _Walk(self, positions, last_seen, reach, remat)
                    inputs_LPGTE = jax.tree.map(jax.vmap(last), inputs_LPGTE)
            x, new_kv = walk.span(span, x, used, inputs_LPGTE, pieces, shared)
            for kind, kv in new_kv.items():
                made.setdefault(kind, []).append(kv)
        return x, _joined(made)


class _Walk:
    """What all layers of one pass have in common, by kind."""

    def __init__(self, layers, positions_PGT, seen, reach, remat):
        c, gemma4 = layers.config, gemma4_of(layers.config)
        self.stacks = {name: nnx.split(getattr(layers, name)) for name in gemma4.stacks}
        self.gemma4, self.layers, self.remat = gemma4, gemma4.stacks, remat
        self.reach = {"full": reach, "local": reach._replace(back=c.window)}
        full = ops.frequencies(gemma4.full_head_dim, c.rope_theta, c.stretch)
        local = ops.frequencies(c.head_dim, c.rope_local_theta)
        self.ropes = {
            "full": ops.rotary(positions_PGT, full),
            "local": ops.rotary(positions_PGT, local),
        }
        self.masks = {
            # Only local layers see an image in both directions.
            "full": [allowed & (distance >= 0) for allowed, distance in seen],
            "local": [allowed & (distance < c.window) for allowed, distance in seen],
        }

    def span(self, span, x, used, inputs_LPGTE, pieces, shared):
        """Groups that repeat: the new x, and {kind: (keys, values)} that they made.

        Args:
          used: how many layers of each stack have been walked; counted on.
          shared: pieces of the kinds, for layers that share.
        """
        order, runs = [], {}
        for kind, count in (("local", span.local), ("full", span.full)):
            name = (SHARING if span.shares else "") + kind
            if count:
                order.append(name)
                first, used[name] = used[name], used[name] + span.repeats * count
                here = slice(first, used[name])
                earlier = [] if span.shares else _of_kind(pieces, kind)
                inputs = _at(inputs_LPGTE, np.array(self.layers[name][here]))
                stacked = _at((self.stacks[name][1], earlier), here)
                runs[name] = jax.tree.map(
                    lambda a, n=count: a.reshape(span.repeats, n, *a.shape[1:]),
                    (*stacked, inputs),
                )

        def group(x, runs):
            new_kv = {}
            for name in order:
                layer = self.layer(name, shared)
                x, new_kv[name] = jax.lax.scan(layer, x, runs[name])
            return x, new_kv

        x, new_kv = jax.lax.scan(group, x, runs)
        if span.shares:
            return x, {}
        return x, jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), new_kv)

    def one_by_one(self, x, inputs_LPGTE, pieces):
        """All layers without a scan (`ops.decodes`): as `Gemma4Layers.__call__`."""
        made: dict[str, list] = {}
        shared: dict[str, list] = {}
        for number, kind in enumerate(self.gemma4.kinds):
            name = self.gemma4.stack_of(number)
            i = self.layers[name].index(number)
            earlier = [] if name.startswith(SHARING) else _of_kind(pieces, kind)
            inputs = _at(inputs_LPGTE, number)
            weights, earlier = _at((self.stacks[name][1], earlier), i)
            x, kv = self.layer(name, shared)(x, (weights, earlier, inputs))
            if kv is not None:
                made.setdefault(kind, []).append(_at(kv, None))
                shared[kind] = [*earlier, kv]
        return x, _joined(made)

    def layer(self, name, shared):
        """What one layer of a stack does: to x, and (weights, pieces, vectors)."""
        kind, graph = name.removeprefix(SHARING), self.stacks[name][0]
        cos_sin, masks, reach = self.ropes[kind], self.masks[kind], self.reach[kind]

        @self.remat
        def one_layer(x, layer_inputs):
            weights, earlier, inputs = layer_inputs
            layer = nnx.merge(graph, gathered(weights, x.dtype))
            earlier = shared[kind] if layer.shares else earlier
            x, kv = layer(spread(x), inputs, cos_sin, earlier, masks, reach)
            return spread(x), kv

        return one_layer


def _at(tree, index):
    """Each array of a tree at an index of its first axis; None stays None."""
    return jax.tree.map(lambda a: a[index], tree)


def _of_kind(pieces, kind):
    return [(keys[kind], values[kind]) for keys, values in pieces]


def _joined(made):
    """({kind: keys}, {kind: values}) of all layers that made some, in their order."""
    both: tuple[dict, dict] = ({}, {})
    for kind, spans in made.items():
        for all_layers, parts in zip(both, zip(*spans, strict=True), strict=True):
            whole = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
            all_layers[kind] = whole
    return both


class OnHost(nnx.Variable):
    """A table in the host's memory: looked up there, and never trained."""


class PerLayer(nnx.Module):
    """A small vector of every token for every layer: looked up, and made of x.

    One table holds the vectors of all layers side by side: `vectors`, or `host_vectors`
    in the host's memory.
    """

    host_vectors: OnHost

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        self.config = config
        V, D, L = config.vocab_size, config.width, config.layers
        E = gemma4_of(config).per_layer
        self.vectors = ops.random_matrix(rngs, (V, L * E), dtype, E)
        self.projection = ops.random_matrix(rngs, (L * E, D), dtype, D)
        self.norm = ops.vector(E, 1.0, dtype)

    def __call__(self, tokens_PGT, x_PGTD):
        """(L, P, G, T, E), of tokens and what they are embedded as."""
        c, L, E = self.config, self.config.layers, gemma4_of(self.config).per_layer
        rows = spread(self.rows(tokens_PGT)).astype(x_PGTD.dtype)
        weights = gathered({"projection": self.projection[...]}, x_PGTD.dtype)
        made = ops.matmul(x_PGTD, weights["projection"].astype(x_PGTD.dtype).T)
        rows, made = (y.reshape(*y.shape[:-1], L, E) for y in (rows, made))
        made = made * jnp.asarray(c.width**-0.5, made.dtype)
        made = ops.rms_norm(made, self.norm[...], c.norm_eps, plus_one=False)
        both = (made + rows * jnp.asarray(E**0.5, rows.dtype)) * 2**-0.5
        return jnp.moveaxis(both, -2, 0)

    def rows(self, tokens_PGT):
        """The table's rows of the tokens, in the chip's memory, (P, G, T, L·E)."""
        if hasattr(self, "vectors"):
            return self.vectors[...][everywhere(tokens_PGT)]
        tokens_PGT = jax.device_put(tokens_PGT, jax.memory.Space.Host)
        rows = compute_on_host(_look_up)(self.host_vectors[...], tokens_PGT)
        return jax.device_put(rows, jax.memory.Space.Device)


def _look_up(table, tokens_PGT):
    # The usual check of bounds would mix in constants of the chip's memory.
    return table.at[tokens_PGT].get(mode="promise_in_bounds")


def compute_on_host(function):
    """The function, computed by the host's processor on arrays in its memory."""
    if "out_memory_spaces" in inspect.signature(compute_on).parameters:
        spaces = {"out_memory_spaces": jax.memory.Space.Host}
        return compute_on(function, compute_type="device_host", **spaces)
    # Before jax 0.10 `compute_on` was a context.
    return compute_on("device_host")(function)  # type: ignore[call-arg]


def keep_on_host(model):
    """A model whose per-layer table is in the host's memory, 4.4 GiB of E2B's 8.9.

    It computes the same, on one device; there the table is frozen.

    Args:
      model: a Transformer of Gemma 4; stays as it is.
    Raises:
      ValueError: the model has no such table, or it is there already.
    """
    if not hasattr(getattr(model, "per_layer", None), "vectors"):
        raise ValueError(
            "The model has no per-layer table in the chip's memory: only Gemma 4's E2B "
            "and E4B have one, and it can be moved once."
        )
    moved = nnx.merge(*nnx.split(model))
    table = moved.per_layer.vectors[...]
    place = jax.memory.Space.Host  # of shapes; arrays stay where they are in jax 0.7
    if not isinstance(table, jax.core.Tracer):
        place = table.sharding.with_memory_kind("pinned_host")
    moved.per_layer.host_vectors = OnHost(jax.device_put(table, place))
    del moved.per_layer.vectors
    return moved
