"""Attention of long texts on TPUs, by a kernel that keeps the scores on the chip.

From `LONG` tokens on, writing scores to memory and reading them again takes most of
attention's time. Splash attention, which comes with JAX (Pallas), takes a block of
queries and a block of keys at a time, adds up as it goes (Dao et al. 2022, 2205.14135),
and leaves out blocks that no query sees. Axes: as in `helpers.model.attention`.
"""

import functools

import jax
from jax.experimental.pallas.ops.tpu import splash_attention as splash
from jax.sharding import PartitionSpec

from helpers.runtime.sharding import mesh_in_use

LONG = 2048  # tokens of a row from which on the kernel is taken
BLOCKS = 512, 256, 128  # queries and keys of a block: the first that divides the row


def fits(query_PGKRTH, pieces, reach) -> bool:
    """Whether the kernel can be taken: long rows that look at nothing but themselves.

    Images, in which tokens look ahead, and prompts that a group shares are left to
    `attention_blocks`; so are rows and heads that cannot be dealt out to the devices.
    """
    P, _, K, _, T, _ = query_PGKRTH.shape
    alone = len(pieces) == 1 and reach.segments is not None and not reach.ahead
    if not alone or T < LONG or T % BLOCKS[-1]:
        return False
    mesh = mesh_in_use()
    if mesh is None:  # several devices, and nothing known of who has what
        return jax.device_count() == 1
    return not (P % mesh.shape["data"] or K % mesh.shape["model"])


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
    given = query_PGKRTH, keys.swapaxes(3, 4), values, reach.segments
    look = functools.partial(_looked, reach.back, reach.whole, interpret)
    if mesh_in_use() is not None:  # the compiler cannot cut a kernel by itself
        rows, heads = PartitionSpec("data"), PartitionSpec("data", None, "model")
        specs = heads, heads, heads, rows
        look = jax.shard_map(look, in_specs=specs, out_specs=heads, check_vma=False)
    return look(*given)


def _looked(back, whole, interpret, query, keys, values, segments):
    """The same, of the rows and heads of one device."""
    far = functools.partial(_kernel, 0, interpret)
    if not back or whole is True:
        return far(query, keys, values, segments)
    near = functools.partial(_kernel, back, interpret)
    if whole is False:
        return near(query, keys, values, segments)
    return jax.lax.cond(whole, far, near, query, keys, values, segments)


def _kernel(back, interpret, query, keys, values, segments):
    P, G, K, R, T, H = query.shape
    size = next(block for block in BLOCKS if T % block == 0)
    sees = (back - 1 if back else None), 0  # tokens before a query, and after it
    mask = splash.LocalMask((T, T), sees, offset=0)
    attend = splash.make_splash_mha_single_device(
        splash.MultiHeadMask([mask] * (K * R)),
        block_sizes=_blocks(size),
        residual_checkpoint_name="attended",  # kept, as `ops.REMAT` says
        interpret=interpret,
    )

    def row(query, keys, values, segments):
        return attend(query, keys, values, splash.SegmentIds(segments, segments))

    flat = (
        query.reshape(P * G, K * R, T, H),
        *(x.reshape(P * G, *x.shape[2:]) for x in (keys, values, segments)),
    )
    # The compiler has no price for a kernel: `helpers.tpu` reads what it does here.
    with jax.named_scope(f"pairs_{P * G * K * R * pairs(T, size, back)}_wide_{H}"):
        found = jax.vmap(row)(*flat)
    return found.reshape(query.shape).astype(values.dtype)


def _blocks(size):
    """Queries and keys of a block, forward and in the two backward passes."""
    return splash.BlockSizes(
        block_q=size,
        block_kv=size,
        block_q_dkv=size,
        block_kv_dkv=size,
        block_kv_dkv_compute=size,
        block_q_dq=size,
        block_kv_dq=size,
    )


def pairs(T: int, size: int, back: int = 0) -> int:
    """How many (query, key) pairs the kernel looks at in a row of T tokens.

    Args:
      size: tokens in a block; one in which nothing is seen is left out.
      back: keys that a query sees at most, itself among them; 0 is all.
    """
    blocks = range(T // size)
    first = [max(0, i * size - back + 1) // size if back else 0 for i in blocks]
    return sum(i + 1 - first[i] for i in blocks) * size**2
