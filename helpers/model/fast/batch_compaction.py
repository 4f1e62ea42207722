"""Room of ended answers: once few enough go on, they share half the rows.

Every row costs a token's work, ended or not. On a CPU that work is nearly all of a
token's time; a second loop, of half the rows, saves much of it, and is another body to
compile. On TPUs compiling takes about what it saves (docs/compiler.md).
"""

import math

import jax
import jax.numpy as jnp

from helpers.model.attention import KV
from helpers.runtime.sharding import mesh_in_use

WORK = 1e11  # parameters × tokens of all answers: some seconds of a laptop


def pays(weights, answers: tuple[int, ...], max_tokens) -> bool:
    """Whether two loops take less time than one, to compile the second included.

    Not over several devices, where the answers that go on would be sent about.

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
    """The completions after a loop of all rows, and one of half of them.

    Answers move together with others of their prompt, half a group at a time, so that
    the prompts' KV takes no more room.

    Args:
      loop: (going_on, prefix, length_PG, choose, carry) -> carry, see `sampling`.
      carry: (t, token_PG, completions, cache).
      axis: that of the prompts in keys and values.
    """
    carry = loop(lambda ended_PG: ~fits(ended_PG), prefix, length_PG, choose, carry)
    t, token_PG, out, cache = carry
    rows = places(out.ended)
    half = t, token_PG[rows], jax.tree.map(lambda x: x[rows], out)
    *_, new, _ = loop(
        lambda ended_PG: ~ended_PG.all(),
        moved(prefix, (rows[0][:, 0],), axis),
        length_PG[rows],
        choose.of_rows(rows),
        (*half, moved(cache, rows, axis)),
    )
    return jax.tree.map(lambda old, new: old.at[rows].set(new), out, new)


def fits(ended_PG):
    """Whether the answers that go on take half the rows at most, as `places` has it."""
    P, G = ended_PG.shape
    size = max(1, G // 2)
    going_P = (~ended_PG).sum(axis=1)
    return (-(-going_P // size)).sum() <= P * G // 2 // size


def places(ended_PG):
    """Which answers move, those that go on first: prompt (N, 1) and member (N, g).

    N × g is half the rows: g is half a group, or 1 where each prompt has one answer.
    """
    P, G = ended_PG.shape
    size = max(1, G // 2)
    member_PG = jnp.argsort(ended_PG, axis=1, stable=True)
    ended_PG = jnp.take_along_axis(ended_PG, member_PG, axis=1)
    part_N = jnp.argsort(ended_PG[:, ::size].reshape(-1), stable=True)
    part_N = part_N[: P * G // 2 // size]
    return (part_N * size // G)[:, None], member_PG.reshape(-1, size)[part_N]


def moved(kv: KV, places, axis) -> KV:
    """The KV of some rows, by their index along one or two axes from `axis` on."""
    at = (slice(None),) * axis + places
    keys, values = jax.tree.map(lambda x: x[at], (kv.keys, kv.values))
    return KV(keys, values, kv.positions[places], kv.segments[places])
