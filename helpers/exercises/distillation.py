"""Self-checks of notebook 11."""

import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties

_P = jnp.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
_Q = jnp.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]])


def _rows():
    """Two tables of probabilities, 4 rows of 4: one axis is not told by its size."""
    rng = np.random.default_rng(11)
    return rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(4), 4)


def _kl(p, q):
    return (p * (np.log(p) - np.log(q))).sum(axis=-1)


def _writer(rng, words):
    """Chances of the first word (V), and of the next one after each word (V, V)."""
    return rng.dirichlet(np.ones(words)), rng.dirichlet(np.ones(words), words)


def _listed(writer, length):
    """The chance of every answer of so many words, (V,) * length."""
    first_V, next_VV = writer
    chances = first_V
    for _ in range(length - 1):
        chances = chances[..., None] * next_VV
    return chances


def _of_answers(student, teacher, length):
    """The reverse KL over all answers, each of them counted."""
    return _kl(*(_listed(writer, length).ravel() for writer in (student, teacher)))


def check_answers_kl(answer) -> Check:
    """The reverse KL of whole answers, from the chances of single words."""
    rng = np.random.default_rng(13)
    student, teacher = pair = _writer(rng, 3), _writer(rng, 3)
    others = [(_writer(rng, words), _writer(rng, words)) for words in (2, 4, 5)]

    def close(student, teacher, length):
        value = np.asarray(answer(student, teacher, length))
        truth = _of_answers(student, teacher, length)
        return np.allclose(value, truth, rtol=1e-3, atol=1e-5)

    return check_properties(
        ("give one number", lambda: np.shape(answer(*pair, 3)) == ()),
        (
            "be 0 where student and teacher write alike",
            lambda: abs(answer(student, student, 4)) < 1e-5,
        ),
        (
            "be the reverse KL of the first word where an answer has no other",
            lambda: close(*pair, 1),
        ),
        (
            "add what the second word brings: after each first word another, and by "
            "how often it stands there",
            lambda: close(*pair, 2),
        ),
        (
            "know where the writer is by the third word, and later",
            lambda: close(*pair, 3) and close(*pair, 5),
        ),
        (
            "be right for other writers and lengths as well",
            lambda: all(close(*two, n) for two in others for n in (1, 2, 4, 6)),
        ),
    )


def _kept(rng, rows=5, words=12, kept=4):
    """(student, teacher, ids): all of the student, of the teacher some named words."""
    student, teacher = (rng.dirichlet(np.ones(words), rows) for _ in range(2))
    ids = np.argsort(-teacher, axis=1)[:, :kept]
    return student, teacher, ids


def check_top_k_kl(answer) -> Check:
    """The forward KL from a teacher who tells only its likeliest words."""
    student, teacher, ids = tables = _kept(np.random.default_rng(12))
    others = [_kept(np.random.default_rng(seed), 3, 9, 5) for seed in range(8)]

    def value(student, teacher, ids):
        told = np.log(np.take_along_axis(teacher, ids, 1))
        return np.asarray(answer(jnp.log(student), jnp.asarray(told), jnp.asarray(ids)))

    def close(*tables):
        return np.allclose(value(*tables), _over_named(*tables), rtol=1e-3, atol=1e-5)

    def other_student(student):
        return value(student, teacher, ids)

    return check_properties(
        ("give one number per row", lambda: value(*tables).shape == (5,)),
        (
            "be 0 where both agree",
            lambda: np.allclose(other_student(teacher), 0, atol=1e-5),
        ),
        (
            "look up the student's words by the teacher's numbers of them",
            lambda: (
                not np.allclose(
                    value(*tables), other_student(np.roll(student, 1, axis=1))
                )
            ),
        ),
        (
            "see the weight that the student keeps for words which are not named",
            lambda: (other_student(_leaning(teacher, ids)) > 0.1).all(),
        ),
        (
            "not care how that weight is shared among them",
            lambda: np.allclose(value(*tables), other_student(_shared(student, ids))),
        ),
        (
            "never be above the KL over all words",
            lambda: (value(*tables) <= _kl(teacher, student) + 1e-5).all(),
        ),
        ("average under the teacher", lambda: close(*tables)),
        (
            "be right for other rows as well",
            lambda: all(close(*tables) for tables in others),
        ),
        (
            "stay finite where the named words are all there is: by rounding, what is "
            "missing to 1 may be 0, or less",
            lambda: all(np.isfinite(value(*case)).all() for case in _sure()),
        ),
        (
            "and be of a sensible size there: what is missing counts as no more than "
            "1e-4, and no less than 1e-30",
            lambda: all(_is_bounded(value(*case), *case) for case in _sure()),
        ),
    )


def _over_named(student, teacher, ids):
    """The KL over the named words and one more for all others, by NumPy."""
    p, q = (np.take_along_axis(x, ids, 1) for x in (teacher, student))
    return _kl(*(np.hstack([x, 1 - x.sum(1, keepdims=True)]) for x in (p, q)))


def _shared(student, ids):
    """The student, with the words that are not named exchanged among themselves."""
    other = student.copy()
    for row, names in zip(other, ids, strict=True):
        left = np.setdiff1d(np.arange(len(row)), names)
        row[left] = row[left][::-1]
    return other


def _sure():
    """Tables whose named words add up to 1 in float32, or a little more."""
    student, teacher, ids = _kept(np.random.default_rng(14), rows=40)
    wise, own = (_only(table, ids) for table in (teacher, student))
    return (student, wise, ids), (own, wise, ids), (own, teacher, ids)


def _is_bounded(values, student, teacher, ids):
    """Whether a row's KL is one with a rest of 1e-4 to 1e-30 where there is none."""
    told, own = (np.take_along_axis(table, ids, 1) for table in (teacher, student))
    named = (told * np.log(told / own)).sum(1)
    rests = (1 - x.sum(1) for x in (told, own))
    rest, own_rest = (np.where(x > 1e-12, x, 0) for x in rests)  # no rounding's rest

    def with_rest(least):
        p, q = np.maximum(rest, least), np.maximum(own_rest, least)
        return named + p * np.log(p / q)

    ends = np.stack([with_rest(least) for least in (1e-4, 1e-7, 1e-30)])
    return (values > ends.min(0) - 1e-2).all() and (values < ends.max(0) + 1e-2).all()


def _only(table, ids):
    """The table with next to nothing left to the words that are not named."""
    kept = np.full_like(table, 1e-40)
    np.put_along_axis(kept, ids, np.take_along_axis(table, ids, 1), 1)
    return kept / kept.sum(1, keepdims=True)


def _leaning(teacher, ids):
    """A student with the teacher's proportions of named words, and most beside."""
    named = np.take_along_axis(teacher, ids, 1)
    student = np.full_like(teacher, 0.9 / (teacher.shape[1] - ids.shape[1]))
    np.put_along_axis(student, ids, 0.1 * named / named.sum(1, keepdims=True), 1)
    return student


def check_js_divergence(answer) -> Check:
    """Symmetric, bounded by log 2, zero where both agree."""
    sure = jnp.array([[1 - 1e-6, 1e-6]])
    one, other = jnp.array([[1.0, 0, 0], [0, 1, 0]]), jnp.array([[0, 1.0, 0]] * 2)
    p, q = _rows()
    truth = (_kl(p, (p + q) / 2) + _kl(q, (p + q) / 2)) / 2

    def value(p, q):
        return np.asarray(answer(p, q))

    return check_properties(
        ("give one number per row", lambda: value(_P, _Q).shape == (2,)),
        ("be 0 where both agree", lambda: abs(value(_P, _Q)[1]) < 1e-6),
        ("be symmetric", lambda: np.allclose(value(_P, _Q), value(_Q, _P))),
        (
            "stay at most log 2, however far apart they are",
            lambda: 0.6 < value(sure, sure[:, ::-1])[0] <= np.log(2) + 1e-6,
        ),
        (
            "compare both with their mixture",
            lambda: np.isclose(value(_P, _Q)[0], 0.0264, atol=1e-3),
        ),
        (
            "be right for other rows as well",
            lambda: np.allclose(
                value(jnp.asarray(p), jnp.asarray(q)), truth, rtol=1e-3, atol=1e-5
            ),
        ),
        (
            "be a number where a word is never said, by one of them or by both",
            lambda: np.allclose(value(one, other), [np.log(2), 0], atol=1e-5),
        ),
    )
