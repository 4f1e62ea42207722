"""The kernel of long texts on four devices against one, rows and heads dealt out.

`XLA_FLAGS=--xla_force_host_platform_device_count=4 python tests/sharded_long_texts.py`
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from helpers.model.attention import Reach
from helpers.model.fast.splash_attention import attend_long, attend_pictures
from helpers.model.ops import rematerialised
from helpers.runtime.sharding import make_mesh, using

T = 256


def texts(seed, *, P=1, G=1, K=1, R=2, H=16, T=T):
    """Queries, a piece, and segments: packed texts, the last places padding."""
    keys = jax.random.split(jax.random.key(seed), 4)
    query = jax.random.normal(keys[0], (P, G, K, R, T, H)) * H**-0.5
    piece = (
        jax.random.normal(keys[1], (P, G, K, H, T)),
        jax.random.normal(keys[2], (P, G, K, T, H)),
    )
    segments = jnp.sort(jax.random.randint(keys[3], (P, G, T), 1, 4), -1)
    return query, piece, segments.at[..., T - 9 :].set(0)


def attend(query, piece, segments):
    """What layers of both kinds find in turn, and gradients for all they are given."""
    real = (segments > 0)[:, :, None, None, :, None]

    def total(query, piece):
        @rematerialised("layer")
        def one_layer(query, is_global):
            reach = Reach(0, 50, is_global, segments)
            result = attend_long(query, [piece], reach, interpret=True) * real
            return query + result, result

        _, result = jax.lax.scan(one_layer, query, jnp.array([True, False]))
        return (result**2).sum(), result[-1]

    return jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(query, piece)


def main():
    """Compares them, on two places for rows and two for heads."""
    assert jax.device_count() == 4
    given = texts(3, P=4, K=2)
    alone = jax.jit(attend)(*given)
    mesh = make_mesh(jax.devices(), 2)
    spread = jax.device_put(given, NamedSharding(mesh, PartitionSpec("data")))
    with using(spread):
        result = jax.jit(attend)(*spread)
    heads = result[0][1].sharding.spec
    assert heads[0] == "data" and heads[2] == "model", heads
    for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    patches = jax.random.normal(jax.random.key(1), (4, T, 2, 16))
    alone = attend_pictures(*[patches] * 3, interpret=True)
    spread = jax.device_put(patches, NamedSharding(mesh, PartitionSpec("data")))
    with using(spread):
        result = jax.jit(lambda x: attend_pictures(x, x, x, interpret=True))(spread)
    np.testing.assert_allclose(result, alone, atol=1e-5)


if __name__ == "__main__":
    main()
