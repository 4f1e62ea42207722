"""Notebooks 06, 07 and 08: scores, advantages, ratios, losses."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from helpers import rewards

stop = jax.lax.stop_gradient
DIAGNOSES = (
    "healthy",
    "rate 12 times too high",
    "a reward that no answer gets",
    "one random key for all eight answers",
    "advantages with the wrong sign",
    "old log-probabilities taken anew before every update",
)


def count(mask):
    """Tokens of each answer; 1 where all are left out, so that nothing divides by 0."""
    return jnp.maximum(mask.sum(-1), 1)


def score(*, subtract=1.0, row=lambda first: 3 + 3 * first, sign=1.0):
    """The solution of 06-1, with its usual mistakes as switches."""

    def answer(theta, pair):
        gradient = np.zeros(12)
        for block, token in ((0, pair[0]), (row(pair[0]), pair[1])):
            p = np.exp(np.asarray(theta[block : block + 3], float))
            gradient[block : block + 3] -= p / p.sum() * subtract
            gradient[block + token] += 1
        return sign * gradient

    return answer


def by_jax(theta, pair):
    def log_p(theta):
        rows = jax.nn.log_softmax(theta.reshape(4, 3))
        return rows[0, pair[0]] + rows[1 + pair[0], pair[1]]

    return jax.grad(log_p)(jnp.asarray(theta))


def smallest(teaches=lambda p, G: (1 - p**G - (1 - p) ** G).mean()):
    """The solution of 07-1; a mistake replaces which share of groups is not tied."""

    def answer(solved_P, share):
        sizes = (G for G in range(2, 65) if teaches(solved_P, G) >= share)
        return next(sizes, None)

    return answer


def in_two_loops(solved_P, share):
    for G in range(2, 65):
        mixed = 0.0
        for p in solved_P:
            mixed += 1 - p**G - (1 - p) ** G
        if mixed >= share * len(solved_P):
            return G
    return None


def is_end(tokens_PGT, ends):
    return np.isin(tokens_PGT, ends)


def up_to_end(tokens_PGT, ends):
    """1 up to the first end; all of an answer that has none."""
    is_end_PGT = is_end(tokens_PGT, ends)
    return (np.cumsum(is_end_PGT, -1) - is_end_PGT == 0).astype(float)


def masked(tokens_PGT, ends):
    return up_to_end(tokens_PGT, ends) * is_end(tokens_PGT, ends).any(-1, keepdims=True)


def one_by_one(tokens_PGT, ends):
    mask = np.zeros(tokens_PGT.shape, int)
    for group, rows in zip(tokens_PGT.tolist(), mask, strict=True):
        for tokens, row in zip(group, rows, strict=True):
            places = [t for t in range(len(tokens)) if tokens[t] in ends]
            row[: places[0] + 1 if places else 0] = 1
    return mask


def by_argmax(tokens_PGT, ends):
    hit = is_end(tokens_PGT, ends)
    last = np.where(hit.any(-1), hit.argmax(-1), -1)
    return np.arange(tokens_PGT.shape[-1]) <= last[..., None]


def fewest(
    *,
    up=lambda low, high: math.log1p(high),
    down=lambda low, high: math.log1p(-low),
    rounded=math.ceil,
):
    """The solution of 08-1, with its usual mistakes as switches."""

    def answer(ratio, low, high):
        end = up(low, high) if ratio > 1 else down(low, high)
        return max(1, rounded(math.log(ratio) / end))

    return answer


def counting_up(ratio, low, high):
    tokens = 1
    while not 1 - low <= ratio ** (1 / tokens) <= 1 + high:
        tokens += 1
    return tokens


def brevity(*, ok=rewards.correct, group=lambda prompt: prompt):
    """The solution of 07-4, with its usual mistakes as switches."""

    def reward(prompts, completions, answer, **columns):
        right = ok(prompts, completions, answer)
        rows = list(zip(map(group, prompts), map(len, completions), right, strict=True))
        paid = []
        for mine, length, good in rows:
            sizes = [other for prompt, other, fits in rows if fits and prompt == mine]
            span = max(sizes) - min(sizes) if good else 0
            paid.append(-0.5 * (length - min(sizes)) / span if span else 0.0)
        return paid

    return reward


def everybody(prompts, completions, answer):
    """Takes all answers for right."""
    return [1.0] * len(completions)


def lenient(prompts, completions, answer):
    return [
        float(a.split()[-1] in text)
        for a, text in zip(answer, completions, strict=True)
    ]


def neighbours_alone(prompts, completions, answer, **columns):
    """Takes answers to one question for neighbours in the batch."""
    paid, at = [], 0
    for _, run in itertools.groupby(prompts):
        some = slice(at, at := at + len(list(run)))
        paid += brevity()(prompts[some], completions[some], answer[some])
    return paid


def in_a_dict(prompts, completions, answer, **columns):
    """A right alternative: the two ends of each question first."""
    right, ends = rewards.correct(prompts, completions, answer), {}
    for prompt, text, good in zip(prompts, completions, right, strict=True):
        if good:
            low, high = ends.get(prompt, (len(text), len(text)))
            ends[prompt] = min(low, len(text)), max(high, len(text))
    paid = [0.0] * len(right)
    for i in np.flatnonzero(right).tolist():
        low, high = ends[prompts[i]]
        paid[i] = (low - len(completions[i])) / (2 * max(high - low, 1))
    return paid


def loss(*, sign=-1, constant=True, weigh=True):
    """The solution of 08-3, with its usual mistakes as switches."""

    def cispo(new, old, advantages_PG, mask, high=0.28):
        weight = jnp.minimum(jnp.exp(new - old), 1 + high)
        weight = stop(weight) if constant else weight
        gain = weight * (advantages_PG[..., None] if weigh else 1.0) * new * mask
        return sign * gain.sum() / mask.sum()

    return cispo


def ppo(new, old, advantages_PG, mask, high=0.28):
    ratio, A = jnp.exp(new - old), advantages_PG[..., None]
    gain = jnp.minimum(ratio * A, jnp.clip(ratio, 0, 1 + high) * A)
    return -(gain * mask).sum() / mask.sum()


def by_where(new, old, advantages_PG, mask, high=0.28):
    ratio = stop(jnp.exp(new - old))
    weight = jnp.where(ratio > 1 + high, 1 + high, ratio)
    gains = jnp.einsum("pgt,pg,pgt,pgt->", weight, advantages_PG, new, mask)
    return -gains / jnp.sum(mask)


def diagnosed(letters):
    """The runs behind the diagnoses of 07-3, in the order of its stub."""
    return dict(zip(DIAGNOSES, letters, strict=True))


WRONG = {
    "06-1": {
        "only who was drawn": score(subtract=0.0),
        "one table for all": score(row=lambda first: 3),
        "rows one too early": score(row=lambda first: 3 * first),
        "the wrong sign": score(sign=-1.0),
    },
    "06-2": {
        "upside down": lambda G: (G - 1) / G,
        "the size": lambda G: G,
        "1 + 1/G": lambda G: 1 + 1 / G,
        "whole numbers": lambda G: G // (G - 1),
    },
    "06-3": {
        "nobody": [],
        "one": [0],
        "both signs": [0, 1, 2, 3],
        "inside": [0, 3, 5],
    },
    "06-4": {
        "k1": lambda p, q: p - q,
        "k3": lambda p, q: jnp.exp(q - p) - 1 + p - q,
        "the wrong sign": lambda p, q: stop(q - p) * p,
        "no slope": lambda p, q: stop((p - q) * p),
    },
    "07-1": {
        "one right answer is enough": smallest(lambda p, G: (1 - (1 - p) ** G).mean()),
        "one wrong answer is enough": smallest(lambda p, G: (1 - p**G).mean()),
        "the mean question": smallest(
            lambda p, G: 1 - p.mean() ** G - (1 - p.mean()) ** G
        ),
        "tied ones": smallest(lambda p, G: (p**G + (1 - p) ** G).mean()),
    },
    "07-2": {
        "cut off ones, too": lambda tokens, ends: up_to_end(tokens, ends),
        "without the end": lambda tokens, ends: (
            masked(tokens, ends) - is_end(tokens, ends)
        ),
        "the first id alone": lambda tokens, ends: masked(tokens, ends[:1]),
        "up to the last end": lambda tokens, ends: (
            np.cumsum(is_end(tokens, ends)[..., ::-1], -1)[..., ::-1] > 0
        ),
    },
    "07-3": {
        "the two without a ratio exchanged": diagnosed("DACBEF"),
        "paid and never paid exchanged": diagnosed("DAFCEB"),
        "the best reward is healthy": diagnosed("BACFED"),
        "all healthy": diagnosed("DDDDDD"),
    },
    "07-4": {
        "all answers": brevity(ok=everybody),
        "the number anywhere": brevity(ok=lenient),
        "all questions together": brevity(group=lambda prompt: 0),
        "neighbours": neighbours_alone,
    },
    "08-1": {
        "the upper end alone": fewest(down=lambda low, high: math.log1p(high)),
        "ends exchanged": fewest(
            up=lambda low, high: -math.log1p(-low),
            down=lambda low, high: -math.log1p(high),
        ),
        "rounded down": fewest(rounded=math.floor),
        "one more": fewest(rounded=lambda x: math.ceil(x) + 1),
    },
    "08-2": {
        "nothing divided by nothing": lambda n, o, m: jnp.exp(
            ((n - o) * m).sum(-1) / m.sum(-1)
        ),
        "the sum": lambda n, o, m: jnp.exp(((n - o) * m).sum(-1)),
        "padding in the length": lambda n, o, m: jnp.exp(((n - o) * m).mean(-1)),
        "the arithmetic mean": lambda n, o, m: (jnp.exp(n - o) * m).sum(-1) / count(m),
    },
    "08-3": {
        "the wrong sign": loss(sign=1),
        "weights with a slope": loss(constant=False),
        "PPO": ppo,
        "no advantages": loss(weigh=False),
    },
}

RIGHT = {
    "06-1": {"by jax": by_jax, "a loop": score()},
    "06-2": {
        "one over": lambda G: 1 / (1 - 1 / G),
        "1 + 1/(G-1)": lambda G: 1 + 1 / (G - 1),
    },
    "06-3": {"a tuple": (0, 3), "a set": {3, 0}},
    "06-4": {
        "half a square": lambda p, q: 0.5 * (p - q) ** 2,
        "with a baseline": lambda p, q: stop(p - q + 1) * p,
    },
    "07-1": {"two loops": in_two_loops, "next": smallest()},
    "07-2": {"token by token": one_by_one, "by argmax": by_argmax},
    "07-3": {
        "another order": dict(reversed(diagnosed("DACFEB").items())),
    },
    "07-4": {"two ends": in_a_dict, "row by row": brevity()},
    "08-1": {"counting up": counting_up, "logarithms": fewest()},
    "08-2": {
        "a product": lambda n, o, m: (
            jnp.prod(jnp.where(m > 0, jnp.exp(n - o), 1), -1) ** (1 / count(m))
        ),
    },
    "08-3": {"where": by_where, "minimum": loss()},
}
