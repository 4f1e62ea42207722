"""One block of the decoder: attention over pieces, and a gated feed-forward."""

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.model import quantized
from helpers.model.attention import attend_causally
from helpers.model.config import ModelConfig
from helpers.model.ops import matmul, rms_norm
from helpers.model.rope import rotate


class Layer(nnx.Module):
    """One decoder block: attention, then a gated feed-forward, each added to x."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        D, F, H = config.width, config.ff, config.head_dim
        N, K = config.heads, config.kv_heads
        self.config = config
        self.adapters: tuple[str, ...] = ()  # helpers.model.lora fills these
        self.adapter_scale = 1.0

        def matrix(rows, columns):
            noise = jax.random.normal(rngs.params(), (rows, columns), jnp.float32)
            return nnx.Param((noise * rows**-0.5).astype(dtype))

        def vector(size, value):
            return nnx.Param(jnp.full((size,), value, dtype))

        one = 0.0 if config.norm_plus_one else 1.0
        self.attention_norm, self.ff_norm = vector(D, one), vector(D, one)
        self.q, self.k, self.v = matrix(D, N * H), matrix(D, K * H), matrix(D, K * H)
        self.o = matrix(N * H, D)
        self.gate, self.up, self.down = matrix(D, F), matrix(D, F), matrix(F, D)
        if config.is_gemma:
            self.post_attention_norm = vector(D, one)
            self.post_ff_norm = vector(D, one)
        if config.qk_norm:
            self.q_norm, self.k_norm = vector(H, one), vector(H, one)
        if config.qkv_bias:
            self.q_bias, self.k_bias = vector(N * H, 0.0), vector(K * H, 0.0)
            self.v_bias = vector(K * H, 0.0)

    def norm(self, x, weight):
        """The family's RMS norm over the last axis."""
        c = self.config
        return rms_norm(x, weight[...], c.norm_eps, c.norm_plus_one)

    def __call__(self, x_PGTD, cos_sin, earlier, masks, ahead=0):
        """Returns the new x, and this layer's keys (P, G, K, H, T) and values."""
        attended, kv = self.attention(
            self.norm(x_PGTD, self.attention_norm), cos_sin, earlier, masks, ahead
        )
        if self.config.is_gemma:
            attended = self.norm(attended, self.post_attention_norm)
        x_PGTD = x_PGTD + attended
        fed = self.feed_forward(self.norm(x_PGTD, self.ff_norm))
        if self.config.is_gemma:
            fed = self.norm(fed, self.post_ff_norm)
        return x_PGTD + fed, kv

    def attention(self, x_PGTD, cos_sin, earlier, masks, ahead=0):
        """Queries of x look at the earlier pieces and, last, at x itself."""
        query = self.queries(x_PGTD, cos_sin)
        own = self.keys_and_values(x_PGTD, cos_sin)
        return self.look(query, [*earlier, own], masks, ahead), own

    def queries(self, x_PGTD, cos_sin):
        """Of x, scaled: (P, G, K, R, T, H)."""
        c = self.config
        q = self.heads(x_PGTD, "q")
        if c.qk_norm:
            q = self.norm(q, self.q_norm)
        q = rotate(q, cos_sin) * c.attention_scale
        q = q.reshape(*q.shape[:3], c.kv_heads, -1, c.head_dim)
        return q.transpose(0, 1, 3, 4, 2, 5)

    def keys_and_values(self, x_PGTD, cos_sin):
        """Of x, as the pieces have them: (P, G, K, H, T) and (P, G, K, T, H)."""
        k, v = self.heads(x_PGTD, "k"), self.heads(x_PGTD, "v")
        if self.config.qk_norm:
            k = self.norm(k, self.k_norm)
        return rotate(k, cos_sin).transpose(0, 1, 3, 4, 2), v.swapaxes(2, 3)

    def look(self, query_PGKRTH, pieces, masks, ahead=0):
        """What the queries find in the pieces, of which the last is their own."""
        out_PGKRTH = attend_causally(query_PGKRTH, pieces, masks, ahead)
        out_PGTKRH = out_PGKRTH.transpose(0, 1, 4, 2, 3, 5)
        return self.project(out_PGTKRH.reshape(*out_PGTKRH.shape[:3], -1), "o")

    def heads(self, x_PGTD, name):
        """x times the matrix called `name`, plus its bias, by heads."""
        y = self.project(x_PGTD, name)
        if self.config.qkv_bias:
            y = y + getattr(self, f"{name}_bias")[...].astype(y.dtype)
        return y.reshape(*y.shape[:-1], -1, self.config.head_dim)

    def feed_forward(self, x_PGTD):
        """Gated feed-forward: GeGLU for Gemma, SwiGLU for the others."""
        gate = self.project(x_PGTD, "gate")
        gelu = functools.partial(jax.nn.gelu, approximate=True)
        gate = gelu(gate) if self.config.is_gemma else jax.nn.silu(gate)
        return self.project(gate * self.project(x_PGTD, "up"), "down")

    def project(self, x, name):
        """x times the matrix called `name`, and times its adapter if it has one."""
        y = matmul(x, self.weight(name))
        if name not in self.adapters:
            return y
        a, b = (getattr(self, f"{name}_{part}")[...].astype(x.dtype) for part in "ab")
        return y + matmul(matmul(x, a), b) * self.adapter_scale

    def weight(self, name):
        """The matrix called `name`; one that is quantized, as float32."""
        if not quantized.kind_of(self, name):
            return getattr(self, name)[...]
        return quantized.decode(quantized.parts(self, name))
