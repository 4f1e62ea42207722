"""Notebook 08b: pairs, the loss of DPO, where it stops."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np


def pairs(*, first=True, bare=True, most=None):
    """The solution of 08b-1, with its usual mistakes as switches."""

    def make_pairs(answers):
        made = []
        for one, two in itertools.product(answers, answers):
            if one["verdict"] is True and two["verdict"] is False:
                if not bare or one["bare"] == two["bare"]:
                    pair = one["text"], two["text"]
                    made.append(pair if first else pair[::-1])
        return made[:most]

    return make_pairs


def falsy_is_rejected(answers):
    """A wrong answer, whose verdict is None, taken for a rejected one."""
    return [
        (one["text"], two["text"])
        for one in answers
        for two in answers
        if one["verdict"] and not two["verdict"] and one["bare"] == two["bare"]
    ]


def by_dict(answers):
    chosen = {}
    for answer in answers:
        if answer["verdict"]:
            chosen.setdefault(answer["bare"], []).append(answer["text"])
    return [
        [text, other["text"]]
        for other in answers
        if other["verdict"] is False
        for text in chosen.get(other["bare"], [])
    ]


def dpo(*, sign=1, reference=True, masked=True, mean=False):
    """The solution of 08b-2, with its usual mistakes as switches."""

    def loss(new, old, mask, beta=0.1):
        gained = (new - old if reference else new) * (mask if masked else 1)
        gained = gained.sum(-1) / (mask.sum(-1) if mean else 1)
        margin = sign * beta * (gained[:, 0] - gained[:, 1])
        return -jax.nn.log_sigmoid(margin).mean()

    return loss


def by_numpy(new, old, mask, beta=0.1):
    gained = np.einsum("pst,pst->ps", new - old, mask)
    return np.logaddexp(0, -beta * (gained[:, 0] - gained[:, 1])).mean()


def softplus(new, old, mask, beta=0.1):
    chosen, rejected = jnp.sum((new - old) * mask, axis=2).T
    return jnp.mean(jax.nn.softplus(beta * (rejected - chosen)))


WRONG = {
    "08b-1": {
        "a wrong answer is rejected": falsy_is_rejected,
        "turned": pairs(first=False),
        "one pair only": pairs(most=1),
        "whatever they say": pairs(bare=False),
    },
    "08b-2": {
        "turned": dpo(sign=-1),
        "no reference": dpo(reference=False),
        "padding counted": dpo(masked=False),
        "means of tokens": dpo(mean=True),
    },
    "08b-3": {
        "without beta": math.log(4),
        "times beta": math.log(4) * 0.2,
        "the share": 0.8,
        "odds": 20.0,
    },
}

RIGHT = {
    "08b-1": {"by dict": by_dict, "a loop": pairs()},
    "08b-2": {"NumPy": by_numpy, "softplus": softplus, "switches": dpo()},
    "08b-3": {"rounded": 7, "a decimal": 6.9, "exact": math.log(0.8 / 0.2) / 0.2},
}
