"""Notebook 11: divergences of whole tables, and of a teacher's likeliest words."""

import itertools
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import rel_entr, xlogy

from helpers.losses import distillation


def kl(p, q):
    return (p * (jnp.log(p) - jnp.log(q))).sum(-1)


def both(p, q, m):
    """The two KLs to the mixture; a word of probability 0 adds nothing."""
    return rel_entr(p, m).sum(-1), rel_entr(q, m).sum(-1)


def mixture(to=both):
    def divergence(p, q):
        first, second = to(p, q, (p + q) / 2)
        return (first + second) / 2

    return divergence


def named(student_NV, teacher_NK, ids_NK):
    """(p, q): the teacher's and the student's probabilities of the named words."""
    return jnp.exp(teacher_NK), jnp.exp(jnp.take_along_axis(student_NV, ids_NK, -1))


def with_rest(p, q, least=1e-7):
    """The two with one more word, for all that are not named."""
    rests = (jnp.maximum(1 - x.sum(-1, keepdims=True), least) for x in (p, q))
    return map(jnp.hstack, zip((p, q), rests, strict=True))


def unguarded(p, q):
    """As if something were always left."""
    return with_rest(p, q, least=-1.0)


def top_k(finish=with_rest, divergence=kl):
    """The solution of 11-2, with its usual mistakes as switches."""
    return lambda s, t, ids: divergence(*finish(*named(s, t, ids)))


def teachers(student, teacher):
    return teacher


def along(text=lambda s, t: s, order=(0, 1), stay=False):
    """The solution of 11-1, with its usual mistakes as switches."""

    def answers_kl(student, teacher, length):
        (first, follow), (other_first, other_follow) = (
            (student, teacher)[who] for who in order
        )
        at, moves = text(student, teacher)
        total = kl(first, other_first)
        for _ in range(length - 1):
            total += at @ kl(follow, other_follow)
            at = at if stay else at @ moves
        return total

    return answers_kl


def listed(student, teacher, length):
    """Every answer by itself, with its two chances."""
    total = 0.0
    for words in itertools.product(range(len(student[0])), repeat=length):
        pairs = list(itertools.pairwise(words))
        p, q = (
            first[words[0]] * np.prod([follow[pair] for pair in pairs])
            for first, follow in (student, teacher)
        )
        total += p * np.log(p / q)
    return total


def from_the_end(student, teacher, length):
    """What the rest of an answer costs after each word, from its end to its start."""
    rest, each = np.zeros(len(student[0])), kl(student[1], teacher[1])
    for _ in range(length - 1):
        rest = each + student[1] @ rest
    return kl(student[0], teacher[0]) + student[0] @ rest


WRONG = {
    "11-1": {
        "on the teacher's text": along(teachers),
        "forward": along(teachers, order=(1, 0)),
        "always after the first word": along(stay=True),
        "moved by the other axis": along(lambda s, t: (s[0], s[1].T)),
    },
    "11-2": {
        "without the rest": top_k(finish=lambda p, q: (p, q)),
        "reverse": top_k(divergence=lambda p, q: kl(q, p)),
        "not a number for a sure teacher": top_k(finish=unguarded),
        "a guard that is seen": top_k(finish=lambda p, q: with_rest(p, q, least=0.1)),
    },
    "11-3": {
        "no mixture": mixture(lambda p, q, m: (kl(p, q), kl(q, p))),
        "0 · log 0": mixture(lambda p, q, m: (kl(p, m), kl(q, m))),
        "upside down": mixture(lambda p, q, m: (kl(m, p), kl(m, q))),
        "one number": lambda p, q: mixture()(p, q).sum(),
    },
}

RIGHT = {
    "11-1": {
        "every answer listed": listed,
        "from the end": from_the_end,
        "by JAX": along(lambda s, t: tuple(map(jnp.asarray, s))),
    },
    "11-2": {
        "a column more": top_k(),
        "the helper": distillation.top_k_forward_kl,
        "a least of 1e-20": top_k(finish=partial(with_rest, least=1e-20)),
    },
    "11-3": {
        "entropies": lambda p, q: (
            (xlogy(p, p) + xlogy(q, q)).sum(-1) / 2
            - xlogy((p + q) / 2, (p + q) / 2).sum(-1)
        ),
        "two KLs": mixture(),
    },
}
