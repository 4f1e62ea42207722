"""Notebook 08b: pairs, the loss of DPO, where it stops."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np


def of(kind, texts, verdicts):
    return [t for t, v in zip(texts, verdicts, strict=True) if v is kind]


def pairs(*, other=False, first=True, both=zip, most=None):
    """The solution of 08b-1, with its usual mistakes as switches."""

    def make_pairs(texts, verdicts):
        kept, strayed = of(True, texts, verdicts), of(other, texts, verdicts)
        return list(both(*((kept, strayed) if first else (strayed, kept))))[:most]

    return make_pairs


def falsy_is_rejected(texts, verdicts):
    """A wrong answer, whose verdict is None, taken for a rejected one."""
    kept = [t for t, v in zip(texts, verdicts, strict=True) if v]
    strayed = [t for t, v in zip(texts, verdicts, strict=True) if not v]
    return list(zip(kept, strayed, strict=False))


def neighbours(texts, verdicts):
    """Only answers that follow each other."""
    steps = range(len(texts) - 1)
    return [
        (texts[i], texts[i + 1])
        for i in steps
        if verdicts[i] is True and verdicts[i + 1] is False
    ]


def from_the_end(texts, verdicts):
    return pairs()(texts[::-1], verdicts[::-1])


def takes_them_out(texts, verdicts):
    found = pairs()(texts, verdicts)
    for pair in found:
        texts.remove(pair[0])
    return found


def by_loop(texts, verdicts):
    kept, strayed = [], []
    for text, each in zip(texts, verdicts, strict=True):
        if each is not None:
            (kept if each else strayed).append(text)
    return [[kept[i], strayed[i]] for i in range(min(len(kept), len(strayed)))]


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
        "no verdict is rejected": pairs(other=None),
        "turned": pairs(first=False),
        "one pair only": pairs(most=1),
        "every combination": pairs(both=itertools.product),
        "with gaps": pairs(both=itertools.zip_longest),
        "neighbours only": neighbours,
        "from the end": from_the_end,
        "takes them out": takes_them_out,
        "never": lambda texts, verdicts: [],
        "None for none": lambda texts, verdicts: pairs()(texts, verdicts) or None,
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
    "08b-1": {"a loop": by_loop, "a generator": lambda t, v: iter(pairs()(t, v))},
    "08b-2": {"NumPy": by_numpy, "softplus": softplus, "switches": dpo()},
    "08b-3": {"rounded": 11, "exact": math.log(0.75 / 0.25) / 0.1},
}
