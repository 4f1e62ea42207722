"""Self-checks of notebook 11: three divergences between a student and a teacher."""

import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties


def _kl(p, q):
    return (p * (np.log(p) - np.log(q))).sum(axis=-1)


def check_answers_kl(answer) -> Check:
    """The reverse KL of whole answers, from the chances of single words."""
    rng = np.random.default_rng(13)

    def writer(words):
        """Chances of the first word (V), and of the next one after each (V, V)."""
        return rng.dirichlet(np.ones(words)), rng.dirichlet(np.ones(words), words)

    pair = writer(3), writer(3)
    others = [(writer(words), writer(words)) for words in (2, 4, 5)]
    properties = {
        "be the KL of the first word where an answer has no other": [(*pair, 1)],
        "add that of the second word, weighted by the first's chance": [(*pair, 2)],
        "know where the writer is by the third word": [(*pair, 3)],
        "be right for other writers and lengths as well": [
            (*two, length) for two in others for length in (1, 2, 4, 6)
        ],
    }
    return check_properties(properties, answer, _answers_kl, 1e-3)


def _answers_kl(student, teacher, length):
    """The reverse KL over all answers, each of them counted."""
    chances = []
    for first_V, next_VV in (student, teacher):
        p = first_V
        for _ in range(length - 1):
            p = p[..., None] * next_VV
        chances.append(p.ravel())
    return _kl(*chances)


def check_top_k_kl(answer) -> Check:
    """The forward KL from a teacher who tells only its likeliest words."""
    rng = np.random.default_rng(12)
    cases = [_tables(rng, *sizes) for sizes in ((5, 12, 4), *[(3, 9, 5)] * 8)]

    def top_k_kl(student, teacher, ids):
        named = np.log(np.take_along_axis(teacher, ids, 1))
        given = jnp.log(student), jnp.asarray(named), jnp.asarray(ids)
        return np.asarray(answer(*given))

    def with_rest(student, teacher, ids):
        """The KL over the named words and one more for all others."""
        p, q = (np.take_along_axis(x, ids, 1) for x in (teacher, student))
        return _kl(*(np.hstack([x, 1 - x.sum(1, keepdims=True)]) for x in (p, q)))

    def sure():
        """KLs where the named words add up to 1 in float32, or a little more."""
        return np.concatenate([top_k_kl(*case) for case in _sure_tables(rng, 1e-40)])

    properties = {
        "look up the student's words by the teacher's numbers of them, average under "
        "the teacher, and count all unnamed words as one": cases,
        "see how little is left to the unnamed words": _sure_tables(rng, 1e-4),
        "stay finite where the named words are all there is: by rounding, what is "
        "missing to 1 may be 0, or less": lambda: np.abs(sure()).max() < 80,
    }
    return check_properties(properties, top_k_kl, with_rest, 1e-3)


def _tables(rng, rows, words, named):
    """(student, teacher, ids): probabilities, and the teacher's likeliest words."""
    student, teacher = (rng.dirichlet(np.ones(words), rows) for _ in range(2))
    return student, teacher, np.argsort(-teacher, axis=1)[:, :named]


def _sure_tables(rng, least):
    """Tables with this little left to each of the words that are not named."""
    student, teacher, ids = _tables(rng, 40, 12, 4)
    only = []
    for table in (teacher, student):
        rest = np.full_like(table, least)
        np.put_along_axis(rest, ids, np.take_along_axis(table, ids, 1), 1)
        only.append(rest / rest.sum(1, keepdims=True))
    return [(student, only[0], ids), (only[1], only[0], ids), (only[1], teacher, ids)]


def check_js_divergence(answer) -> Check:
    """Symmetric, bounded by log 2, zero where both agree."""
    rng = np.random.default_rng(11)
    # Square tables, so that no axis can be recognized by its size.
    p, q = (jnp.asarray(rng.dirichlet(np.ones(4), 4)) for _ in range(2))
    one, other = jnp.array([[1.0, 0, 0], [0, 1, 0]]), jnp.array([[0, 1.0, 0]] * 2)

    def js_divergence(p, q):
        p, q = np.asarray(p), np.asarray(q)
        return (_kl(p, (p + q) / 2) + _kl(q, (p + q) / 2)) / 2

    properties = {
        "compare both with their mixture": [(p, q)],
        "be a number where a word is never said, by one of them or by both": lambda: (
            np.allclose(answer(one, other), [np.log(2), 0], atol=1e-5)
        ),
    }
    return check_properties(properties, answer, js_divergence, 1e-3)
