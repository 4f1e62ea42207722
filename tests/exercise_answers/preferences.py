"""Notebook 08b: pairs, the loss of DPO, where it stops."""

import math

import jax
import jax.numpy as jnp
import numpy as np


def falsy_is_rejected(texts, verdicts):
    """A wrong answer, whose verdict is None, taken for a rejected one."""
    kept = [t for t, v in zip(texts, verdicts, strict=True) if v]
    other = [t for t, v in zip(texts, verdicts, strict=True) if not v]
    return (kept[0], other[0]) if kept and other else None


def last_of_each(texts, verdicts):
    found = dict(zip(verdicts, texts, strict=True))
    return (found[True], found[False]) if {True, False} <= set(found) else None


def first_of_each(texts, verdicts):
    found = dict(zip(reversed(verdicts), reversed(texts), strict=True))
    return (found[True], found[False]) if {True, False} <= set(found) else None


def neighbours(texts, verdicts):
    """The first two answers that differ in their verdicts."""
    for i in range(len(texts) - 1):
        if {verdicts[i], verdicts[i + 1]} == {True, False}:
            return (texts[i], texts[i + 1]) if verdicts[i] else (texts[i + 1], texts[i])
    return None


def half_a_pair(texts, verdicts):
    pick = {v: t for t, v in zip(texts[::-1], verdicts[::-1], strict=True)}
    return pick.get(True), pick.get(False)


def takes_them_out(texts, verdicts):
    pair = first_of_each(texts, verdicts)
    while pair and pair[0] in texts:
        texts.remove(pair[0])
    return pair


def all_pairs(texts, verdicts):
    kept = [t for t, v in zip(texts, verdicts, strict=True) if v is True]
    other = [t for t, v in zip(texts, verdicts, strict=True) if v is False]
    return [(a, b) for a in kept for b in other] or None


def dpo(*, sign=1, reference=True, masked=True, mean=False, total=False, by=None):
    """The solution of 08b-2, with its usual mistakes as switches."""

    def loss(new, old, mask, beta=0.1):
        gained = (new - old if reference else new) * (mask if masked else 1)
        gained = gained.sum(-1) / (mask.sum(-1) if mean else 1)
        margin = sign * (by or beta) * (gained[:, 0] - gained[:, 1])
        found = -jax.nn.log_sigmoid(margin)
        return found.sum() if total else found.mean()

    return loss


def beta_outside(new, old, mask, beta=0.1):
    return beta * dpo(by=1.0)(new, old, mask)


def no_logarithm(new, old, mask, beta=0.1):
    gained = ((new - old) * mask).sum(-1)
    return 1 - jax.nn.sigmoid(beta * (gained[:, 0] - gained[:, 1])).mean()


def a_mean_within(new, old, mask, beta=0.1):
    gained = ((new - old) * mask).sum(-1)
    return -jax.nn.log_sigmoid(beta * (gained[:, 0] - gained[:, 1]).mean())


def by_numpy(new, old, mask, beta=0.1):
    gained = np.einsum("pst,pst->ps", new - old, mask)
    return np.logaddexp(0, -beta * (gained[:, 0] - gained[:, 1])).mean()


def softplus(new, old, mask, beta=0.1):
    chosen, rejected = jnp.sum((new - old) * mask, axis=2).T
    return jnp.mean(jax.nn.softplus(beta * (rejected - chosen)))


WRONG = {
    "08b-1": {
        "a wrong answer is rejected": falsy_is_rejected,
        "the last of each": last_of_each,
        "neighbours only": neighbours,
        "half a pair": half_a_pair,
        "takes them out": takes_them_out,
        "all pairs": all_pairs,
        "turned": lambda texts, verdicts: (first_of_each(texts, verdicts) or ())[::-1],
        "the first two": lambda texts, verdicts: (texts[0], texts[1]),
        "never": lambda texts, verdicts: None,
    },
    "08b-2": {
        "turned": dpo(sign=-1),
        "no reference": dpo(reference=False),
        "padding counted": dpo(masked=False),
        "means of tokens": dpo(mean=True),
        "not averaged": dpo(total=True),
        "beta fixed": dpo(by=0.1),
        "beta outside": beta_outside,
        "no logarithm": no_logarithm,
        "the mean too early": a_mean_within,
        "one per pair": lambda n, o, m, beta=0.1: jnp.zeros(len(n)) + dpo()(n, o, m),
        "another default": lambda n, o, m, beta=1.0: dpo()(n, o, m, beta),
    },
    "08b-3": {
        "without beta": math.log(3),
        "times beta": math.log(3) * 0.1,
        "the share's logarithm": math.log(0.75) / 0.1,
        "of four": math.log(4) / 0.1,
        "the share": 0.75,
        "odds": 30.0,
        "no end": math.inf,
        "minus": -math.log(3) / 0.1,
    },
}

RIGHT = {
    "08b-1": {
        "by dict": first_of_each,
        "a list": lambda texts, verdicts: (
            list(pair) if (pair := first_of_each(texts, verdicts)) else None
        ),
    },
    "08b-2": {"NumPy": by_numpy, "softplus": softplus, "switches": dpo()},
    "08b-3": {"rounded": 11, "exact": math.log(0.75 / 0.25) / 0.1},
}
