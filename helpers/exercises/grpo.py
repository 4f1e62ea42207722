"""Self-checks of notebooks 07 and 08."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties, filled, leaves_alone, whole


def _teaching(solved_P, group):
    """The share of groups that are expected to hold right and wrong answers."""
    return float(np.mean(1 - solved_P**group - (1 - solved_P) ** group))


def _smallest(solved_P, share):
    return next((G for G in range(2, 65) if _teaching(solved_P, G) >= share), None)


def check_smallest_group(answer) -> Check:
    """How many answers a question needs so that a share of the groups is not tied."""
    coin, rare, sure = np.array([0.5]), np.array([0.1]), np.array([0.9])
    apart = np.array([0.01, 0.99, 0.5])  # solved by half, on average
    hard = np.array([0.02])
    rng = np.random.default_rng(7)
    cases = [(rng.beta(0.5, 0.5, 9), rng.uniform(0.1, 0.8)) for _ in range(60)]
    between = [_teaching(hard, G) + 1e-4 for G in (63, 64)]

    def gives(solved_P, share):
        return answer(solved_P.copy(), share)

    return check_properties(
        (
            "find that two answers to a coin differ every second time",
            lambda: gives(coin, 0.5) == 2 and gives(coin, 0.51) == 3,
        ),
        (
            "take a group that nobody solves for tied",
            lambda: gives(rare, 0.5) == _smallest(rare, 0.5),
        ),
        (
            "take a group that everybody solves for tied, too",
            lambda: gives(sure, 0.5) == _smallest(sure, 0.5),
        ),
        (
            "ask of each question by itself, and not of the mean question",
            lambda: gives(apart, 0.5) == _smallest(apart, 0.5),
        ),
        ("need at least two answers to compare", lambda: gives(coin, 0.0) == 2),
        (
            "give a whole number, such as `range` takes",
            lambda: isinstance(gives(coin, 0.5), int | np.integer),
        ),
        (
            "give None where 64 answers are too few, and 64 where they are enough",
            lambda: gives(hard, between[1]) is None and gives(hard, between[0]) == 64,
        ),
        (
            "give None where most questions are always or never solved",
            lambda: gives(np.array([0.0, 1.0, 0.5]), 0.5) is None,
        ),
        (
            "be right for other questions as well",
            lambda: all(gives(*case) == _smallest(*case) for case in cases),
        ),
        ("leave what it is given alone", lambda: leaves_alone(answer, apart, 0.5)),
    )


def _kept(tokens_PGT, ends):
    """The loss mask, token by token."""
    mask = np.zeros(tokens_PGT.shape)
    for place in np.ndindex(tokens_PGT.shape[:2]):
        found = [t for t, token in enumerate(tokens_PGT[place]) if token in ends]
        if found:
            mask[place][: found[0] + 1] = 1
    return mask


def check_loss_mask(answer) -> Check:
    """Which tokens the loss sees: up to the end, and none of an answer without one."""
    rng = np.random.default_rng(5)
    tokens = np.array([[[5, 6, 1, 0], [5, 6, 7, 8], [5, 1, 1, 5], [6, 7, 8, 1]]])
    batches = [rng.integers(0, 6, (3, 2, n)) for n in (1, 4, 9) for _ in range(9)]

    def mask(tokens_PGT, ends=(1,)):
        return np.asarray(answer(tokens_PGT.copy(), ends))

    return check_properties(
        ("give one number per token", lambda: mask(tokens).shape == tokens.shape),
        (
            "keep an answer up to its end, the end included",
            lambda: mask(tokens)[0, 0].tolist() == [1, 1, 1, 0],
        ),
        ("leave an answer without an end out", lambda: not mask(tokens)[0, 1].any()),
        (
            "stop at the first end, whatever stands after it",
            lambda: mask(tokens)[0, 2].tolist() == [1, 1, 0, 0],
        ),
        (
            "keep an answer that ends with its last token",
            lambda: mask(tokens)[0, 3].all(),
        ),
        (
            "know every id of `ends`",
            lambda: np.array_equal(mask(tokens, (1, 7)), _kept(tokens, (1, 7))),
        ),
        (
            "be right for other answers as well",
            lambda: all(
                np.array_equal(mask(some, ends), _kept(some, ends))
                for some in batches
                for ends in ((0,), (2, 5))
            ),
        ),
        ("leave what it is given alone", lambda: leaves_alone(answer, tokens, (1,))),
    )


def check_diagnosis(answer) -> Check:
    """Reading curves: one healthy run, and five that have one mistake each."""
    never, keys = "a reward that no answer gets", "one random key for all eight answers"
    old = "old log-probabilities taken anew before every update"

    def named():
        return filled(*answer.values(), what="the letter of a run")()

    return check_properties(
        ("be filled in", named),
        (
            "name a run for every diagnosis, each once",
            lambda: sorted(answer.values()) == list("ABCDEF"),
        ),
        (
            "give the two runs that learn nothing to mistakes that tie every group",
            lambda: {answer[never], answer[keys]} == {"C", "F"},
        ),
        (
            "tell these two apart by whether anything is paid",
            lambda: answer[never] == "C",
        ),
        (
            "say what a KL of 0 means where the reward moves: every ratio is 1",
            lambda: answer[old] == "B",
        ),
        (
            "blame the rate where the policy leaps from the one that sampled",
            lambda: answer["rate 12 times too high"] == "A",
        ),
        (
            "find the run that goes the wrong way at the usual pace",
            lambda: answer["advantages with the wrong sign"] == "E",
        ),
        (
            "call healthy the run that climbs, with ratios that move",
            lambda: answer["healthy"] == "D",
        ),
    )


def check_brevity(answer) -> Check:
    """A price on length among the right answers to one question."""
    rng = np.random.default_rng(4)
    batches = [_answered(rng) for _ in range(20)]
    one = "#### 5", "It is 5.\n#### 5", "He pays $5, I would say.\n#### 5"
    wrong = "#### 6", "I do not know whether it is 5 or 6, and so I say nothing."

    def prices(texts, questions="q"):
        columns = {"answer": ["#### 5"] * len(texts), "level": [3] * len(texts)}
        return list(
            answer([*questions] * (len(texts) // len(questions)), [*texts], **columns)
        )

    def right(batch):
        found = answer(*map(list, batch[:2]), answer=list(batch[2]), names=[[]] * 12)
        return np.allclose(found, _priced(*batch))

    return check_properties(
        ("return a list", lambda: isinstance(answer([], [], answer=[]), list)),
        ("return one number per completion", lambda: len(prices(one)) == 3),
        ("leave wrong answers at 0, short and long", lambda: not any(prices(wrong))),
        ("leave the shortest right answer at 0", lambda: prices(one)[0] == 0),
        ("price the longest right answer at -0.5", lambda: prices(one)[2] == -0.5),
        (
            "price one between them by how far it is on the way",
            lambda: np.isclose(prices(one)[1], -0.5 * 9 / 25),
        ),
        (
            "not care how long the wrong ones are",
            lambda: prices(one + wrong) == prices(one) + [0, 0],
        ),
        (
            "leave a right answer at 0 that has no other beside it",
            lambda: not any(prices(one[2:] + wrong)),
        ),
        (
            "leave right answers at 0 that are all of one length",
            lambda: not any(prices(one[1:2] * 4)),
        ),
        (
            "compare answers to one question only, in whatever order they come",
            lambda: (
                prices((one[0], one[1], one[1], one[2]), "ab") == [0, 0, -0.5, -0.5]
            ),
        ),
        (
            "be right for every batch of three questions",
            lambda: all(map(right, batches)),
        ),
        (
            "leave the batch as it is",
            lambda: leaves_alone(lambda *given: answer(*given), *batches[0]),
        ),
    )


def _answered(rng):
    """(questions, texts, gold answers) of a batch of 12, a third of it wrong."""
    each = rng.permutation([0, 1, 2] * 4).tolist()
    texts = [
        "".join(rng.choice(list("ab \n"), size)) + f"\n#### {which + bad}"
        for which, size, bad in zip(
            each, rng.integers(0, 60, 12), rng.random(12) < 1 / 3, strict=True
        )
    ]
    golds = [f"#### {which}" for which in each]
    return [f"{'Why? ' * which}How many?" for which in each], texts, golds


def _priced(questions, texts, golds):
    """What each answer has to get, by comparing it with every other one."""
    rows = list(zip(questions, texts, golds, strict=True))
    ends = [text.endswith(f"\n{gold}") for _, text, gold in rows]
    paid = []
    for (question, text, _), right in zip(rows, ends, strict=True):
        beside = zip(rows, ends, strict=True)
        sizes = [len(row[1]) for row, ok in beside if ok and row[0] == question]
        apart = max(sizes) - min(sizes) if right else 0
        paid.append(-0.5 * (len(text) - min(sizes)) / apart if apart else 0.0)
    return paid


def _overlooked(ratio, low, high, tokens):
    """Whether an answer's ratio stays inside of the clip."""
    return 1 - low <= ratio ** (1 / tokens) <= 1 + high


def check_fewest_tokens(answer) -> Check:
    """How long an answer has to be for GSPO's clip to overlook one token."""
    rng = np.random.default_rng(8)
    others = [
        (math.exp(rng.uniform(-2, 2)), *rng.uniform(0.003, 0.1, 2)) for _ in range(60)
    ]

    def right(ratio, low, high):
        found = answer(ratio, low, high)
        fits = _overlooked(ratio, low, high, found)
        return fits and (found == 1 or not _overlooked(ratio, low, high, found - 1))

    return check_properties(
        ("give a whole number of tokens", lambda: whole(answer(3.0, 0.1, 0.1))),
        ("be 1 where the token is inside", lambda: answer(1.05, 0.1, 0.1) == 1),
        ("need one token at least", lambda: answer(1.0, 0.1, 0.1) == 1),
        (
            "be long enough above",
            lambda: _overlooked(3.0, 0.2, 0.1, answer(3.0, 0.2, 0.1)),
        ),
        ("be no longer than needed above", lambda: right(3.0, 0.2, 0.1)),
        (
            "ask the lower end of a token that became rarer",
            lambda: right(0.2, 0.1, 0.3),
        ),
        ("be right at GSPO's own clip", lambda: right(3.0, 3e-4, 4e-4)),
        ("be right for other ratios and clips", lambda: all(right(*o) for o in others)),
    )


def check_gspo_ratio(answer) -> Check:
    """One ratio per answer: the geometric mean over its real tokens."""
    old = jnp.full((1, 2, 3), -1.0)
    rho = np.array([[[2.0, 2.0, 2.0], [4.0, 1.0, 50.0]]])
    new, mask = old + np.log(rho), jnp.array([[[1, 1, 1], [1, 1, 0]]])
    others = _rollouts()
    log_ratio, weight = others[0] - others[1], others[-1]
    truth = np.exp((log_ratio * weight).sum(-1) / weight.sum(-1))

    def ratio():
        return np.asarray(answer(new, old, mask))

    return check_properties(
        ("give one number per answer", lambda: ratio().shape == (1, 2)),
        ("be 1 where nothing moved", lambda: np.allclose(answer(old, old, mask), 1)),
        ("be 2 where every token doubled", lambda: np.isclose(ratio()[0, 0], 2)),
        ("leave padding out", lambda: ratio()[0, 1] < 3),
        ("divide by the real length", lambda: np.isclose(ratio()[0, 1], 2)),
        (
            "be 1 for an answer that is left out whole, and leave the others alone",
            lambda: np.allclose(answer(new, old, mask.at[0, 1].set(0)), [[2, 1]]),
        ),
        (
            "be right for several questions, with answers of 1 to 5 tokens",
            lambda: np.allclose(
                answer(others[0], others[1], others[-1]), truth, rtol=1e-4
            ),
        ),
    )


def _rollouts():
    """Log-probabilities (new, old), advantages and mask of 2 questions, 3 answers each.

    Ratios on both sides of the clip, advantages on both sides of 0.
    """
    rng = np.random.default_rng(8)
    old = rng.uniform(-3, -0.5, (2, 3, 5)).astype(np.float32)
    new = old + rng.normal(0, 0.5, old.shape).astype(np.float32)
    advantages = rng.normal(0, 1, (2, 3)).astype(np.float32)
    lengths = np.array([[5, 2, 4], [1, 3, 5]])
    mask = (np.arange(5) < lengths[..., None]).astype(np.float32)
    return tuple(map(jnp.asarray, (new, old, advantages, mask)))


def check_cispo(answer) -> Check:
    """CISPO: the weight is clipped and constant, the gradient always flows."""
    old = jnp.log(jnp.full((1, 2, 2), 0.2))
    new = jnp.log(jnp.array([[[0.6, 0.2], [0.2, 0.1]]]))
    advantages, mask = jnp.array([[1.0, -1.0]]), jnp.array([[[1, 1], [1, 0]]])
    others = _rollouts()

    def slope(new, *rest, **high):
        return np.asarray(jax.grad(lambda now: answer(now, *rest, **high))(new))

    @functools.cache
    def gradient():
        return slope(new, old, advantages, mask)

    def agrees(high, given):
        return np.allclose(
            slope(*others, **given), _cispo_slope(*others, high), rtol=1e-3, atol=1e-6
        )

    return check_properties(
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
        (
            "weigh every token by its answer's advantage, good or bad, large or small",
            lambda: agrees(0.28, {}),
        ),
        ("clip where `high` says", lambda: agrees(0.1, {"high": 0.1})),
    )


def _cispo_slope(new, old, advantages, mask, high):
    """Minus weight times advantage, per token of the batch, by NumPy."""
    weight = np.minimum(np.exp(np.asarray(new) - np.asarray(old)), 1 + high)
    return -weight * np.asarray(advantages)[..., None] * mask / np.asarray(mask).sum()
