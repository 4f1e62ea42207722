"""Numbers about some of the tokens: a large vocabulary on a CPU is worth leaving out.

Half of the tokens of a batch are questions, padding, or what follows an answer's end.
Their logits are a fifth of the work of a small model with a large vocabulary, and no
loss reads them. Shapes cannot depend on a mask, but a chunk of tokens can be left out
while the program runs: the tokens that are asked for come first, and a chunk that has
none of them is not computed.
"""

import jax
import jax.numpy as jnp

from helpers.model.head import in_chunks
from helpers.runtime.sharding import mesh_in_use

CHUNK = 128  # tokens that are computed or left out together
LARGE = 10**7  # entries of a table from which on that is worth its sorting


def pays(hidden, table_VD) -> bool:
    """Whether leaving tokens out saves time: in float32, on one CPU, large tables.

    Accelerators would wait for each chunk's answer whether it is needed, and the tiny
    models' logits cost less than the sorting.
    """
    alone = jax.default_backend() == "cpu" and mesh_in_use() is None
    return alone and hidden.dtype == jnp.float32 and table_VD.size >= LARGE


def in_chunks_asked(function, table, arrays, asked_N, chunk=CHUNK):
    """`head.in_chunks`, computing only chunks with tokens that are asked for.

    Args:
      function: `function(table, None, hidden, *others)`, as for `in_chunks`.
      arrays: hidden (N, D), then others whose first axis is N.
      asked_N: bool (N).
      chunk: the most tokens that are computed at a time.
    Returns:
      What `function` returns; numbers about tokens that are not asked for are 0, and
      have no gradient.
    """
    N = asked_N.shape[0]
    chunk = max(1, min(chunk, N))
    count = -(-N // chunk)
    order = jnp.argsort(~asked_N, stable=True)
    order = jnp.pad(order, (0, count * chunk - N), constant_values=N)  # N: no token
    # A chunk of `in_chunks` is every count-th token: each gets neighbours of the order.
    place = order.reshape(count, chunk).T.reshape(-1)

    def if_asked(table, fixed, hidden, asked, *others):
        def compute():
            found = function(table, fixed, hidden, *others)
            return tuple(jnp.where(asked, x, jnp.zeros_like(x)) for x in found)

        def leave_out():
            return jax.tree.map(
                lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(compute)
            )

        return jax.lax.cond(asked.any(), compute, leave_out)

    hidden, *others = (jnp.take(x, place, axis=0, mode="clip") for x in arrays)
    asked = jnp.take(asked_N, place, mode="fill", fill_value=False)
    found = in_chunks(if_asked, table, None, (hidden, asked, *others), chunk)
    return jax.tree.map(
        lambda x: jnp.zeros(N, x.dtype).at[place].set(x, mode="drop"), found
    )
