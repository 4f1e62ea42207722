"""Self-checks of notebooks 07 and 08."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties, filled


def check_smallest_group(answer) -> Check:
    """How many answers a question needs so that a share of the groups is not tied."""
    rng = np.random.default_rng(7)
    cases = [(rng.beta(0.5, 0.5, 9), rng.uniform(0.1, 0.8)) for _ in range(60)]
    cases += [(np.array([0.02]), 1 - 0.02**G - 0.98**G + 1e-4) for G in (63, 64)]

    def smallest(solved_P, share):
        for G in range(2, 65):
            if np.mean(1 - solved_P**G - (1 - solved_P) ** G) >= share:
                return G
        return None

    properties = {
        "find that two answers to a coin differ every second time": [
            (np.array([0.5]), share) for share in (0, 0.5, 0.51)
        ],
        "take a group that nobody, or everybody, solves for tied": [
            (np.array([chance]), 0.5) for chance in (0.1, 0.9)
        ],
        "look at each question, not at their mean": [
            (np.array([0.01, 0.99, 0.5]), 0.5)
        ],
        "be right for any questions, and None where 64 answers are too few": cases,
    }
    return check_properties(properties, answer, smallest)


def check_loss_mask(answer) -> Check:
    """Which tokens the loss sees: up to the end, and none of an answer without one."""
    rng = np.random.default_rng(5)
    cases = [
        (rng.integers(0, 6, (3, 2, n)), ends)
        for n in (1, 4, 9)
        for ends in ((0,), (2, 5)) * 5
    ]

    def loss_mask(tokens_PGT, ends):
        mask = np.zeros(tokens_PGT.shape)
        for p, g in np.ndindex(tokens_PGT.shape[:2]):
            places = [t for t, token in enumerate(tokens_PGT[p, g]) if token in ends]
            mask[p, g, : min(places, default=-1) + 1] = 1
        return mask

    def one(*tokens):
        return [(np.array([[tokens]]), (1,))]

    properties = {
        "mark an answer up to its end, the end included": one(5, 6, 1, 0),
        "leave an answer without an end out": one(5, 6, 7, 8),
        "stop at the first end, whatever stands after it": one(5, 1, 1, 5),
        "be right for any answers, with every id of `ends`": cases,
    }
    return check_properties(properties, answer, loss_mask)


def check_diagnosis(answer) -> Check:
    """Reading curves: one healthy run, and five that have one mistake each."""
    unpaid = "a reward that no answer gets"
    keys = "one random key for all eight answers"
    old = "old log-probabilities taken anew before every update"
    properties = {
        "be filled in": filled(answer, what="the letter of a run"),
        "name every run once": lambda: sorted(answer.values()) == list("ABCDEF"),
        "give the two runs that learn nothing to mistakes that tie every group": (
            lambda: {answer[unpaid], answer[keys]} == {"C", "F"}
        ),
        "tell the two that learn nothing apart by what is paid": lambda: (
            answer[unpaid] == "C"
        ),
        "know that a KL of 0 means that every ratio is 1": lambda: answer[old] == "B",
        "blame the rate where the policy leaps from the one that sampled": lambda: (
            answer["rate 12 times too high"] == "A"
        ),
        "call the run that climbs healthy": lambda: answer["healthy"] == "D",
    }
    return check_properties(properties)


def check_brevity(answer) -> Check:
    """A price on length among the right answers to one question."""
    rng = np.random.default_rng(4)
    right = ["#### 5", "It is 5.\n#### 5", "He pays $5, I would say.\n#### 5"]
    wrong = ["#### 6", "I do not know whether it is 5 or 6, and so I say nothing."]

    def prices(questions, texts, golds):
        return answer(questions, texts, answer=golds, names=[[]] * len(texts))

    def to_one_question(*texts):
        return [["q"] * len(texts), list(texts), ["#### 5"] * len(texts)]

    properties = {
        "leave the shortest right answer at 0, price the longest at -0.5, and one "
        "between them by how far it is on the way": [to_one_question(*right)],
        "leave a right answer at 0 that has none of another length beside it": [
            to_one_question(right[2], *wrong),
            to_one_question(right[1], right[1]),
        ],
        "compare answers to one question only, in whatever order they come": [
            _answers(rng) for _ in range(20)
        ],
    }
    return check_properties(properties, prices, _brevity, 1e-6)


def _answers(rng):
    """(questions, texts, gold answers) of a batch of 12, a third of it wrong."""
    golds = rng.permutation([0, 1, 2] * 4).tolist()
    lengths, wrong = rng.integers(0, 60, 12), rng.random(12) < 1 / 3
    texts = [
        "".join(rng.choice(list("ab \n"), length)) + f"\n#### {gold + bad}"
        for gold, length, bad in zip(golds, lengths, wrong, strict=True)
    ]
    questions = [f"{'Why? ' * gold}How many?" for gold in golds]
    return questions, texts, [f"#### {gold}" for gold in golds]


def _brevity(questions, texts, golds):
    rows = list(zip(questions, texts, golds, strict=True))
    right = [row for row in rows if f"\n{row[1]}".endswith(f"\n{row[2]}")]
    prices = []
    for row in rows:
        sizes = [len(text) for question, text, _ in right if question == row[0]]
        spread = max(sizes) - min(sizes) if row in right else 0
        prices.append(-0.5 * (len(row[1]) - min(sizes)) / spread if spread else 0.0)
    return prices


def check_fewest_tokens(answer) -> Check:
    """How long an answer has to be for GSPO's clip to overlook one token."""
    rng = np.random.default_rng(8)
    cases = [(1.0, 0.1, 0.1), (3.0, 3e-4, 4e-4)]  # the second is GSPO's own clip
    for _ in range(60):
        cases.append((math.exp(rng.uniform(-2, 2)), *rng.uniform(0.003, 0.1, 2)))

    def fewest(ratio, low, high):
        tokens = 1
        while not 1 - low <= ratio ** (1 / tokens) <= 1 + high:
            tokens += 1
        return tokens

    properties = {
        "be long enough above, and no longer than needed": [(3.0, 0.2, 0.1)],
        "ask the lower end of a token that became rarer": [(0.2, 0.1, 0.3)],
        "be right for any ratios and clips": cases,
    }
    return check_properties(properties, answer, fewest)


def check_gspo_ratio(answer) -> Check:
    """One ratio per answer: the geometric mean over its real tokens."""
    new, old, _, mask = _rollouts()

    def ratio(new, old, mask):
        length = np.maximum(np.asarray(mask).sum(-1), 1)
        return np.exp(np.asarray((new - old) * mask).sum(-1) / length)

    properties = {
        "be 2 where every token doubled": [(old + np.log(2), old, mask)],
        "leave padding out, and divide by the real length": [(new, old, mask)],
        "be 1 for an answer that is left out whole, and leave the others alone": [
            (new, old, mask.at[0, 1].set(0))
        ],
    }
    return check_properties(properties, answer, ratio, 1e-4)


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
    rollouts = _rollouts()
    ratios = np.exp(np.asarray(rollouts[0] - rollouts[1]))

    def slope(*given):
        return np.asarray(jax.grad(answer)(*given))

    def cispo_slope(new, old, advantages, mask, high=0.28):
        weight = jnp.minimum(jnp.exp(new - old), 1 + high)
        return -weight * advantages[..., None] * mask / mask.sum()

    properties = {
        "let clipped tokens learn too": lambda: slope(*rollouts)[
            (ratios > 1.28) & (rollouts[3] > 0)
        ].all(),
        "weigh a token by its ratio, up to 1.28, and its advantage": [rollouts],
        "clip where `high` says": [(*rollouts, 0.1)],
    }
    return check_properties(properties, slope, cispo_slope, 1e-3)
