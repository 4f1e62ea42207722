"""Self-checks of notebook 08."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, filled, judge


def check_sequence_ratio(answer) -> Check:
    """A prediction: the geometric mean of two token ratios."""
    return judge(
        ("be filled in", filled(answer, what="a number")),
        ("be a number", lambda: float(answer) == answer),
        ("lie between the two token ratios", lambda: 0.5 < answer < 2),
        ("be the geometric, not the arithmetic mean", lambda: answer < 1.2),
        ("say how likely the whole answer is now", lambda: abs(answer - 1) < 1e-6),
    )


def check_gspo_ratio(answer) -> Check:
    """One ratio per answer: the geometric mean over its real tokens."""
    old = jnp.full((1, 2, 3), -1.0)
    rho = np.array([[[2.0, 2.0, 2.0], [4.0, 1.0, 50.0]]])
    new, mask = old + np.log(rho), jnp.array([[[1, 1, 1], [1, 1, 0]]])

    def ratio():
        return np.asarray(answer(new, old, mask))

    return judge(
        ("give one number per answer", lambda: ratio().shape == (1, 2)),
        ("be 1 where nothing moved", lambda: np.allclose(answer(old, old, mask), 1)),
        ("be 2 where every token doubled", lambda: np.isclose(ratio()[0, 0], 2)),
        ("leave padding out", lambda: ratio()[0, 1] < 3),
        ("divide by the real length", lambda: np.isclose(ratio()[0, 1], 2)),
    )


def check_updates(answer) -> Check:
    """When GSPO and GRPO cannot differ."""
    return judge(
        ("be filled in", filled(answer, what="a number of updates")),
        ("be a whole number of updates", lambda: answer == int(answer)),
        ("be at least one: without updates nothing is learned", lambda: answer >= 1),
        ("leave no update after the policy has moved", lambda: answer == 1),
    )


def check_cispo(answer) -> Check:
    """CISPO: the weight is clipped and constant, the gradient always flows."""
    old = jnp.log(jnp.full((1, 2, 2), 0.2))
    new = jnp.log(jnp.array([[[0.6, 0.2], [0.2, 0.1]]]))
    advantages, mask = jnp.array([[1.0, -1.0]]), jnp.array([[[1, 1], [1, 0]]])

    def gradient():
        return jax.grad(lambda logprobs: answer(logprobs, old, advantages, mask))(new)

    return judge(
        (
            "return one number",
            lambda: jnp.shape(answer(new, old, advantages, mask)) == (),
        ),
        ("leave padding without gradient", lambda: gradient()[0, 1, 1] == 0),
        ("let the clipped token learn too", lambda: gradient()[0, 0, 0] < 0),
        (
            "clip the weight of a tripled token at 1.28",
            lambda: np.isclose(gradient()[0, 0, 0], -1.28 / 3, atol=1e-4),
        ),
        (
            "weigh a token that did not move by 1",
            lambda: np.isclose(gradient()[0, 0, 1], -1 / 3, atol=1e-4),
        ),
    )
