"""What Gemma 3 and 4 see with: a tower, and the way from its patches to the decoder.

A picture is cut into patches, which look at each other in every layer of the tower
(SigLIP, 2303.15343); squares of neighbours are then averaged to a few image tokens of
the decoder's width (Gemma 3, 2503.19786). Gemma 4 keeps a picture's shape, and its
patches' places are rotary. As in the decoder, all layers are one whose weights carry a
leading layer axis.
Axes: B pictures, S patches, N heads, H head width, C tower width, D decoder width.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.model import ops
from helpers.model.families import BOUNDS, MATRICES
from helpers.model.fast import splash_attention
from helpers.model.gemma4 import Fixed
from helpers.model.vision_config import Gemma4VisionConfig, VisionConfig, grids
from helpers.runtime.sharding import gathered, spread

QUERIES = 256  # patches whose attention scores exist at once


def layer_norm(x, scale, bias, eps):
    """Layer norm over the last axis in float32 (1607.06450), dtype kept."""
    x32 = x.astype(jnp.float32)
    x32 = x32 - x32.mean(axis=-1, keepdims=True)
    x32 = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + eps)
    return (x32 * scale.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)


def attend_to_all(q_BSNH, k_BSNH, v_BSNH, *there_BS, scale=None):
    """Softmax attention in both directions; (B, S, N, H).

    On TPUs many patches go through a kernel.

    Args:
      there_BS: bool, where there is a patch to look at; not given: everywhere.
      scale: what products are multiplied by; None: 1/√H.
    """
    scale = q_BSNH.shape[-1] ** -0.5 if scale is None else scale
    if not splash_attention.fits_pictures(q_BSNH.shape, *there_BS):
        return in_blocks(q_BSNH, k_BSNH, v_BSNH, scale, *there_BS)
    return jax.lax.platform_dependent(
        *(q_BSNH, k_BSNH, v_BSNH, *there_BS),
        tpu=lambda q, *given: splash_attention.attend_pictures(q * scale, *given),
        default=lambda q, k, v, *there: in_blocks(q, k, v, scale, *there),
    )


def in_blocks(q_BSNH, k_BSNH, v_BSNH, scale, there_BS=None):
    """`attend_to_all`, so many queries at a time."""
    B, S, N, H = q_BSNH.shape

    @jax.checkpoint
    def block(q_BQNH):
        scores = jnp.einsum(
            "bqnh,bsnh->bnqs", q_BQNH, k_BSNH, preferred_element_type=jnp.float32
        )
        if there_BS is not None:
            scores = jnp.where(there_BS[:, None, None], scores, -1e30)
        weights = jax.nn.softmax(scores * scale, axis=-1).astype(v_BSNH.dtype)
        return jnp.einsum("bnqs,bsnh->bqnh", weights, v_BSNH)

    if S <= QUERIES:
        return block(q_BSNH)
    q_BSNH = jnp.pad(q_BSNH, [(0, 0), (0, -S % QUERIES), (0, 0), (0, 0)])
    blocks = q_BSNH.reshape(B, -1, QUERIES, N, H).swapaxes(0, 1)
    return jax.lax.map(block, blocks).swapaxes(0, 1).reshape(B, -1, N, H)[:, :S]


class SeeingLayer(nnx.Module):
    """One block of the tower: attention, then a feed-forward, each added to x."""

    def __init__(self, config: VisionConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        C, F = config.width, config.ff
        self.config = config
        for name in "attention_norm", "ff_norm":
            setattr(self, name, ops.vector(C, 1.0, dtype))
            setattr(self, f"{name}_bias", ops.vector(C, 0.0, dtype))
        shapes = dict.fromkeys("qkvo", (C, C)) | {"up": (C, F), "down": (F, C)}
        for name, shape in shapes.items():
            setattr(self, name, ops.random_matrix(rngs, shape, dtype))
            setattr(self, f"{name}_bias", ops.vector(shape[1], 0.0, dtype))

    def __call__(self, x_BSC):
        """Returns the new x."""
        x_BSC = x_BSC + self.attention(self.norm(x_BSC, "attention_norm"))
        fed = self.project(self.norm(x_BSC, "ff_norm"), "up")
        fed = jax.nn.gelu(fed, approximate=True)
        return x_BSC + self.project(fed, "down")

    def attention(self, x_BSC):
        """Every patch looks at every patch."""
        B, S, C = x_BSC.shape
        heads = (B, S, self.config.heads, -1)
        q, k, v = (self.project(x_BSC, name).reshape(heads) for name in "qkv")
        return self.project(attend_to_all(q, k, v).reshape(B, S, C), "o")

    def norm(self, x, name):
        """Layer norm with the weights called `name`."""
        scale, bias = (getattr(self, n)[...] for n in (name, f"{name}_bias"))
        return layer_norm(x, scale, bias, self.config.norm_eps)

    def project(self, x, name):
        """x times the matrix called `name`, plus its bias."""
        weight, bias = (getattr(self, n)[...] for n in (name, f"{name}_bias"))
        return ops.matmul(x, weight.astype(x.dtype)) + bias.astype(x.dtype)


class Tower(nnx.Module):
    """What both towers share: a walk over their layers, and weights outside of them."""

    config: Any
    layers: nnx.Module

    def walk(self, x_BSC, remat, *given):
        """All layers, one after the other; each is wrapped by `remat`."""
        graph, weights = nnx.split(self.layers)

        @remat
        def one_layer(x, weights):
            layer = nnx.merge(graph, gathered(weights, x.dtype))
            return spread(layer(spread(x), *given)), None

        return jax.lax.scan(one_layer, x_BSC, weights)[0]

    def whole(self, dtype, *names):
        """The weights called so outside the layers, gathered, by name."""
        weights = gathered({name: getattr(self, name)[...] for name in names}, dtype)
        return {name: x.astype(dtype) for name, x in weights.items()}


class Vision(Tower):
    """Pictures in, image tokens of the decoder out.

    Args:
      width: D, of the decoder.
      dtype: of the weights.
    """

    def __init__(self, config: VisionConfig, width, rngs: nnx.Rngs, dtype=jnp.float32):
        c, C = config, config.width
        self.config = config
        self.patch = ops.random_matrix(rngs, (3 * c.patch**2, C), dtype)
        self.patch_bias = ops.vector(C, 0.0, dtype)
        self.positions = ops.random_matrix(rngs, (c.grid**2, C), dtype)
        make = functools.partial(SeeingLayer, config, dtype=dtype)
        self.layers = ops.stack(make, c.layers, rngs)
        self.final_norm = ops.vector(C, 1.0, dtype)
        self.final_norm_bias = ops.vector(C, 0.0, dtype)
        self.soft_norm = ops.vector(C, 0.0, dtype)
        self.projection = ops.random_matrix(rngs, (C, width), dtype)

    def __call__(self, images, activations, remat):
        """uint8 pictures (P, H, W, 3) or (P, N, H, W, 3) to (P, N·M, D).

        Args:
          activations: dtype of everything between the weights.
          remat: wraps one layer, see `ops.REMAT`.
        """
        P, size = images.shape[0], self.config.size
        pixels = images.reshape(-1, size, size, 3).astype(jnp.float32)
        x_BSC = self.embed(spread(pixels / 127.5 - 1.0).astype(activations))
        x_BSC = self.walk(x_BSC, remat)
        return self.tokens(x_BSC).reshape(P, -1, self.projection.shape[-1])

    def embed(self, pixels_BHWc):
        """Cuts pictures into patches, row by row, and embeds each: (B, S, C)."""
        c = self.config
        w = self.whole(pixels_BHWc.dtype, "patch", "patch_bias", "positions")
        cut = pixels_BHWc.reshape(-1, c.grid, c.patch, c.grid, c.patch, 3)
        patches = cut.swapaxes(2, 3).reshape(-1, c.grid**2, 3 * c.patch**2)
        return ops.matmul(patches, w["patch"]) + w["patch_bias"] + w["positions"]

    def tokens(self, x_BSC):
        """Averages squares of patches and turns them to the decoder's width."""
        c = self.config
        final = self.final_norm[...], self.final_norm_bias[...]
        projection = self.whole(x_BSC.dtype, "projection")["projection"]
        x_BSC = layer_norm(x_BSC, *final, c.norm_eps)
        k = c.grid // c.side
        squares = x_BSC.reshape(-1, c.side, k, c.side, k, c.width)
        mean = squares.astype(jnp.float32).mean(axis=(2, 4)).astype(x_BSC.dtype)
        mean = mean.reshape(-1, c.tokens, c.width)
        soft = ops.rms_norm(mean, self.soft_norm[...], c.norm_eps, plus_one=True)
        return ops.matmul(soft, projection)


def image_runs(is_image_PGT):
    """The number, from 1, of the unbroken run of image tokens each token stands in.

    Returns int32, 0 outside images. Images side by side are one run, as transformers
    takes them; Gemma 3's prompts have a begin and an end token around each.
    """
    before = jnp.pad(is_image_PGT, [(0, 0), (0, 0), (1, 0)])[..., :-1]
    starts = (is_image_PGT & ~before).astype(jnp.int32)
    return jnp.where(is_image_PGT, jnp.cumsum(starts, axis=-1), 0)


def put_in(x_PGTD, is_image_PGT, images_PID):
    """x with the i-th image token of each row replaced by the row's i-th embedding."""
    index = jnp.cumsum(is_image_PGT.astype(jnp.int32), axis=-1) - 1
    index = jnp.clip(index, 0, images_PID.shape[1] - 1)[..., None]
    wanted = jnp.take_along_axis(images_PID[:, None], index, axis=2)
    return jnp.where(is_image_PGT[..., None], wanted.astype(x_PGTD.dtype), x_PGTD)


class Gemma4SeeingLayer(nnx.Module):
    """One block of the tower: attention, then a gated feed-forward, each added to x."""

    def __init__(self, config: Gemma4VisionConfig, rngs: nnx.Rngs, dtype=jnp.float32):
        c, C, F, H = config, config.width, config.ff, config.head_dim
        N, K = c.heads * H, c.kv_heads * H
        self.config = config
        for name in "attention_norm", "post_attention_norm", "ff_norm", "post_ff_norm":
            setattr(self, name, ops.vector(C, 1.0, dtype))
        self.q_norm, self.k_norm = (ops.vector(H, 1.0, dtype) for _ in range(2))
        shapes = {"q": (C, N), "k": (C, K), "v": (C, K), "o": (N, C)}
        shapes |= {"gate": (C, F), "up": (C, F), "down": (F, C)}
        for name, shape in shapes.items():
            setattr(self, name, ops.random_matrix(rngs, shape, dtype))
        for name in MATRICES if c.clipped else ():
            for bound in BOUNDS:
                widest = jnp.inf if bound.endswith("max") else -jnp.inf
                setattr(self, f"{name}_{bound}", Fixed(jnp.array(widest, dtype)))

    def __call__(self, x_BSC, cos_sin, there_BS):
        """Returns the new x; nobody looks at patches that are not there."""
        mixed = self.attention(self.norm(x_BSC, "attention_norm"), cos_sin, there_BS)
        x_BSC = x_BSC + self.norm(mixed, "post_attention_norm")
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
        v = ops.rms_norm(v, jnp.ones(()), c.norm_eps, plus_one=False)
        q, k = turned(q, cos_sin), turned(k, cos_sin)
        k, v = (jnp.repeat(y, c.heads // c.kv_heads, axis=2) for y in (k, v))
        mixed = attend_to_all(q, k, v, there_BS, scale=1.0)
        return self.project(mixed.reshape(*x_BSC.shape[:2], -1), "o")

    def norm(self, x, name):
        """RMS norm with the weights called `name`."""
        return ops.rms_norm(x, getattr(self, name)[...], self.config.norm_eps, False)

    def project(self, x, name):
        """x times the matrix called `name`; both ends within its bounds, if any."""
        weight = getattr(self, name)[...].astype(x.dtype)
        if not self.config.clipped:
            return ops.matmul(x, weight)
        low, high, least, most = (
            getattr(self, f"{name}_{bound}")[...].astype(x.dtype) for bound in BOUNDS
        )
        return jnp.clip(ops.matmul(jnp.clip(x, low, high), weight), least, most)


def turned(x_BSNH, cos_sin):
    """Heads turned by their patch's place: one half by its column, one by its row."""
    cos, sin = (part[:, :, None].astype(x_BSNH.dtype) for part in cos_sin)
    parts = x_BSNH.reshape(*x_BSNH.shape[:-1], 2, 2, -1)  # axis, half of it, pair
    first, second = parts[..., 0, :], parts[..., 1, :]
    both = first * cos - second * sin, second * cos + first * sin
    return jnp.stack(both, axis=-2).reshape(x_BSNH.shape)


class Gemma4Vision(Tower):
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
        pixels = 3 * c.patch**2
        self.patches = ops.random_matrix(rngs, (C, pixels), dtype, pixels)
        self.positions = ops.random_matrix(rngs, (2, c.positions, C), dtype, C)
        make = functools.partial(Gemma4SeeingLayer, config, dtype=dtype)
        self.layers = ops.stack(make, c.layers, rngs)
        if c.standardized:
            self.token_bias = Fixed(jnp.zeros((C,), dtype))
            self.token_scale = Fixed(jnp.ones((C,), dtype))
        self.projection = ops.random_matrix(rngs, (width, C), dtype, C)

    def __call__(self, images, activations, remat):
        """Strips (P, H, W, 3) or (P, N, H, W, 3) to (P, N·M, D).

        A row's image tokens come first, in the order of its pictures, however many
        each has; what follows them stands for nothing.

        Args:
          images: uint8, from `batches.images.fit_for`; black where there is none.
          activations: dtype of everything between the weights.
          remat: wraps one layer, see `ops.REMAT`.
        """
        strips = images[:, None] if images.ndim == 4 else images
        P, N = strips.shape[:2]
        grids_PN2 = grids(strips)
        side = self.config.side
        squares = strips[:, :, side:].reshape(P * N, -1, side, side, 3)
        places, there_BM = squares_of(grids_PN2.reshape(P * N, 2), squares.shape[1])
        x_BSC, cos_sin = self.embed(spread(squares), places, activations)
        there_BS = jnp.repeat(there_BM, self.config.pool**2, axis=1)
        tokens = self.tokens(self.walk(x_BSC, remat, cos_sin, there_BS))
        tokens = tokens.reshape(P, N, -1, tokens.shape[-1])
        return without_gaps(tokens, grids_PN2.prod(axis=-1))

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
        x_BSC = ops.matmul(pixels.astype(activations), w["patches"].T)
        columns, rows = w["positions"]
        x_BSC = x_BSC + (columns[places_BS2[..., 0]] + rows[places_BS2[..., 1]])
        frequency = ops.frequencies(c.head_dim // 2, c.rope_theta)
        return x_BSC, ops.rotary(places_BS2, frequency)

    def tokens(self, x_BSC):
        """Averages squares of patches and turns them to the decoder's width."""
        c = self.config
        squares = x_BSC.reshape(len(x_BSC), -1, c.pool**2, c.width)
        mean = squares.astype(jnp.float32).mean(axis=2) * c.width**0.5
        if c.standardized:
            bias, scale = self.token_bias[...], self.token_scale[...]
            bias, scale = bias.astype(jnp.float32), scale.astype(jnp.float32)
            mean = (mean - bias) * scale
        mean = mean.astype(x_BSC.dtype)
        soft = ops.rms_norm(mean, jnp.ones(()), c.norm_eps, plus_one=False)
        return ops.matmul(soft, self.whole(x_BSC.dtype, "projection")["projection"].T)


def squares_of(grids_B2, squares):
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
