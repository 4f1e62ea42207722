"""Whether arrays on devices hold numbers, and no infinity."""

import jax
import jax.numpy as jnp


def not_finite(tree) -> str:
    """The path of an array of a tree that is not finite throughout; "" if all are."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    for path, x in leaves:
        if jnp.issubdtype(x.dtype, jnp.floating) and not _all_finite(x):
            return jax.tree_util.keystr(path)
    return ""


@jax.jit  # once for each shape, whatever the tree
def _all_finite(x):
    return jnp.isfinite(x).all()
