"""Notebook 11: divergences, of whole tables and of what a teacher tells."""

import itertools
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import rel_entr, xlogy

from helpers.losses import distillation


def kl(p, q):
    return (p * (jnp.log(p) - jnp.log(q))).sum(-1)


def both(p, q, m):
    """The two KLs to the mixture; a word that is never said adds nothing."""
    return rel_entr(p, m).sum(-1), rel_entr(q, m).sum(-1)


def mixture(share=0.5, *, to=both, part=0.5):
    def divergence(p, q):
        first, second = to(p, q, share * p + (1 - share) * q)
        return part * first + (1 - part) * second

    return divergence


def told(student_NV, teacher_NK, ids_NK):
    """(p, q): the teacher's and the student's probabilities of the named words."""
    return jnp.exp(teacher_NK), jnp.exp(jnp.take_along_axis(student_NV, ids_NK, -1))


def with_rest(p, q, least=1e-7):
    """The two with one more word, for all that are not named."""
    rests = (jnp.maximum(1 - x.sum(-1, keepdims=True), least) for x in (p, q))
    return map(jnp.hstack, zip((p, q), rests, strict=True))


def unguarded(p, q):
    """As if something were always left."""
    return with_rest(p, q, least=-1.0)


def normalised(p, q):
    return (x / x.sum(-1, keepdims=True) for x in (p, q))


def top_k(finish=with_rest, divergence=kl, look=told):
    """The solution of 11-2, with its usual mistakes as switches."""
    return lambda s, t, ids: divergence(*finish(*look(s, t, ids)))


def first_words(student_NV, teacher_NK, ids_NK):
    return jnp.exp(teacher_NK), jnp.exp(student_NV[:, : ids_NK.shape[1]])


def teachers(student, teacher):
    return teacher


def along(text=None, order=(0, 1), stay=False, more=0, begin=True, each=kl):
    """The solution of 11-1, with its usual mistakes as switches."""

    def answers_kl(student, teacher, length):
        (first, follow), (wise_first, wise_follow) = (
            (student, teacher)[who] for who in order
        )
        at, moves = text(student, teacher) if text else student
        total = each(first, wise_first) if begin else 0.0
        for _ in range(length - 1 + more):
            total += at @ each(follow, wise_follow)
            at = at if stay else at @ moves
        return total

    return answers_kl


def alike(student, teacher):
    """As if each word stood as often as every other."""
    return tuple(np.full_like(x, 1 / len(x)) for x in student)


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
        "forward, on the student's text": along(order=(1, 0)),
        "always after the first word": along(stay=True),
        "each word as often": along(alike),
        "moved by the other axis": along(lambda s, t: (s[0], s[1].T)),
        "at the teacher's first word": along(lambda s, t: (t[0], s[1])),
    },
    "11-2": {
        "without the rest": top_k(finish=lambda p, q: (p, q)),
        "made to add up to one": top_k(finish=normalised),
        "only the teacher made to": top_k(
            finish=lambda p, q: (p / p.sum(-1, keepdims=True), q)
        ),
        "reverse": top_k(divergence=lambda p, q: kl(q, p)),
        "the first words": top_k(look=first_words),
        "not a number for a sure teacher": top_k(finish=unguarded),
        "a guard that is seen": top_k(finish=lambda p, q: with_rest(p, q, least=0.1)),
    },
    "11-3": {
        "twice": mixture(to=lambda p, q, m: (2 * kl(p, m), 2 * kl(q, m))),
        "no mixture": mixture(to=lambda p, q, m: (kl(p, q), kl(q, p))),
        "one side": mixture(part=1.0),
        "0 · log 0": mixture(to=lambda p, q, m: (kl(p, m), kl(q, m))),
        "a leaning mixture": mixture(0.4),
        "upside down": mixture(to=lambda p, q, m: (kl(m, p), kl(m, q))),
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
        "a least of 1e-12": top_k(finish=partial(with_rest, least=1e-12)),
        "a least of 1e-20": top_k(finish=partial(with_rest, least=1e-20)),
        "a least of 1e-5": top_k(finish=partial(with_rest, least=1e-5)),
    },
    "11-3": {
        "entropies": lambda p, q: (
            (xlogy(p, p) + xlogy(q, q)).sum(-1) / 2
            - xlogy((p + q) / 2, (p + q) / 2).sum(-1)
        ),
        "two KLs": mixture(),
    },
}
