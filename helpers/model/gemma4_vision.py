"""What Gemma 4 sees with: a tower for pictures of any shape, and the way from it.

Pictures come as strips of squares (`vision_config.to_strip`). Patches look at each
other in every layer, rotated by their column and their row; those of a square are
averaged to one image token of the decoder's width. As in the decoder, all layers are
one whose weights carry a leading layer axis.
Axes: B pictures, S patches, M squares, N heads, K key heads, H head width, C tower
width, D decoder width.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.model.families import BOUNDS, MATRICES
from helpers.model.gemma4 import Fixed
from helpers.model.ops import matmul, rms_norm
from helpers.model.rope import frequencies
from helpers.model.vision import attend_to_all
from helpers.model.vision_config import Gemma4VisionConfig, grids
from helpers.runtime.sharding import gathered, spread


class Gemma4SeeingLayer(nnx.Module):
    """One block of the tower: attention, then a gated feed-forward, each added to x."""

    def __init__(self, config: Gemma4VisionConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        c, C, H = config, config.width, config.head_dim
        N, K = c.heads, c.kv_heads
        self.config = config

        def matrix(rows, columns):
            noise = jax.random.normal(rngs.params(), (rows, columns), jnp.float32)
            return nnx.Param((noise * rows**-0.5).astype(dtype))

        def ones(size):
            return nnx.Param(jnp.ones((size,), dtype))

        self.attention_norm, self.post_attention_norm = ones(C), ones(C)
        self.ff_norm, self.post_ff_norm = ones(C), ones(C)
        self.q_norm, self.k_norm = ones(H), ones(H)
        self.q, self.k, self.v = matrix(C, N * H), matrix(C, K * H), matrix(C, K * H)
        self.o = matrix(N * H, C)
        self.gate, self.up, self.down = (
            matrix(C, c.ff),
            matrix(C, c.ff),
            matrix(c.ff, C),
        )
        for name in MATRICES if c.clipped else ():
            for bound in BOUNDS:
                widest = jnp.inf if bound.endswith("max") else -jnp.inf
                setattr(self, f"{name}_{bound}", Fixed(jnp.array(widest, dtype)))

    def __call__(self, x_BSC, cos_sin, there_BS):
        """Returns the new x; nobody looks at patches that are not there."""
        found = self.attention(self.norm(x_BSC, "attention_norm"), cos_sin, there_BS)
        x_BSC = x_BSC + self.norm(found, "post_attention_norm")
        fed = self.norm(x_BSC, "ff_norm")
        gate = jax.nn.gelu(self.project(fed, "gate"), approximate=True)
        fed = self.project(gate * self.project(fed, "up"), "down")
        return x_BSC + self.norm(fed, "post_ff_norm")

    def attention(self, x_BSC, cos_sin, there_BS):
        """Every patch looks at every patch; queries, keys and values are normalised."""
        c = self.config
        heads = (*x_BSC.shape[:2], -1, c.head_dim)
        q, k, v = (self.project(x_BSC, name).reshape(heads) for name in "qkv")
        q, k = self.norm(q, "q_norm"), self.norm(k, "k_norm")
        v = rms_norm(v, jnp.ones(()), c.norm_eps, plus_one=False)
        q, k = turned(q, cos_sin), turned(k, cos_sin)
        k, v = (jnp.repeat(y, c.heads // c.kv_heads, axis=2) for y in (k, v))
        found = attend_to_all(q, k, v, scale=1.0, there_BS=there_BS)
        return self.project(found.reshape(*x_BSC.shape[:2], -1), "o")

    def norm(self, x, name):
        """RMS norm with the weights called `name`."""
        return rms_norm(x, getattr(self, name)[...], self.config.norm_eps, False)

    def project(self, x, name):
        """x times the matrix called `name`; both ends within its bounds, if any."""
        weight = getattr(self, name)[...].astype(x.dtype)
        if not self.config.clipped:
            return matmul(x, weight)
        low, high, least, most = (
            getattr(self, f"{name}_{bound}")[...].astype(x.dtype) for bound in BOUNDS
        )
        return jnp.clip(matmul(jnp.clip(x, low, high), weight), least, most)


def turned(x_BSNH, cos_sin):
    """Heads turned by their patch's place: one half by its column, one by its row."""
    cos, sin = (part[:, :, None].astype(x_BSNH.dtype) for part in cos_sin)
    parts = x_BSNH.reshape(*x_BSNH.shape[:-1], 2, 2, -1)  # axis, half of it, pair
    first, second = parts[..., 0, :], parts[..., 1, :]
    both = first * cos - second * sin, second * cos + first * sin
    return jnp.stack(both, axis=-2).reshape(x_BSNH.shape)


class Gemma4Vision(nnx.Module):
    """Pictures in, image tokens of the decoder out.

    Args:
      width: D, of the decoder.
      dtype: of the weights.
    """

    def __init__(
        self, config: Gemma4VisionConfig, width, rngs: nnx.Rngs, dtype=jnp.float32
    ):
        c, C = config, config.width
        self.config = config

        def noise(*shape):
            numbers = jax.random.normal(rngs.params(), shape, jnp.float32)
            return nnx.Param((numbers * shape[-1] ** -0.5).astype(dtype))

        self.patches = noise(C, 3 * c.patch**2)
        self.positions = noise(2, c.positions, C)

        @nnx.split_rngs(splits=c.layers)
        @nnx.vmap(in_axes=0, out_axes=0)
        def stack(rngs):
            return Gemma4SeeingLayer(config, rngs, dtype)

        self.layers = stack(rngs)
        if c.standardized:
            self.token_bias = Fixed(jnp.zeros((C,), dtype))
            self.token_scale = Fixed(jnp.ones((C,), dtype))
        self.projection = noise(width, C)

    def __call__(self, images, activations, remat):
        """Strips (P, H, W, 3) or (P, N, H, W, 3) to (P, N·M, D).

        A row's image tokens come first, in the order of its pictures, however many
        each has; what follows them stands for nothing.

        Args:
          images: uint8, from `batches.images.fit_whole`; black where there is none.
          activations: dtype of everything between the weights.
          remat: wraps one layer, see `ops.REMAT`.
        Raises:
          ValueError: no strips, of another dtype, or of more squares than positions.
        """
        self._check(images)
        strips = images[:, None] if images.ndim == 4 else images
        P, N = strips.shape[:2]
        grids_PN2 = grids(strips)
        side = self.config.side
        squares = strips[:, :, side:].reshape(P * N, -1, side, side, 3)
        places, there_BM = where(grids_PN2.reshape(P * N, 2), squares.shape[1])
        x_BSC, cos_sin = self.embed(spread(squares), places, activations)
        there_BS = jnp.repeat(there_BM, self.config.pool**2, axis=1)
        graph, weights = nnx.split(self.layers)

        @remat
        def one_layer(x, weights):
            layer = nnx.merge(graph, gathered(weights, x.dtype))
            return spread(layer(spread(x), cos_sin, there_BS)), None

        x_BSC, _ = jax.lax.scan(one_layer, x_BSC, weights)
        tokens = self.tokens(x_BSC)
        tokens = tokens.reshape(P, N, -1, tokens.shape[-1])
        return without_gaps(tokens, grids_PN2.prod(axis=-1))

    def _check(self, images):
        side, pool = self.config.side, self.config.pool
        shape = images.shape[-3:]
        if images.ndim not in (4, 5) or shape[0] % side or shape[1:] != (side, 3):
            raise ValueError(
                f"Pictures of shape {images.shape}: this model sees strips (P, H, "
                f"{side}, 3) or (P, N, H, {side}, 3), H a multiple of {side}. Pass "
                "pictures through helpers.batches.images.fit_whole first."
            )
        if images.dtype != jnp.uint8:
            raise ValueError(
                f"Pictures are {images.dtype}: pass uint8, they are normalised here."
            )
        if (shape[0] // side - 1) * pool > self.config.positions:
            raise ValueError(
                f"Strips of {shape[0] // side - 1} squares: a picture that long may "
                f"have more patches in a row than {self.config.positions} positions. "
                "Take a smaller budget."
            )

    def embed(self, squares, places_BM2, activations):
        """Squares to patches (B, S, C), and the cosines and sines of their places."""
        c = self.config
        B, M = squares.shape[:2]
        cut = squares.reshape(B, M, c.pool, c.patch, c.pool, c.patch, 3).swapaxes(3, 4)
        pixels = cut.reshape(B, -1, 3 * c.patch**2).astype(jnp.float32) / 127.5 - 1.0
        inside = np.moveaxis(np.mgrid[: c.pool, : c.pool][::-1], 0, -1)  # column, row
        places = places_BM2[:, :, None, None] * c.pool + inside
        places_BS2 = places.reshape(B, -1, 2)
        w = self.whole(activations, "patches", "positions")
        x_BSC = matmul(pixels.astype(activations), w["patches"].T)
        columns, rows = w["positions"]
        x_BSC = x_BSC + (columns[places_BS2[..., 0]] + rows[places_BS2[..., 1]])
        frequency = frequencies(c.head_dim // 2, c.rope_theta).astype(np.float32)
        angle = places_BS2[..., None].astype(jnp.float32) * frequency
        return x_BSC, (jnp.cos(angle), jnp.sin(angle))

    def tokens(self, x_BSC):
        """Averages squares of patches and turns them to the decoder's width."""
        c = self.config
        squares = x_BSC.reshape(len(x_BSC), -1, c.pool**2, c.width)
        mean = squares.astype(jnp.float32).mean(axis=2) * c.width**0.5
        if c.standardized:
            bias, scale = (
                x[...].astype(jnp.float32) for x in (self.token_bias, self.token_scale)
            )
            mean = (mean - bias) * scale
        mean = mean.astype(x_BSC.dtype)
        soft = rms_norm(mean, jnp.ones(()), c.norm_eps, plus_one=False)
        return matmul(soft, self.whole(x_BSC.dtype, "projection")["projection"].T)

    def whole(self, dtype, *names):
        """The weights called so outside the layers, gathered, by name."""
        weights = gathered({name: getattr(self, name)[...] for name in names}, dtype)
        return {name: x.astype(dtype) for name, x in weights.items()}


def where(grids_B2, squares):
    """(column, row) of each square of a strip (B, M, 2), and whether it is there."""
    columns, rows = grids_B2[:, :1], grids_B2[:, 1:]
    number = jnp.arange(squares)
    row, column = jnp.divmod(number, jnp.maximum(columns, 1))
    there_BM = number < columns * rows
    places = jnp.stack([column, row], axis=-1)
    return jnp.where(there_BM[..., None], places, 0), there_BM


def without_gaps(tokens_PNMD, counts_PN):
    """The first so many tokens of each picture, next to each other: (P, N·M, D)."""
    P, N, M, D = tokens_PNMD.shape
    ends_PN = jnp.cumsum(counts_PN, axis=1)
    number = jnp.arange(N * M)
    picture = (number[:, None] >= ends_PN[:, None]).sum(axis=-1)
    picture = jnp.minimum(picture, N - 1)
    first = jnp.take_along_axis(ends_PN - counts_PN, picture, axis=1)
    index = picture * M + jnp.clip(number - first, 0, M - 1)
    return jnp.take_along_axis(tokens_PNMD.reshape(P, N * M, D), index[..., None], 1)
