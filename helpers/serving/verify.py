"""What the target keeps of a drafter's tokens, so that nothing is changed by drafting.

Speculative sampling (Leviathan et al., 2211.17192, Algorithm 1): the target scores all
drafted tokens in one pass; each is kept with probability min(1, p/q), and in the place
of the first that is not, a token is drawn from what p has more than q. Every token that
comes out has the target's own distribution p, whatever the drafter's q.

Axes: … answers, B drafted tokens, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from helpers.generation.next_token import draw


class Verified(NamedTuple):
    """What became of the drafted tokens.

    kept: (…) int32: how many of them are kept, from the first on, 0 to B.
    token: (…) int32: the target's own token after these.
    """

    kept: jax.Array
    token: jax.Array


def verify_greedily(target, drafted) -> Verified:
    """Keeps drafted tokens as long as each is the target's likeliest.

    Args:
      target: (…, B+1, V) logits; entry i predicts drafted token i, the last one the
        token after all of them.
      drafted: (…, B) int32.
    """
    best = target.argmax(axis=-1).astype(jnp.int32)
    kept = _in_a_row(best[..., :-1] == drafted)
    return Verified(kept, jnp.take_along_axis(best, kept[..., None], axis=-1)[..., 0])


def verify(target, drafted, draft, temperature, uniform, last_uniform) -> Verified:
    """Keeps drafted tokens so that what comes out is distributed as the target's own.

    Args:
      target: (…, B+1, V) logits, as in `verify_greedily`.
      drafted: (…, B) int32.
      draft: (…, B, V) logits that the drafted tokens were drawn from, at this very
        temperature; None if the drafter had no choice (q is 1 at its token).
      temperature: above 0.
      uniform: (…, B) in [0, 1), which decide what is kept. last_uniform: (…), decides
        the target's own token. All of them independent of the drafter's.
    """
    p = jax.nn.softmax(target / temperature, axis=-1)
    if draft is None:
        q = jax.nn.one_hot(drafted, target.shape[-1], dtype=p.dtype)
    else:
        q = jax.nn.softmax(draft / temperature, axis=-1)
    p_drafted, q_drafted = (
        jnp.take_along_axis(x, drafted[..., None], axis=-1)[..., 0]
        for x in (p[..., :-1, :], q)
    )
    kept = _in_a_row(uniform * q_drafted < p_drafted)
    after_all = jnp.zeros_like(q[..., :1, :])  # nothing was drafted there
    more = jnp.maximum(p - jnp.concatenate([q, after_all], axis=-2), 0.0)
    own = _row(more, kept)
    # Rounding alone can leave nothing, where p and q are equal: p itself is right then.
    own = jnp.where(own.sum(axis=-1, keepdims=True) > 0, own, _row(p, kept))
    return Verified(kept, draw(jnp.log(own), last_uniform))


def _in_a_row(fine):
    """How many entries are true before the first that is not."""
    return jnp.cumprod(fine.astype(jnp.int32), axis=-1).sum(axis=-1)


def _row(values, index):
    """values (…, B+1, V) at index (…) -> (…, V)."""
    return jnp.take_along_axis(values, index[..., None, None], axis=-2)[..., 0, :]
