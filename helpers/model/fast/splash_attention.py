"""Attention of long texts on TPUs, by a kernel that keeps the scores on the chip.

From `LONG` tokens or patches on, writing scores to memory and reading them again takes
most of attention's time. Splash attention, which comes with JAX (Pallas), takes a block
of queries and a block of keys at a time, adds up as it goes (Dao et al. 2022,
2205.14135), and leaves out blocks that no query sees. Axes: as in
`helpers.model.attention`; of pictures as in `helpers.model.vision`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import splash_attention as splash
from jax.sharding import PartitionSpec

from helpers.runtime.sharding import mesh_in_use

LONG = 2048  # tokens of a row from which on the kernel is taken
WIDEST = 256  # heads: blocks of wider ones would not fit beside each other on the chip
BLOCKS = 512, 256, 128  # queries and keys of a block: the first that divides the row
# What has that size, in the forward pass and in both backward ones.
IN_BLOCKS = "block_q block_kv block_q_dkv block_kv_dkv block_kv_dkv_compute block_q_dq"
IN_BLOCKS += " block_kv_dq"


def fits(query_PGKRTH, pieces, reach) -> bool:
    """Whether the kernel can be taken: long rows that look at nothing but themselves.

    Images, in which tokens look ahead, and prompts that a group shares are left to
    blocks of queries (`attention.in_blocks`). So are heads that are too wide, and rows
    and heads that cannot be divided among the devices. With several devices the
    mesh must be in use.
    """
    P, _, K, _, T, H = query_PGKRTH.shape
    alone = len(pieces) == 1 and reach.segments is not None and not reach.ahead
    return alone and _long_and_dealt(P, K, T, H)


def fits_pictures(shape, *there_BS) -> bool:
    """Whether patches (B pictures, S, N heads, H) can go through it.

    If some may not be there, more of those make whole blocks.
    """
    B, S, N, H = shape
    return _long_and_dealt(B, N, S + bool(there_BS) * (-S % BLOCKS[-1]), H)


def _long_and_dealt(rows, heads, tokens, width):
    if tokens < LONG or tokens % BLOCKS[-1] or width > WIDEST:
        return False
    mesh = mesh_in_use()
    if mesh is None:  # several devices, and nothing known of who has what
        return jax.device_count() == 1
    return not (rows % mesh.shape["data"] or heads % mesh.shape["model"])


def attend_long(query_PGKRTH, pieces, reach, interpret=False):
    """What `attention.attend` finds, where `fits`.

    Args:
      query_PGKRTH: queries, already scaled.
      pieces: one of (keys (P, G, K, H, T), values (P, G, K, T, H)), the queries' own.
      reach: of the layer, with its tokens' segments. A token sees itself and those
        before it in its segment, `back` of them at most; what padding finds is of no
        meaning, as in `attend`.
      interpret: run the kernel without a TPU, slowly, for tests.
    Returns:
      (P, G, K, R, T, H), in the dtype of the values.
    """
    keys, values = pieces[0]
    look = functools.partial(_by_reach, reach.back, reach.whole, interpret)
    given = query_PGKRTH, keys.swapaxes(3, 4), values, reach.segments
    return _on_their_devices(look, *given)


def attend_pictures(q_BSNH, k_BSNH, v_BSNH, *there_BS, interpret=False):
    """What `vision.attend_to_all` finds, where `fits_pictures`; queries are scaled.

    Patches that are not there are a segment of their own, and find each other.
    """
    look = functools.partial(_by_kernel, _everyone, None, interpret)
    S, given = q_BSNH.shape[1], [q_BSNH, k_BSNH, v_BSNH, *there_BS]
    if there_BS:
        more = [(0, 0), (0, -S % BLOCKS[-1]), (0, 0), (0, 0)]
        given = [jnp.pad(x, more[: x.ndim]) for x in given]
    q, k, v = (x.swapaxes(1, 2)[:, None] for x in given[:3])
    segments = [x[:, None].astype(jnp.int32) for x in given[3:]]
    output = _on_their_devices(look, q[:, :, :, None], k, v, *segments)
    return output[:, 0, :, 0].swapaxes(1, 2)[:, :S]


def _on_their_devices(look, *given):
    """The compiler cannot cut a kernel by itself: each device takes its own part.

    Args:
      look: what finds (P, G, K, R, T, H) for what is given.
      given: queries of that shape, keys and values (P, G, K, T, H) and, of a text,
        segments (P, G, T).
    """
    if mesh_in_use() is None:
        return look(*given)
    rows, heads = PartitionSpec("data"), PartitionSpec("data", None, "model")
    specs = (heads, heads, heads, rows)[: len(given)]
    cut = jax.shard_map(look, in_specs=specs, out_specs=heads, check_vma=False)
    return cut(*given)


def _by_reach(back, whole, interpret, *given):
    """A text's layer that sees everything, or `back` tokens, or either."""
    far = functools.partial(_by_kernel, _before, "attended", interpret)
    if not back or whole is True:
        return far(*given)
    within = functools.partial(_before, back=back)
    near = functools.partial(_by_kernel, within, "attended", interpret)
    if whole is False:
        return near(*given)
    return jax.lax.cond(whole, far, near, *given)


def _before(T, size, back=0):
    """The mask of a text, and the pairs in its blocks of `size`; `back` as `Reach`."""
    sees = (back - 1 if back else None), 0  # tokens before a query, and after it
    return splash.LocalMask((T, T), sees, offset=0), pairs(T, size, back)


def _everyone(T, size):
    """The same of a picture, in which every patch looks at every patch."""
    return splash.FullMask((T, T)), T * T


def _by_kernel(who, saved_as, interpret, query, *given):
    """The rows and heads of one device; shapes as in `_on_their_devices`.

    Args:
      who: `_before` or `_everyone`, which tell who sees whom.
      saved_as: the name, of `ops.REMAT`, under which the result is saved for the
        backward pass; None: it is computed again.
    """
    P, G, K, R, T, H = query.shape
    size = next(block for block in BLOCKS if T % block == 0)
    mask, looked_at = who(T, size)
    sizes: Any = dict.fromkeys(IN_BLOCKS.split(), size)
    attend = splash.make_splash_mha_single_device(
        splash.MultiHeadMask([mask] * (K * R)),
        block_sizes=splash.BlockSizes(**sizes),
        residual_checkpoint_name=saved_as,
        interpret=interpret,
    )

    def row(query, keys, values, *segments):
        ids = splash.SegmentIds(*segments, *segments) if segments else None
        return attend(query, keys, values, ids)

    flat = [query.reshape(P * G, K * R, T, H)]
    flat += [x.reshape(P * G, *x.shape[2:]) for x in given]
    # The compiler has no price for a kernel: `helpers.tpu` reads what it does here.
    with jax.named_scope(f"pairs_{P * G * K * R * looked_at}_wide_{H}"):
        output = jax.vmap(row)(*flat)
    return output.reshape(query.shape).astype(given[1].dtype)


def pairs(T: int, size: int, back: int = 0) -> int:
    """How many (query, key) pairs the kernel looks at in a row of T tokens.

    Args:
      size: tokens in a block; one in which nothing is seen is left out.
      back: keys that a query sees at most, itself among them; 0 is all.
    """
    blocks = range(T // size)
    first = [max(0, i * size - back + 1) // size if back else 0 for i in blocks]
    return sum(i + 1 - first[i] for i in blocks) * size**2
