"""Self-checks of notebook 11: two divergences between a student and a teacher."""

import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties


def _kl(p, q):
    return (p * (np.log(p) - np.log(q))).sum(axis=-1)


def check_answers_kl(answer) -> Check:
    """Exercise 1: the reverse KL of whole answers, from the rows of single tokens."""
    rng = np.random.default_rng(13)

    def writer(words):
        """Probabilities of the first token (V), and of the next after each (V, V)."""
        return rng.dirichlet(np.ones(words)), rng.dirichlet(np.ones(words), words)

    def over_all_answers(student, teacher, length):
        """The same from the probability of every answer."""
        chances = []
        for first_V, next_VV in (student, teacher):
            p = first_V
            for _ in range(length - 1):
                p = p[..., None] * next_VV
            chances.append(p.ravel())
        return _kl(*chances)

    pairs = [(writer(words), writer(words)) for words in (3, 2, 4, 5)]
    properties = {
        "be the KL of the first token if an answer has only one": [(*pairs[0], 1)],
        "weight the KL of the second token by the first's probability": [
            (*pairs[0], 2)
        ],
        "know how probable each second token is before the third": [(*pairs[0], 3)],
        "be right for other models and lengths as well": [
            (*pair, length) for pair in pairs for length in (1, 2, 4, 6)
        ],
    }
    return check_properties(properties, answer, over_all_answers, 1e-3)


def check_top_k_kl(answer) -> Check:
    """Exercise 2: the forward KL from the teacher's most probable tokens alone."""
    rng = np.random.default_rng(12)

    def tables(unnamed):
        """(student, teacher, ids), the unnamed tokens' probabilities scaled or not."""
        plain = rng.dirichlet(np.ones(12), (2, 40))
        ids = np.argsort(-plain[1], axis=1)[:, :4]
        scale = np.full((40, 12), unnamed)
        np.put_along_axis(scale, ids, 1.0, axis=1)
        sure = plain * scale
        sure /= sure.sum(axis=-1, keepdims=True)
        return [(s, t, ids) for s in (plain[0], sure[0]) for t in (plain[1], sure[1])]

    def top_k_kl(student, teacher, ids):
        named = np.log(np.take_along_axis(teacher, ids, axis=1))
        given = jnp.asarray(np.log(student)), jnp.asarray(named), jnp.asarray(ids)
        return np.asarray(answer(*given))

    def with_rest(student, teacher, ids):
        """The KL over the named tokens and one more for all others."""
        p, q = (np.take_along_axis(x, ids, axis=1) for x in (teacher, student))
        return _kl(*(np.hstack([x, 1 - x.sum(1, keepdims=True)]) for x in (p, q)))

    properties = {
        "look up the student's tokens by the teacher's ids, average under the "
        "teacher, and count all unnamed tokens as one": tables(1.0),
        "notice how little probability the unnamed tokens have": tables(1e-3),
        "stay finite if the named tokens have all the probability: by rounding, what "
        "is missing to 1 may be 0 or less": lambda: all(
            np.abs(top_k_kl(*table)).max() < 80 for table in tables(1e-40)
        ),
    }
    return check_properties(properties, top_k_kl, with_rest, 1e-3)
