"""Self-checks of notebooks 07 and 08."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.check import Check, check_properties, filled


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
        "tell the two runs whose groups are all tied apart by what is paid": lambda: (
            (answer[unpaid], answer[keys]) == ("C", "F")
        ),
        "know that a KL of 0 means that every ratio is 1": lambda: answer[old] == "B",
        "blame the rate where the policy leaps from the one that sampled": lambda: (
            answer["rate 12 times too high"] == "A"
        ),
        "call the run that climbs healthy": lambda: answer["healthy"] == "D",
    }
    return check_properties(properties)


def check_gspo_ratio(answer) -> Check:
    """One ratio per completion: the geometric mean over its real tokens."""
    new, old, _, mask = _rollouts()

    def ratio(new, old, mask):
        length = np.maximum(np.asarray(mask).sum(-1), 1)
        return np.exp(np.asarray((new - old) * mask).sum(-1) / length)

    properties = {
        "be 2 where every token doubled": [(old + np.log(2), old, mask)],
        "leave padding out, and divide by the real length": [(new, old, mask)],
        "be 1 for a completion that is left out whole, and leave the others be": [
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


def check_weighted_gspo(answer) -> Check:
    """One weight per completion, constant and clipped; all tokens keep a gradient."""
    rollouts = _rollouts()
    new, old, _, mask = map(np.asarray, rollouts)
    ratios = np.exp(((new - old) * mask).sum(-1) / mask.sum(-1))

    def slope(*given):
        return np.asarray(jax.grad(answer)(*given))

    def weighted_slope(new, old, advantages, mask, high=0.28):
        length = mask.sum(-1)
        ratio = np.exp(((new - old) * mask).sum(-1) / length)
        push = np.minimum(ratio, 1 + high) * advantages / length / length.size
        return -push[..., None] * mask

    properties = {
        "let the tokens of clipped completions learn too": lambda: slope(*rollouts)[
            (ratios > 1.28)[..., None] & (mask > 0)
        ].all(),
        "weigh a completion by its one ratio, up to 1.28, and its advantage": [
            rollouts
        ],
        "clip where `high` says": [(*rollouts, 0.1)],
    }
    return check_properties(properties, slope, weighted_slope, 1e-3)
