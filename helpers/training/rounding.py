"""What a parameter of 16 bits cannot hold of its moves, kept for the next one.

bfloat16 has eight binary digits: it rounds a move of less than a 512th of a parameter
away, step after step, and the model stays nearly where it was. So what was rounded away
is kept beside the optimizer's state and joins the next move: Kahan's summation
(2010.06192). It is kept in float32, for in 16 bits it would lose small moves in its
turn; the sum is then that of float32. This takes 4 bytes a parameter, 6 with the
parameter itself, where one in float32 takes 4 and needs none of it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class Compensated(NamedTuple):
    """An optimizer's state, and what each parameter of 16 bits lacks."""

    inner: Any
    lost: Any


def first_state(transform, params):
    """The optimizer's state before the first step, its moments in float32."""
    return _beside(transform.init(as_float32(params)), jax.tree.map(_lacks, params))


def whole(params, opt_state):
    """(parameters in float32 with what they lack, the transformation's own state)."""
    if not isinstance(opt_state, Compensated):
        return as_float32(params), opt_state
    found = jax.tree.map(
        lambda p, lost: p if _is_whole(p) else p.astype(jnp.float32) + lost,
        params,
        opt_state.lost,
    )
    return found, opt_state.inner


def rounded(exact, inner, params):
    """(parameters in the dtypes of `params`, state): what `whole` made, taken apart."""
    nearest = jax.tree.map(_nearest, exact, params)
    lost = jax.tree.map(
        lambda x, n, p: _lacks(p) if _is_whole(p) else x - n,
        *(exact, nearest, params),
    )
    new = jax.tree.map(lambda n, p: n.astype(p.dtype), nearest, params)
    return new, _beside(inner, lost)


def as_float32(tree):
    """Parameters in float32, so that gradients' moments are kept in it."""
    return jax.tree.map(lambda x: x.astype(jnp.float32), tree)


def _beside(inner, lost):
    return Compensated(inner, lost) if jax.tree.leaves(lost) else inner


def _is_whole(p):
    return jnp.finfo(p.dtype).bits >= 32


def _lacks(p):
    """Nothing yet; no array at all for what is never rounded."""
    return optax.MaskedNode() if _is_whole(p) else jnp.zeros_like(p, jnp.float32)


def _nearest(x, p):
    """A float32 that the dtype of `p` can hold; XLA may not skip this rounding."""
    if _is_whole(p):
        return x
    info = jnp.finfo(p.dtype)
    return jax.lax.reduce_precision(x, info.nexp, info.nmant)
