"""The decoder: Gemma 3, Qwen2.5, Qwen3 and Llama 3 in one small Flax NNX module.

Gemma 3 may have a tower that sees (`helpers.model.vision`) beside its decoder.

All layers are one `Layer` whose weights carry a leading layer axis, walked by
`lax.scan`: compiling takes as long for 80 layers as for 4.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from helpers.model import quantized
from helpers.model.adapted import products
from helpers.model.attention import KV, attend_causally, visible
from helpers.model.config import ModelConfig
from helpers.model.head import logits
from helpers.model.ops import matmul, rematerialised, rms_norm
from helpers.model.rope import frequencies, rotary, rotate
from helpers.model.vision import Vision, image_runs, put_in
from helpers.runtime.sharding import cut_over_model, gathered, spread

# Tokens in all, and in each row, from which on matrices are put side by side. Decoding
# has few in a row, and perhaps many rows, but these on many chips.
MANY, LONG = 1024, 32


class Layer(nnx.Module):
    """One decoder block: attention, then a gated feed-forward, each added to x."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        D, F, H = config.width, config.ff, config.head_dim
        N, K = config.heads, config.kv_heads
        self.config = config
        self.adapters, self.adapter_scale = (), 1.0  # helpers.model.lora fills these

        def matrix(rows, columns):
            noise = jax.random.normal(rngs.params(), (rows, columns), jnp.float32)
            return nnx.Param((noise * rows**-0.5).astype(dtype))

        def vector(size, value):
            return nnx.Param(jnp.full((size,), value, dtype))

        one = 0.0 if config.is_gemma else 1.0
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
        return rms_norm(x, weight[...], self.config.norm_eps, self.config.is_gemma)

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
        c = self.config
        P, G, T, _ = x_PGTD.shape
        q, k, v = self.project_all(x_PGTD, "q", "k", "v")
        if c.qkv_bias:
            q, k, v = (
                y + bias[...].astype(y.dtype)
                for y, bias in ((q, self.q_bias), (k, self.k_bias), (v, self.v_bias))
            )
        q, k, v = (  # heads before tokens, as attention takes them
            y.reshape(P, G, T, -1, c.head_dim).swapaxes(2, 3) for y in (q, k, v)
        )
        if c.qk_norm:
            q, k = self.norm(q, self.q_norm), self.norm(k, self.k_norm)
        q = rotate(q, cos_sin) * c.attention_scale
        k = rotate(k, cos_sin).swapaxes(3, 4)
        q = q.reshape(P, G, c.kv_heads, -1, T, c.head_dim)
        out_PGKRTH = attend_causally(q, [*earlier, (k, v)], masks, ahead)
        out_PGTD = out_PGKRTH.transpose(0, 1, 4, 2, 3, 5).reshape(P, G, T, -1)
        return self.project(out_PGTD, "o", widens=False), (k, v)

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
        """`project` for each name: of many tokens all together, `adapted.products`.

        For few, putting matrices side by side costs more than it saves; and x in more
        digits than a matrix would lose them before it meets the adapter.
        """
        if len(names) > 1 and cut_over_model():  # side by side they would be dealt anew
            return [self.project(x, name, widens=widens) for name in names]
        weights = [self.weight(name) for name in names]
        adapters = [self.adapter(name) for name in names]
        is_narrow = any(w.dtype.itemsize < x.dtype.itemsize for w in weights)
        few = x.size < MANY * x.shape[-1] or x.shape[-2] < LONG
        if few or is_narrow or not any(adapters):
            pairs = zip(weights, adapters, strict=True)
            found = [_beside(x, weight, adapter) for weight, adapter in pairs]
        else:
            given = jax.tree.map(lambda y: y.astype(x.dtype), (weights, adapters))
            found = products(x, *given, widens)
        return [checkpoint_name(y, name) for y, name in zip(found, names, strict=True)]

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
    y = matmul(x, weight)
    if not adapter:
        return y
    a, b = (part.astype(x.dtype) for part in adapter)
    return y + matmul(matmul(x, a), b)


class Transformer(nnx.Module):
    """A causal language model; `model(tokens, positions)` gives hidden states.

    Args:
      dtype: of the weights. Trained ones should be float32: in bfloat16, which has
        three digits, most updates are lost.
      activations: dtype of everything that flows between them; None: that of the
        weights. Norms, softmax and logits are float32 in any case. Where the two
        differ, a product takes both in the narrower one (`ops.matmul`).

    Attributes:
      remat: what the backward pass computes again instead of keeping it, one of
        `ops.REMAT`; set it before the trainer is made. It changes memory and time, not
        the result.
    """

    def __init__(
        self, config: ModelConfig, rngs: nnx.Rngs, dtype=jnp.float32, activations=None
    ):
        self.config, self.remat = config, "layer"
        self.activations = jnp.dtype(activations or dtype).name
        V, D = config.vocab_size, config.width

        def table():
            noise = jax.random.normal(rngs.params(), (V, D), jnp.float32)
            return nnx.Param((noise * D**-0.5).astype(dtype))

        self.embed = table()
        if not config.tied:
            self.head = table()
        self.final_norm = nnx.Param(
            jnp.full((D,), 0.0 if config.is_gemma else 1.0, dtype)
        )

        @nnx.split_rngs(splits=config.layers)
        @nnx.vmap(in_axes=0, out_axes=0)
        def stack(rngs):
            return Layer(config, rngs, dtype)

        self.layers = stack(rngs)
        if config.vision:
            self.vision = Vision(config.vision, D, rngs, dtype)

    def see(self, images):
        """Image embeddings for `__call__`, (P, N·M, D): N pictures, M tokens each.

        Args:
          images: uint8 (P, H, W, 3), or (P, N, H, W, 3): one row of pictures a prompt.
        Raises:
          ValueError: pictures of another size, or a model without vision.
        """
        if self.config.vision is None:
            raise ValueError(
                "Pictures were given to a model without vision. Load one that has it, "
                "with weights.load(folder, vision=True), or leave the pictures out."
            )
        return self.vision(images, self.activations, rematerialised(self.remat))

    def __call__(
        self, tokens_PGT, positions_PGT, segments_PGT=None, earlier=(), images_PID=None
    ):
        """Runs new tokens, which see themselves (causally) and the earlier pieces.

        Args:
          tokens_PGT, positions_PGT: int32. Positions count from the start of the text.
          segments_PGT: int32; tokens see only their own segment, 0 is padding. None
            means one segment (1) without padding.
          earlier: KV pieces, e.g. a prompt shared by the group, then a cache.
          images_PID: from `see`; a row's i-th image token is its i-th embedding, and
            tokens of one image see each other in both directions.
        Returns:
          hidden states after the final norm (P, G, T, D), and the new tokens' KV.
        """
        c = self.config
        if segments_PGT is None:
            segments_PGT = jnp.ones_like(tokens_PGT)
        table = gathered({"embed": self.embed[...]}, self.activations)["embed"]
        x = spread(table[tokens_PGT].astype(self.activations))
        if c.is_gemma:
            x = x * jnp.asarray(c.width**0.5, x.dtype)
        # Keys and values come from the layers.
        new = KV(None, None, positions_PGT, segments_PGT)  # type: ignore[arg-type]
        seen = [visible(positions_PGT, segments_PGT, kv) for kv in earlier]
        runs, ahead = None, 0
        if images_PID is not None:
            assert c.vision is not None, "such embeddings come from `see`"
            is_image = (tokens_PGT == c.vision.image_token) & (segments_PGT > 0)
            x, runs = put_in(x, is_image, images_PID), image_runs(is_image)
            ahead = images_PID.shape[1]
        seen.append(visible(positions_PGT, segments_PGT, new, runs))
        ropes = [
            rotary(positions_PGT, frequencies(c.head_dim, c.rope_theta, c.stretch)),
            rotary(positions_PGT, frequencies(c.head_dim, c.rope_local_theta)),
        ]
        graph, weights = nnx.split(self.layers)

        @rematerialised(self.remat)
        def one_layer(x, layer_inputs):
            weights, is_global, earlier = layer_inputs
            cos_sin, masks = ropes[0], [allowed for allowed, _ in seen]
            if c.pattern > 1:
                cos_sin = jax.tree.map(lambda a, b: jnp.where(is_global, a, b), *ropes)
                masks = [
                    allowed & (is_global | (distance < c.window))
                    for allowed, distance in seen
                ]
            layer = nnx.merge(graph, gathered(weights, x.dtype))
            x, kv = layer(spread(x), cos_sin, earlier, masks, ahead)
            return spread(x), kv

        is_global = jnp.array([c.is_global(i) for i in range(c.layers)])
        pieces = [(kv.keys, kv.values) for kv in earlier]
        x, (keys, values) = jax.lax.scan(one_layer, x, (weights, is_global, pieces))
        hidden = rms_norm(x, self.final_norm[...], c.norm_eps, c.is_gemma)
        return hidden, new._replace(keys=keys, values=values)

    def logits(self, hidden):
        """Scores of every vocabulary entry, (..., D) -> (..., V) float32."""
        return logits(hidden, self.table())

    def table(self):
        """The vocabulary's vectors (V, D) that `logits` compares with, gathered."""
        name = "embed" if self.config.tied else "head"
        return gathered({name: getattr(self, name)[...]}, self.activations)[name]

    def reader(self):
        """The function `logits`, with its table gathered once: for use in a loop."""
        table = self.table()
        return lambda hidden: logits(hidden, table)


def count_params(model: nnx.Module) -> int:
    """Numbers in a model's floats: its adapters' count, quantized matrices' do not."""
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
