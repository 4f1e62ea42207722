"""Batch compaction: once at most half of the answers still run, so do half the rows.

Every row costs a token's work, whether its answer has ended or not. On a CPU that work
is nearly all of a token's time, and a second loop over half the rows saves much of it.
It is one more loop to compile. On TPUs that takes as long as it saves
(docs/compiler.md).
"""

import math

import jax
import jax.numpy as jnp

from helpers.model.attention import KV
from helpers.runtime.sharding import mesh_in_use

WORK = 1e11  # parameters × tokens of all answers: some seconds of a laptop


def pays(weights, answers: tuple[int, ...], max_tokens) -> bool:
    """Whether two loops take less time than one, with the time to compile the second.

    Never over several devices, which would have to exchange the remaining answers.

    Args:
      answers: (prompts, group, …).
    """
    prompts, group, *_ = answers
    if jax.default_backend() != "cpu" or mesh_in_use() is not None:
        return False
    if group % 2 and (group > 1 or prompts == 1):
        return False
    parameters = sum(math.prod(x.shape) for x in jax.tree.leaves(weights))
    return parameters * prompts * group * max_tokens >= WORK


def generate_compacted(loop, prefix, length_PG, choose, carry, axis):
    """The completions after a loop over all rows, then one over half of them.

    Answers are selected half a group at a time, so that a group still shares its
    prompt's KV.

    Args:
      loop: (going_on, prefix, length_PG, choose, carry) -> carry, see `sampling`.
      carry: (t, token_PG, completions, cache).
      axis: that of the prompts in keys and values.
    """
    carry = loop(
        lambda ended_PG: ~half_suffices(ended_PG), prefix, length_PG, choose, carry
    )
    t, token_PG, out, cache = carry
    rows = remaining_rows(out.ended)
    half = t, token_PG[rows], jax.tree.map(lambda x: x[rows], out)
    *_, new, _ = loop(
        lambda ended_PG: ~ended_PG.all(),
        take_rows(prefix, (rows[0][:, 0],), axis),
        length_PG[rows],
        choose.of_rows(rows),
        (*half, take_rows(cache, rows, axis)),
    )
    return jax.tree.map(lambda old, new: old.at[rows].set(new), out, new)


def half_suffices(ended_PG):
    """Whether the running answers fit into half the rows, see `remaining_rows`."""
    P, G = ended_PG.shape
    size = max(1, G // 2)
    going_P = (~ended_PG).sum(axis=1)
    return (-(-going_P // size)).sum() <= P * G // 2 // size


def remaining_rows(ended_PG):
    """Half of the rows, running answers first: prompt (N, 1) and member (N, g).

    N × g is half the rows: g is half a group, or 1 where each prompt has one answer.
    """
    P, G = ended_PG.shape
    size = max(1, G // 2)
    member_PG = jnp.argsort(ended_PG, axis=1, stable=True)
    ended_PG = jnp.take_along_axis(ended_PG, member_PG, axis=1)
    part_N = jnp.argsort(ended_PG[:, ::size].reshape(-1), stable=True)
    part_N = part_N[: P * G // 2 // size]
    return (part_N * size // G)[:, None], member_PG.reshape(-1, size)[part_N]


def take_rows(kv: KV, rows, axis) -> KV:
    """The KV of some rows, by their index along one or two axes from `axis` on."""
    at = (slice(None),) * axis + rows
    keys, values = jax.tree.map(lambda x: x[at], (kv.keys, kv.values))
    return KV(keys, values, kv.positions[rows], kv.segments[rows])
