"""Notebooks 06 to 15 once more: what an attacker tried, and other styles."""

import math
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

from exercise_answers import (
    assistant,
    asynchronous,
    divergences,
    food,
    gradients,
    large,
    own,
    served,
)
from helpers import rewards
from helpers.rewards import annotations, food_rewards

stop = jax.lax.stop_gradient


def turn_by_turn(turns):
    """The row and mask of 09-3, in NumPy and without a loop over pieces."""
    parts = [
        ([food.START, who.replace("tool", "user"), "\n", *said, food.END, "\n"], who)
        for who, said in turns
    ]
    masks = [
        np.pad(np.ones(len(p) - 4, bool), (3, 1)) & (w == "model") for p, w in parts
    ]
    return sum((part for part, _ in parts), []), np.concatenate(masks)


def by_differences(theta, pair):
    """The score from finite differences, in double precision."""

    def log_p(theta):
        rows = np.reshape(theta, (4, 3))
        rows = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        return rows[0][pair[0]] + rows[1 + pair[0]][pair[1]]

    exact = np.asarray(theta, float)
    steps = 1e-5 * np.eye(12)
    return np.array([(log_p(exact + s) - log_p(exact - s)) / 2e-5 for s in steps])


def kept(tokens_PGT, ends):
    """The loss mask by a loop over places."""
    mask = np.zeros_like(tokens_PGT)
    for place in np.ndindex(tokens_PGT.shape[:-1]):
        row = tokens_PGT[place].tolist()
        found = [row.index(end) for end in ends if end in row]
        mask[place][: min(found) + 1 if found else 0] = 1
    return mask


def ratio(mean):
    """GSPO's ratio with another mean over the tokens that count."""

    def answer(new, old, mask):
        return mean(np.asarray(new) - np.asarray(old), np.asarray(mask))

    return answer


def row_by_row(difference, mask):
    out = np.ones(mask.shape[:2])
    for place in np.ndindex(out.shape):
        own_tokens = difference[place][mask[place] > 0]
        out[place] = math.exp(own_tokens.mean()) if len(own_tokens) else 1.0
    return out


def cispo(weight, count=lambda mask: mask.sum()):
    def answer(new, old, advantages, mask, high=0.28):
        gain = stop(weight(jnp.exp(new - old), high)) * advantages[..., None] * new
        return -jnp.sum(gain * mask) / count(mask)

    return answer


def pairs(fits):
    """Pairs of texts of a right and a wrong verdict that fit each other."""

    def answer(group):
        good = [one for one in group if one["verdict"] is True]
        bad = [one for one in group if one["verdict"] is False]
        return [(a["text"], b["text"]) for a in good for b in bad if fits(a, b)]

    return answer


def dpo(margin, finish=lambda x: np.logaddexp(0, -x).mean()):
    def answer(new, reference, mask, beta=0.1):
        return finish(beta * margin(np.asarray(new) - reference, np.asarray(mask)))

    return answer


def of_pair(gained):
    return gained[:, 0] - gained[:, 1]


def by_numbers(shapes, chips):
    """Bytes on a chip, with NumPy."""
    sizes = [np.array(shape, int) for shape in shapes]
    cut = [bool(len(s)) and bool((s % chips == 0).any()) for s in sizes]
    each = [
        12 * np.prod(s) / (chips if c else 1) for s, c in zip(sizes, cut, strict=True)
    ]
    return np.sum(each)


def values_only(text):
    """Sums that hold, the answer among their values."""
    said, _, number = text.rpartition("#### ")
    held = annotations(text)
    found = re.findall(r"=([^<>=]+)>>", said)
    return float(bool(held) and all(held) and number.strip() in found)


def one_error(text, lookup):
    results = food.execute(text, lookup)
    good = all("kcal" in result for result in results)
    return results if good else [{"error": "There is a fault."}] * len(results)


def both_ways(student, teacher, length):
    forward = divergences.along()(teacher, student, length)
    return 0.5 * (divergences.along()(student, teacher, length) + forward)


def gated(rows, gate, up):
    return jax.nn.gelu(jnp.einsum("bd,df->bf", rows, gate)), rows @ up


def by_counts(foods):
    shares = np.array(list(Counter(foods).values()))
    return (shares @ (shares - 1)) / (len(foods) * (len(foods) - 1.0))


def closed_form(acceptance, draft_cost, pass_cost):
    """The best block by NumPy, with the sum of powers as they come."""
    n = np.arange(len(pass_cost))
    tokens = np.cumsum(np.power(float(acceptance), n))
    return np.argmax(tokens / (n * draft_cost + np.asarray(pass_cost)))


def named(fork=None, grow=None):
    return (fork or served.forked(), grow or served.grown())


def grows_late(table, length, users, free):
    """Takes the oldest of the free blocks, and copies by a list of its own."""
    if length % 4 == 0:
        table.append(free.pop(0))
        users[table[-1]] = 1
        return None
    old = table[-1]
    if users[old] == 1:
        return None
    table[-1] = free.pop(0)
    users[old] -= 1
    users[table[-1]] += 1
    return old


WRONG = {
    "06-1": {
        "the second token's rows by the second": lambda theta, pair: gradients.score()(
            theta, (pair[1], pair[1])
        ),
        "of nought": lambda theta, pair: gradients.score()(np.zeros(12), pair),
        "half of it": gradients.score(subtract=0.5),
    },
    "06-2": {"nearly": lambda G: 1 + 1 / (G - 0.9), "for eight": lambda G: 8 / 7},
    "06-3": {"as texts": ["0", "3"], "from 1": [1, 4], "all": range(6)},
    "06-4": {
        "only half of it flows": lambda p, q: 0.5 * stop(p - q) * p,
        "without q": lambda p, q: stop(p) * p,
        "an entropy too many": lambda p, q: stop(p - q) * p + stop(jnp.exp(p)) * p,
    },
    "07-1": {
        "the first question": lambda p, share: gradients.smallest()(p[:1], share),
        "half of them": lambda p, share: gradients.smallest()(p, 0.5),
        "always two": lambda p, share: 2,
    },
    "07-2": {
        "two ids at most": lambda tokens, ends: kept(tokens, ends[:1]),
        "the last axis turned": lambda tokens, ends: kept(tokens, ends)[..., ::-1],
        "one question": lambda tokens, ends: kept(tokens[:1], ends),
    },
    "07-3": {
        "a list": [*"DACFEB"],
        "what learns nothing has a dead clip": gradients.diagnosed("DABFEC"),
        "the sign that leaps": gradients.diagnosed("DBCFAE"),
    },
    "07-4": {
        "by the longest of all": lambda prompts, texts, answer, **_: [
            -0.5 * len(t) / max(map(len, texts)) * float(t.endswith(a.split()[-1]))
            for t, a in zip(texts, answer, strict=True)
        ],
        "half for all but the shortest": lambda prompts, texts, answer, **_: [
            -0.5 * float(len(t) > min(map(len, texts))) for t in texts
        ],
    },
    "08-1": {
        "from one end to the other": lambda ratio, low, high: max(
            1, math.ceil(abs(math.log(ratio)) / math.log((1 + high) / (1 - low)))
        ),
        "the nearer end for both": lambda ratio, low, high: gradients.counting_up(
            ratio, min(low, high), min(low, high)
        ),
        "by differences": lambda ratio, low, high: max(
            1, math.ceil(abs(ratio - 1) / (high if ratio > 1 else low))
        ),
    },
    "08-2": {
        "the first token": ratio(lambda d, mask: np.exp(d[..., 0])),
        "every token, then a mean": ratio(
            lambda d, mask: (np.exp(d) * mask).sum(-1) / mask.sum(-1).clip(1)
        ),
        "the batch's length": ratio(
            lambda d, mask: np.exp((d * mask).sum(-1) / mask.shape[-1])
        ),
    },
    "08-3": {
        "no weight": cispo(lambda rho, high: jnp.ones_like(rho)),
        "no clip": cispo(lambda rho, high: rho),
        "clipped to high": cispo(lambda rho, high: jnp.minimum(rho, high)),
        "counts the padding": cispo(
            lambda rho, high: jnp.minimum(rho, 1 + high), count=lambda mask: mask.size
        ),
    },
    "08b-1": {
        "of equal length": pairs(lambda a, b: len(a["bare"]) == len(b["bare"])),
        "of one sorted text": pairs(
            lambda a, b: sorted(a["bare"]) == sorted(b["bare"])
        ),
        "the same answer line": pairs(
            lambda a, b: a["bare"].split("\n")[-1] == b["bare"].split("\n")[-1]
        ),
    },
    "08b-2": {
        "one length for both": dpo(
            lambda d, mask: of_pair((d * mask).sum(-1)) / mask.sum(-1).max()
        ),
        "the first token": dpo(lambda d, mask: of_pair(d[..., 0])),
        "half of it": dpo(
            lambda d, mask: of_pair((d * mask).sum(-1)),
            finish=lambda x: 0.5 * np.logaddexp(0, -x).mean(),
        ),
        "the likeliest pair": dpo(
            lambda d, mask: of_pair((d * mask).sum(-1)),
            finish=lambda x: np.logaddexp(0, -x).min(),
        ),
    },
    "08b-3": {"in base 10": math.log10(4) / 0.2, "of 1 in 5": math.log(1 / 5) / 0.2},
    "09-1": {
        "squares of two": lambda p, columns, n: food.pooled(p, columns, min(n, 2)),
        "every other row": lambda p, columns, n: food.pooled(p, columns, n)[::-1],
        "a median": lambda *given: np.median(food.squares(*given), axis=(1, 3)).reshape(
            -1, food.width(given)
        ),
    },
    "09-2": {
        "one result": lambda text, lookup: food.execute(text, lookup)[:1],
        "two results": lambda text, lookup: food.execute(text, lookup)[:2],
        "one error for all": one_error,
        "empty errors": lambda text, lookup: [
            {"error": ""} if "error" in r else r for r in food.execute(text, lookup)
        ],
    },
    "09-3": {
        "shifted by one": lambda turns: (
            food.learned()(turns)[0],
            [*food.learned()(turns)[1][1:], 0],
        ),
        "every other turn": lambda turns: food.learned(
            learns=lambda place, turns: place % 2 == 1
        )(turns),
        "whatever follows a user": lambda turns: food.learned(
            learns=lambda place, turns: place > 0 and turns[place - 1][0] != "model"
        )(turns),
    },
    "09-4": {
        "with the own": lambda foods: sum(
            (n / len(foods)) ** 2 for n in Counter(foods).values()
        ),
        "of neighbours": lambda foods: np.mean(
            [a == b for a, b in zip(foods, foods[1:], strict=False)]
        ),
        "sixteen foods": lambda foods: 1 / 16,
    },
    "10-1": {"one token": [0], "in words": ["<<", "lookup", "pizza"]},
    "10-2": {"upside down": 185 / 120, "not a number": math.nan},
    "10-3": {
        "a word more": ["#### no food", "<<lookup pizza 150>>"],
        "a tuple in a list": [("#### no food",)],
    },
    "10-4": {
        "the first plate for all": lambda p, talks, portions, **_: food.mended()(
            p, talks, portions[:1] * len(talks)
        ),
        "all of the course's parts": lambda p, talks, portions, **_: rewards.RewardSet(
            food_rewards.WEIGHTS
        )(p, talks, portions=portions)[0],
        "everybody else fined": lambda p, talks, portions, **_: [
            right - 1 for right in food_rewards.solved([], talks, portions)
        ],
    },
    "11-1": {
        "both ways, averaged": both_ways,
        "the largest word": divergences.along(
            each=lambda p, q: (p * np.log(p / q)).max(-1)
        ),
    },
    "11-2": {
        "two words": lambda s, t, ids: divergences.top_k()(s, t[:, :2], ids[:, :2]),
        "by place": lambda s, t, ids: divergences.top_k()(
            s, t, jnp.broadcast_to(ids[:1], ids.shape)
        ),
    },
    "11-3": {
        "the distance": lambda p, q: 0.5 * jnp.abs(p - q).sum(-1),
        "bits": lambda p, q: divergences.mixture()(p, q) / math.log(2),
        "squares": lambda p, q: 0.25 * ((p - q) ** 2 / (p + q + 1e-9)).sum(-1),
    },
    "12-1": {
        "a fork of the first block": named(
            fork=lambda table, users: served.forked()(table, users)[:1]
        ),
        "copies told for new blocks": named(
            grow=lambda table, length, users, free: (
                served.grown()(table, length, users, free) or table[-1]
            )
        ),
    },
    "12-2": {
        "evenly": lambda p, q: np.full(len(p), 1 / len(p)),
        "p without what q likes best": lambda p, q: (
            (kept := np.where(np.arange(len(p)) == q.argmax(), 0, p)) / kept.sum()
        ),
        "squares": lambda p, q: (
            (more := np.maximum(p - q, 0) ** 2) / np.maximum(more.sum(), 1e-30)
        ),
    },
    "12-3": {
        "by acceptance": lambda a, draft, passes: int(a * (len(passes) - 1)),
        "one more": lambda *given: closed_form(*given) + 1,
        "the cheapest pass": lambda a, draft, passes: int(np.argmin(passes)),
    },
    "13-1": {
        "two axes together": lambda shapes, chips: sum(
            12 * math.prod(s) / (chips if math.prod(s) % chips == 0 else 1)
            for s in shapes
        ),
        "the first two axes": lambda shapes, chips: by_numbers(
            [s[:2] for s in shapes], chips
        ),
        "in bfloat16": lambda shapes, chips: by_numbers(shapes, chips) / 2,
    },
    "13-2": {
        "along data": lambda *given: large.cut(*given[:4], "data"),
        "along model": lambda *given: large.cut(*given[:4], "model"),
        "relu": lambda x, gate, up, down, axis: large.scatter(
            large.layer(large.gather(x, axis), gate, up, down, act=jax.nn.relu), axis
        ),
    },
    "13-3": {
        "turned": lambda *given: large.by_events(*given)[::-1],
        "one tick short": lambda ops, start, end: large.by_events(ops, start, end - 1),
        "from 0": lambda ops, start, end: large.by_events(ops, 0, end),
    },
    "13-4": {
        "along data": lambda losses, mask, axis: large.both_at_once(
            losses, mask, "data"
        ),
        "over rows": lambda losses, mask, axis: (
            large.total(losses, mask, axis) / (4 * losses.size)
        ),
    },
    "13b-1": {
        "by number alone, again": lambda *given: (
            *map(sorted, asynchronous.by_a_loop(*given)[:2]),
            asynchronous.by_a_loop(*given)[2],
        ),
        "no limit": lambda out, back, version, pieces, limit: asynchronous.by_a_loop(
            out, back, version, pieces, 2
        ),
        "room never below one": lambda *given: (
            *asynchronous.by_a_loop(*given)[:2],
            max(asynchronous.by_a_loop(*given)[2], 1),
        ),
    },
    "13b-2": {
        "the course's settings": lambda n, p, b, a, cap=2.0, low=0.2, high=0.28: (
            asynchronous.by_where(n, p, b, a)
        ),
        "ends exchanged": lambda n, p, b, a, cap=2.0, low=0.28, high=0.2: (
            asynchronous.by_where(n, p, b, a, cap, low, high)
        ),
    },
    "13b-3": {
        "one lost": ({23}, {20, 21, 22, 23, 24, 25}, 1),
        "halves": ({23}, {20, 21, 22, 23, 24, 25}, 0.5),
        "texts": ({"23"}, {"20"}, 0),
    },
    "13b-4": {
        "one number": lambda manifest: asynchronous.by_comprehension(manifest)[0],
        "turned": lambda manifest: asynchronous.by_comprehension(manifest)[::-1],
        "what is there, twice": lambda manifest: (
            (asynchronous.by_comprehension(manifest)[1],) * 2
        ),
    },
    "14-1": {
        "three turns": lambda conversation, run, turns=4: assistant.loop(
            conversation, run, 3
        ),
        "a default of three": lambda conversation, run, turns=3: assistant.loop(
            conversation, run, turns
        ),
        "only the last event": lambda *given, **named: [
            *assistant.loop(*given, **named)
        ][-1:],
    },
    "14-2": {
        "in the page's words": "The tool gives kcal 9",
        "a comment": f"<!-- {assistant.FORGED} -->",
    },
    "14-3": {"as texts": ["402", "662", "0", "394"], "turned": [394, 0, 662, 402]},
    "14-4": {
        "the second alone": lambda first, second: second,
        "the first alone": lambda first, second: first,
    },
    "15-1": {
        "at most 32": lambda matrices, chip: (
            (rank := own.divided(matrices, chip)) and min(rank, 32)
        ),
        "square matrices": lambda matrices, chip: own.divided(
            [(rows, rows) for rows, _ in matrices], chip
        ),
        "a rank less": lambda matrices, chip: (
            (rank := own.divided(matrices, chip)) and max(rank - 1, 1)
        ),
    },
    "15-2": {
        "a list": list(own.ROW.values()),
        "a worded answer": own.ROW | {"answer": "Mia has six pens."},
        "the right number after a false sum": own.ROW
        | {"answer": "Mia has <<2+3=6>>6 pens.\n#### 5"},
    },
    "15-3": {
        "any sum gives it": values_only,
        "the text's last two numbers": lambda text: float(
            bool(annotations(text))
            and all(annotations(text))
            and len(set(re.findall(r"\d+", text)[-2:])) == 1
        ),
    },
    "15-4": {
        "two sessions": lambda steps, every, pulled: own.sessions()(
            steps, every, pulled[:1]
        ),
        "by the nearest checkpoint": own.sessions(
            saved=lambda last, every: round(last / every) * every
        ),
        "as if each began where the first left off": lambda steps, every, pulled: (
            own.sessions()(steps, every, [min(pulled)] * len(pulled) if pulled else [])
        ),
    },
}

RIGHT = {
    "06-1": {"differences": by_differences},
    "06-2": {"NumPy's": lambda G: np.divide(G, G - 1)},
    "06-3": {"an array": np.array([3, 0])},
    "06-4": {"by products": lambda p, q: p * stop(p) - stop(q) * p},
    "07-1": {
        "NumPy's": lambda p, share: next(
            (
                np.int64(G)
                for G in range(2, 65)
                if np.mean(1 - p**G - (1 - p) ** G) >= share
            ),
            None,
        )
    },
    "07-2": {"lists": lambda *given: kept(*given).tolist()},
    "07-3": {"by name": dict(sorted(gradients.diagnosed("DACFEB").items()))},
    "07-4": {
        "NumPy's floats": lambda *given, **named: [
            *np.array(gradients.in_a_dict(*given, **named))
        ]
    },
    "08-1": {"one at a time": lambda *given: np.int64(gradients.counting_up(*given))},
    "08-2": {"row by row": ratio(row_by_row)},
    "08-3": {"clip": cispo(lambda rho, high: jnp.clip(rho, None, 1 + high))},
    "08b-1": {"sorted first": pairs(lambda a, b: a["bare"] == b["bare"])},
    "08b-2": {"logaddexp": dpo(lambda d, mask: of_pair((d * mask).sum(-1)))},
    "08b-3": {"NumPy's": np.float32(np.log(4) * 5)},
    "09-1": {
        "one axis at a time": lambda p, columns, n: (
            p.reshape(-1, n, p.shape[1])
            .mean(1)
            .reshape(-1, n, columns // n, p.shape[1])
            .mean(1)
            .reshape(-1, p.shape[1])
        )
    },
    "09-2": {"a generator of them": lambda text, lookup: [*food.execute(text, lookup)]},
    "09-3": {"turn by turn": turn_by_turn},
    "09-4": {"NumPy's": by_counts},
    "10-1": {"an array's list": [*map(int, food.spelt(*food.CALL))]},
    "10-2": {"NumPy's": np.float32(24 / 37)},
    "10-3": {"nothing to look up": ["#### 12"]},
    "10-4": {
        "NumPy's floats": lambda *given, **named: [
            *np.array(food.mended()(*given, **named))
        ]
    },
    "11-1": {"as a Python float": lambda *three: float(divergences.along()(*three))},
    "11-2": {
        "row by row": lambda s, t, ids: jnp.stack(
            [
                divergences.top_k()(s[i : i + 1], t[i : i + 1], ids[i : i + 1])[0]
                for i in range(len(s))
            ]
        )
    },
    "11-3": {
        "NumPy": lambda p, q: np.asarray(
            divergences.mixture()(jnp.asarray(p), jnp.asarray(q)), np.float64
        )
    },
    "12-1": {"the oldest block": named(grow=grows_late)},
    "12-2": {
        "a loop": lambda p, q: (
            (more := [max(a - b, 0) for a, b in zip(p, q, strict=True)])
            and [x / sum(more) for x in more]
        ),
        "JAX": lambda p, q: jax.nn.relu(p - q) / jax.nn.relu(p - q).sum(),
    },
    "12-3": {"cumsum": closed_form},
    "13-1": {"NumPy": by_numbers},
    "13-2": {
        "einsum": lambda x, gate, up, down, axis: large.scatter(
            jnp.einsum(
                "bf,bf,fd->bd",
                *gated(large.gather(x, axis), gate, up),
                down,
            ),
            axis,
        ),
    },
    "13-3": {
        "NumPy's": lambda *given: tuple(map(np.float64, large.by_events(*given))),
    },
    "13-4": {
        "where": lambda losses, mask, axis: (
            jax.lax.psum(jnp.where(mask > 0, losses, 0).sum(), axis)
            / jax.lax.psum(jnp.count_nonzero(mask), axis)
        )
    },
    "13b-1": {"tuples": lambda *given: tuple(asynchronous.by_a_loop(*given))},
    "13b-2": {
        "NumPy": lambda n, p, b, a, cap=2.0, low=0.2, high=0.28: np.asarray(
            asynchronous.by_where(n, p, b, a, cap, low, high), np.float64
        )
    },
    "13b-3": {"arrays": (np.array([23]), np.arange(20, 26), np.int64(0))},
    "13b-4": {"a list": lambda manifest: [*asynchronous.by_comprehension(manifest)]},
    "14-1": {
        "a generator within": lambda *given, **named: (
            event for event in assistant.loop(*given, **named)
        )
    },
    "14-2": {"double quotes": assistant.FORGED.replace("'", '"')},
    "14-3": {"NumPy's": np.array([402, 662, 0, 394])},
    "14-4": {"by a function": lambda first, second: assistant.Copied(first, second)},
    "15-1": {"a whole chip": lambda matrices, chip: own.fitting()(matrices, int(chip))},
    "15-2": {"by minus": own.ROW | {"answer": "<<3-2=1>>1 pen.\n#### 1"}},
    "15-3": {"NumPy's": lambda text: np.float32(own.used(text))},
    "15-4": {"an iterator": lambda *run: map(np.int64, own.sessions()(*run))},
}
