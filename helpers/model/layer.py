"""One block of the decoder: attention over pieces, and a gated feed-forward."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from helpers.model import ops, quantized
from helpers.model.attention import EVERYTHING, attend_causally, write_kv
from helpers.model.config import ModelConfig
from helpers.runtime.sharding import cut_over_model

# Tokens in all, and in each row, from which on matrices are put side by side. Decoding
# has few in a row, and perhaps many rows, but these on many chips.
MANY, LONG = 1024, 32


class Layer(nnx.Module):
    """One decoder block: attention, then a gated feed-forward, each added to x."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        D, F, H = config.width, config.ff, config.head_dim
        N, K = config.heads * H, config.kv_heads * H
        self.config = config
        self.adapters: tuple[str, ...] = ()  # helpers.model.lora fills these
        self.adapter_scale = 1.0
        self.joined: Callable | None = None  # helpers.model.fast.unrolled sets it

        def norm(size):  # starts as one
            return ops.vector(size, 0.0 if config.norm_plus_one else 1.0, dtype)

        shapes = {"q": (D, N), "k": (D, K), "v": (D, K), "o": (N, D)}
        shapes |= {"gate": (D, F), "up": (D, F), "down": (F, D)}
        for name, shape in shapes.items():
            setattr(self, name, ops.random_matrix(rngs, shape, dtype))
        self.attention_norm, self.ff_norm = norm(D), norm(D)
        if config.is_gemma:
            self.post_attention_norm, self.post_ff_norm = norm(D), norm(D)
        if config.qk_norm:
            self.q_norm, self.k_norm = norm(H), norm(H)
        for name in "qkv" if config.qkv_bias else ():
            setattr(self, f"{name}_bias", ops.vector(shapes[name][1], 0.0, dtype))

    def norm(self, x, weight):
        """The family's RMS norm over the last axis."""
        c = self.config
        return ops.rms_norm(x, weight[...], c.norm_eps, c.norm_plus_one)

    def __call__(self, x_PGTD, cos_sin, earlier, masks, reach=EVERYTHING, at=None):
        """Returns the new x, and this layer's keys (P, G, K, H, T) and values.

        Args:
          at: the column of the last earlier piece into which they are written before
            anything looks at it; that piece is returned then. None: they stand beside.
        """
        attended, kv = self.attention(
            self.norm(x_PGTD, self.attention_norm), cos_sin, earlier, masks, reach, at
        )
        if self.config.is_gemma:
            attended = self.norm(attended, self.post_attention_norm)
        x_PGTD = x_PGTD + attended
        fed = self.feed_forward(self.norm(x_PGTD, self.ff_norm))
        if self.config.is_gemma:
            fed = self.norm(fed, self.post_ff_norm)
        return x_PGTD + fed, kv

    def attention(self, x_PGTD, cos_sin, earlier, masks, reach=EVERYTHING, at=None):
        """Queries of x look at the earlier pieces and, last, at x itself."""
        q, k, v = self.queries_keys_values(x_PGTD)
        new_kv = self.pieces(k, v, cos_sin)
        if at is not None:
            *earlier, room = earlier
            new_kv = write_kv(room, new_kv, at)
        return self.look(q, cos_sin, [*earlier, new_kv], masks, reach), new_kv

    def queries_keys_values(self, x_PGTD):
        """Each (P, G, its heads, T, H), neither normalised nor turned yet."""
        return self.heads(x_PGTD, "q", "k", "v")

    def pieces(self, k_PGKTH, v_PGKTH, cos_sin):
        """Keys (P, G, K, H, T) and values (P, G, K, T, H) as caches have them."""
        if self.config.qk_norm:
            k_PGKTH = self.norm(k_PGKTH, self.k_norm)
        return ops.rotate(k_PGKTH, cos_sin).swapaxes(3, 4), v_PGKTH

    def look(self, q_PGNTH, cos_sin, pieces, masks, reach=EVERYTHING):
        """What queries find in the pieces, of which the last is their own."""
        c = self.config
        P, G, _, T, H = q_PGNTH.shape
        if c.qk_norm:
            q_PGNTH = self.norm(q_PGNTH, self.q_norm)
        q_PGNTH = ops.rotate(q_PGNTH, cos_sin) * c.attention_scale
        q_PGKRTH = q_PGNTH.reshape(P, G, c.kv_heads, -1, T, H)
        out_PGKRTH = attend_causally(q_PGKRTH, pieces, masks, reach)
        out_PGTD = out_PGKRTH.transpose(0, 1, 4, 2, 3, 5).reshape(P, G, T, -1)
        return self.project(out_PGTD, "o", widens=False)

    def heads(self, x_PGTD, *names):
        """x times each matrix, plus its bias; heads before tokens, for attention."""
        outputs = self.project_all(x_PGTD, *names)
        if self.config.qkv_bias:
            biases = (getattr(self, f"{name}_bias")[...] for name in names)
            both = zip(outputs, biases, strict=True)
            outputs = [y + bias.astype(y.dtype) for y, bias in both]
        H = self.config.head_dim
        return [y.reshape(*y.shape[:-1], -1, H).swapaxes(2, 3) for y in outputs]

    def feed_forward(self, x_PGTD):
        """Gated feed-forward: GeGLU for Gemma, SwiGLU for the others."""
        gate, up = self.project_all(x_PGTD, "gate", "up")
        gelu = functools.partial(jax.nn.gelu, approximate=True)
        gate = gelu(gate) if self.config.is_gemma else jax.nn.silu(gate)
        return self.project(gate * up, "down", widens=False)

    def project(self, x, name, widens=True):
        """x times the matrix called `name`, and times its adapter if it has one."""
        return self.project_all(x, name, widens=widens)[0]

    def project_all(self, x, *names, widens=True):
        """`project` for each name: of many tokens all together, `ops.lora_matmuls`.

        For few, putting matrices side by side costs more than it saves; and x in more
        digits than a matrix would lose them before it meets the adapter.
        """
        if self.joined:
            return self.joined(self, x, names)
        if len(names) > 1 and cut_over_model():  # side by side they would be dealt anew
            return [self.project(x, name, widens=widens) for name in names]
        weights = [self.weight(name) for name in names]
        adapters = [self.adapter(name) for name in names]
        is_narrow = any(w.dtype.itemsize < x.dtype.itemsize for w in weights)
        few = x.size < MANY * x.shape[-1] or x.shape[-2] < LONG
        if few or is_narrow or not any(adapters):
            pairs = zip(weights, adapters, strict=True)
            outputs = [_beside(x, weight, adapter) for weight, adapter in pairs]
        else:
            given = jax.tree.map(lambda y: y.astype(x.dtype), (weights, adapters))
            outputs = ops.lora_matmuls(x, *given, widens)
        return [
            checkpoint_name(y, name) for y, name in zip(outputs, names, strict=True)
        ]

    def adapter(self, name):
        """The thin matrices beside the one called `name`, scaled; () if it has none."""
        if name not in self.adapters:
            return ()
        a, b = (getattr(self, f"{name}_{part}")[...] for part in "ab")
        return a, b * self.adapter_scale

    def weight(self, name):
        """The matrix called `name`; one that is quantized, as float32."""
        if not quantized.kind_of(self, name):
            return getattr(self, name)[...]
        return quantized.decode(quantized.parts(self, name))


def _beside(x, weight, adapter):
    y = ops.matmul(x, weight)
    if not adapter:
        return y
    a, b = (part.astype(x.dtype) for part in adapter)
    return y + ops.matmul(ops.matmul(x, a), b)
