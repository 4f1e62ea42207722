"""Notebook 11: divergences, and what they cost."""

import jax.numpy as jnp


def kl(p, q):
    return (p * (jnp.log(p) - jnp.log(q))).sum(-1)


def mixture(share=0.5, *, to=lambda p, q, m: (kl(p, m), kl(q, m)), part=0.5):
    def divergence(p, q):
        first, second = to(p, q, share * p + (1 - share) * q)
        return part * first + (1 - part) * second

    return divergence


WRONG = {
    "11-1": {
        "forward": lambda s, t: (jnp.exp(t) * (t - s)).sum(-1),
        "the wrong sign": lambda s, t: (jnp.exp(s) * (t - s)).sum(-1),
        "averaged under the teacher": lambda s, t: (jnp.exp(t) * (s - t)).sum(-1),
        "a mean": lambda s, t: (jnp.exp(s) * (s - t)).mean(-1),
        "one number": lambda s, t: (jnp.exp(s) * (s - t)).sum(),
        "the other axis": lambda s, t: (jnp.exp(s) * (s - t)).sum(
            0 if s.shape[0] == s.shape[1] else 1
        ),
        "logarithms as weights": lambda s, t: (s * (s - t)).sum(-1),
        "bits": lambda s, t: (jnp.exp(s) * (s - t)).sum(-1) / jnp.log(2),
        "the example": lambda s, t: jnp.array([0.0993, 0.0][: len(s)]),
    },
    "11-2": {
        "one per token": 32 * 4 * 64,
        "one question": 4 * 64 * 673,
        "one answer each": 32 * 64 * 673,
        "one token": 32 * 4 * 673,
        "twice": 2 * 32 * 4 * 64 * 673,
        "a half more": 32 * 4 * 64 * 673 + 0.5,
        "minus": -32 * 4 * 64 * 673,
        "none": 0,
    },
    "11-3": {
        "twice": mixture(to=lambda p, q, m: (2 * kl(p, m), 2 * kl(q, m))),
        "no mixture": mixture(to=lambda p, q, m: (kl(p, q), kl(q, p))),
        "one side": mixture(part=1.0),
        "a leaning mixture": mixture(0.4),
        "upside down": mixture(to=lambda p, q, m: (kl(m, p), kl(m, q))),
        "one number": lambda p, q: mixture()(p, q).sum(),
        "the root": lambda p, q: jnp.sqrt(mixture()(p, q)),
        "half the distance": lambda p, q: abs(p - q).sum(-1) / 2,
    },
}

RIGHT = {
    "11-1": {"by probabilities": lambda s, t: kl(jnp.exp(s), jnp.exp(t))},
    "11-2": {"a product": 673 * 8192},
    "11-3": {
        "entropies": lambda p, q: (
            (p * jnp.log(p) + q * jnp.log(q)).sum(-1) / 2
            - ((p + q) / 2 * jnp.log((p + q) / 2)).sum(-1)
        ),
        "two KLs": mixture(),
    },
}
