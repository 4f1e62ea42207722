"""Notebooks 00 to 05 once more: what an attacker tried, and other styles."""

import math
import re
from collections import Counter, OrderedDict
from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import numpy as np

from exercise_answers.masks import TRUE, dialogue, layout
from exercise_answers.measuring import MANY, TRUE_36, mistaken, questions, weights
from exercise_answers.products import by_last_bucket, gemma, hops, one_row, turning
from exercise_answers.start import DRIVE, HERE
from helpers import rewards
from helpers.exercises.sft import END
from helpers.tools import calculator


def in_lists(rewards_PG):
    """Centred rewards without NumPy."""
    return [[r - sum(row) / len(row) for r in row] for row in rewards_PG.tolist()]


def counted(hf):
    """Parameters, matrix by matrix, as NumPy's numbers."""
    D, H = hf["hidden_size"], hf["head_dim"]
    N, K = hf["num_attention_heads"], hf["num_key_value_heads"]
    shapes = [(D, N * H), (D, K * H), (D, K * H), (N * H, D)]
    shapes += [(D, hf["intermediate_size"])] * 3 + [(D,)] * 4 + [(H,)] * 2
    layer = sum(np.prod(shape) for shape in shapes)
    return hf["num_hidden_layers"] * layer + np.prod((hf["vocab_size"], D)) + D


def logits_of(model, tokens_T, *, seen=lambda pieces: pieces, late=False, twice=1):
    """One token at a time; a mistake changes what is kept, or given."""
    pieces, rows = (), []
    for t, token in enumerate(np.asarray(tokens_T).tolist()):
        at = (jnp.array([[[token]]]), jnp.array([[[t]]]))
        hidden, kv = model(*at, earlier=seen(pieces))
        pieces += (kv,) * twice
        rows.append(model.logits(hidden).reshape(-1))
    return jnp.array([rows[0], *rows[:-1]] if late else rows)


def by_decimals(text):
    """Reads a number with Decimal, and a fraction in two parts."""
    text = text.replace(",", "").replace("$", "").replace("−", "-")
    if "####" in text:
        text = text.split("####")[-1].split("\n")[0]
    found = list(re.finditer(r"(-?(?:\d+\.\d+|\.\d+|\d+))(?:/(\d+))?", text))
    if not found:
        return None
    above, below = found[-1].groups()
    if max(len(above), len(below or "")) > 4000:
        return None
    if below is not None and "." not in above:
        return Fraction(int(above), int(below)) if int(below) else None
    return Fraction(Decimal(below or above))


def by_segments(lengths, room):
    """A row's layout from its ends."""
    ends = np.cumsum([0, *lengths])
    place = np.arange(room)
    segment = np.searchsorted(ends[1:], place, side="right") + 1
    real = place < ends[-1]
    start = ends[np.minimum(segment, len(lengths)) - 1] if lengths else 0 * place
    return np.where(real, segment, 0), np.where(real, place - start, 0)


def spent(text, numbers, target):
    """Takes each number that is written off a list of those that are given."""
    if "####" not in text:
        return 0
    line = text[text.rindex("####") + 4 :].split("\n")[0]
    left = [str(number) for number in numbers]
    for written in re.findall(r"[0-9.]+", line):
        if written not in left:
            return 0
        left.remove(written)
    return int(calculator.calculate(line) == target)


def made(text, numbers, target, *, need=None, value=None):
    """The same with a mistake in what has to be used, or in what it comes to."""
    line = text.rpartition("####")[2].partition("\n")[0]
    written = Counter(re.findall(r"[\d.]+", line))
    fits = need(written, Counter(map(str, numbers))) if need else True
    came = value(line) if value else calculator.calculate(line)
    return float("####" in text and fits and came == target)


def product(prompts, completions, answer, **_):
    """A right answer's whole point for work that has an operator in each sum."""
    paid = []
    for right, text in zip(
        rewards.correct(prompts, completions, answer), completions, strict=True
    ):
        shown = re.findall(r"<<([^<>=]*)=[^<>]*>>", text)
        done = [re.search(r"[\d)]\s*[-+*/]", left) for left in shown]
        held = rewards.annotations(text)
        paid.append(right if held and all(held) and all(done) else 0.25 * right)
    return np.array(paid)


def work_alone(prompts, completions, answer, **_):
    """The share of sums that hold, for who is right."""
    right = rewards.correct(prompts, completions, answer)
    held = [rewards.annotations(text) for text in completions]
    return [r * (np.mean(h) if h else 0.5) for r, h in zip(right, held, strict=True)]


def as_long_as_it_works(prompts, completions, answer, **_):
    right = rewards.correct(prompts, completions, answer)
    return [
        r * (0.5 + 0.5 * ("<<" in t)) for r, t in zip(right, completions, strict=True)
    ]


WRONG = {
    "template-1": {"a list": [1], "a text": "1"},
    "template-2": {
        "the first group's mean": lambda r: r - r[0].mean(),
        "half precision": lambda r: (r - r.mean(1, keepdims=True)).astype(np.float16),
        "the example's size": lambda r: (r - r.mean(1, keepdims=True))[:2, :4],
    },
    "template-3": {"two groups": [[1.0, 3.0], [1.0, 3.0]], "a hair": [1.0, 1.0 + 1e-8]},
    "00-1": {
        "a blank behind": HERE | {"place": "laptop "},
        "the number of chips": HERE | {"preset with 1 chip": "1"},
        "values alone": list(HERE.values()),
    },
    "00-2": {
        "small letters": {"course_build": f"{DRIVE}/course"},
        "from home on": {"COURSE_BUILD": f"~{DRIVE}/course"},
        "two in a row": [("COURSE_BUILD", f"{DRIVE}/course")] * 2,
        "nothing": {},
    },
    "00-3": {
        "of length 1": lambda h, t: (
            (h / np.linalg.norm(h, axis=1, keepdims=True))
            @ (t / np.linalg.norm(t, axis=1, keepdims=True)).T
        ),
        "two by four": lambda h, t: np.reshape((h @ t.T).ravel()[:8], (2, -1)),
        "the hidden states": lambda h, t: h,
    },
    "01-1": {
        "whole numbers": lambda B, D, F, size=2: (
            2 * B * D * F // (size * (B * D + D * F + B * F))
        ),
        "one outer size": lambda B, D, F, size=2: (
            2 * B * D * B / (size * (B * D + D * B + B * B))
        ),
        "the size squared": lambda B, D, F, size=2: (
            4 * B * D * F / (size**2 * (B * D + D * F + B * F))
        ),
    },
    "01-2": {
        "the wider side": lambda D, F, ridge: turning(max(D, F), max(D, F), ridge),
        "a hundredth off": lambda D, F, ridge: turning(
            D, F, ridge, rounded=lambda x: math.ceil(x - 0.01)
        ),
        "a multiple of eight": lambda D, F, ridge: (
            (batch := turning(D, F, ridge)) and -(-batch // 8) * 8
        ),
    },
    "01-3": {
        "the mean": lambda lengths, *_: [sum(lengths) / len(lengths), max(lengths)],
        "the commonest": lambda lengths, *_: [
            max(lengths, key=lengths.count),
            max(lengths),
        ],
        "the notebook's three": lambda lengths, *_: [20, 40, max(lengths)],
    },
    "01-4": {
        "forward alone": lambda a, b, s, r: sum(
            (y - x) % n if ring else abs(x - y)
            for x, y, n, ring in zip(a, b, s, r, strict=True)
        ),
        "one ring for all": lambda a, b, s, r: hops(a, b, s, (r[0],) * 3),
        "one size for all": lambda a, b, s, r: hops(a, b, (max(s),) * 3, r),
    },
    "02-1": {
        "every head has its keys": lambda hf: gemma(
            hf | {"num_key_value_heads": hf["num_attention_heads"]}
        ),
        "norms for each head": lambda hf: gemma(
            hf, own=hf["num_attention_heads"] + hf["num_key_value_heads"]
        ),
        "this course's width": lambda hf: gemma(hf | {"hidden_size": 96}),
    },
    "02-2": {
        "the logits before": lambda m, t: logits_of(m, t, late=True),
        "kept twice": lambda m, t: logits_of(m, t, twice=2),
        "without the newest": lambda m, t: logits_of(m, t, seen=lambda p: p[:-1]),
        "six tokens": lambda m, t: logits_of(m, np.resize(t, 6)),
    },
    "02-3": {
        "as many answers as tokens": lambda Tp, Tc, G: one_row()(Tp, G, Tc),
        "only the answer before is hidden": one_row(
            own=lambda mine, other: other in (0, mine) or other < mine - 1
        ),
        "a window": one_row(past=lambda t, s, mine: t - 8 < s <= t),
    },
    "02-4": {
        "the first row for all": lambda mask, n: (
            np.full((len(mask), 1), mask[0].sum()) + np.arange(n)
        ),
        "as wide as the prompts": lambda mask, n: (
            mask.sum(1)[:, None] + np.arange(mask.shape[1])
        ),
        "counted through the batch": lambda mask, n: (
            mask.sum(1)[:, None] + np.arange(len(mask) * n).reshape(-1, n)
        ),
    },
    "03-1": {
        "floats, tidied": lambda text: (
            (found := by_decimals(text))
            and Fraction(float(found)).limit_denominator(1000)
        ),
        "the size of it": lambda text: (found := by_decimals(text)) and abs(found),
    },
    "03-2": {
        "one left out": mistaken(TRUE_36)
        | {
            "strict": {
                "right, rejected": {4, 5, 9, 10, 11},
                "wrong, accepted": {3, 6, 12},
            }
        },
        "right and wrong at once": mistaken(TRUE_36)
        | {
            "lenient": {
                "right, rejected": {5, 9, 11, 14},
                "wrong, accepted": {1, 3, 4, 6, 12},
            }
        },
        "texts": {
            who: dict.fromkeys(kinds, ["36"])
            for who, kinds in mistaken(TRUE_36).items()
        },
        "pairs of lists": {
            who: [*kinds.values()] for who, kinds in mistaken(TRUE_36).items()
        },
    },
    "03-3": {"one-sided": 1692, "in a list": [2401], "not a number": math.nan},
    "03-4": {
        "in hundreds": lambda b, g, lost: [n / 100 for n in questions(b, g, lost)],
        "both runs counted": lambda b, g, lost: [2 * n for n in questions(b, g, lost)],
        "a loss is never seen": lambda b, g, lost: (
            questions(b, g, lost) if g > lost else (math.inf, math.inf)
        ),
        "three": lambda b, g, lost: (b, *questions(b, g, lost)),
    },
    "04-1": {"a position more": (11, 17), "of the words": (12, 16)},
    "04-2": {
        "a set": set(TRUE.values()),
        "a name more": TRUE | {"Flo": "nothing", "Ada": "learns padding"},
    },
    "04-3": {
        "words only": lambda tokens: [
            int(m and (t >= 10 or t == END))
            for m, t in zip(dialogue(tokens), tokens, strict=True)
        ],
        "the first answer": lambda tokens: (
            np.array(dialogue(tokens)) * (np.cumsum(np.array(tokens) == END) <= 2)
        ),
        "two too long": lambda tokens: dialogue(tokens, newline=1),
        "the tokens": lambda tokens: tokens,
    },
    "04-4": {
        "places of the row": lambda lengths, room: (
            layout(lengths, room)[0],
            [*range(room)],
        ),
        "eight places": lambda lengths, room: layout(lengths, 8),
        "segments twice": lambda lengths, room: (layout(lengths, room)[0],) * 2,
    },
    "05-1": {
        "the rounded value": lambda *given: made(
            *given, value=lambda line: round(float(calculator.calculate(line) or 0), 9)
        ),
        "at most one too many": lambda *given: made(
            *given, need=lambda written, given: (written - given).total() <= 1
        ),
        "as often as all together": lambda *given: made(
            *given, need=lambda written, given: set(written) <= set(given)
        ),
        "the numbers of the text": lambda text, numbers, target: made(text, (), target),
        "28": lambda text, numbers, target: spent(text, numbers, 28),
    },
    "05-2": {
        "as texts": {k: str(v) for k, v in weights(1, 0.1, 0.1, 0.1).items()},
        "too small to see": weights(1e-60, 1e-61, 1e-61, 1e-61),
        "a list": [1, 0.1, 0.1, 0.1],
    },
    "05-3": {
        "all numbers but no sum of its own": "<<>> " + MANY,
        "a right answer": "<<2+2=4>> #### 4",
        "floats": "<<1=1>> " + " ".join(f"0.{i}" for i in range(30)),
    },
    "05-4": {
        "the share that holds": work_alone,
        "where there is a sum": as_long_as_it_works,
        "pays in whole points": lambda *given, **named: [
            round(float(x) + 0.3) for x in product(*given, **named)
        ],
    },
}

RIGHT = {
    "template-1": {"NumPy's": np.int64(1)},
    "template-2": {"lists": in_lists},
    "template-3": {"a tuple": (1, 2)},
    "00-1": {"an ordered dict": OrderedDict(reversed(HERE.items()))},
    "00-2": {"a slash at its end": {"COURSE_BUILD": f"{DRIVE}/course/"}},
    "00-3": {
        "a loop": lambda h, t: np.array([[sum(a * b) for b in t] for a in h]),
        "tensordot in JAX": lambda h, t: jnp.tensordot(
            jnp.array(h), jnp.array(t), axes=[1, 1]
        ),
    },
    "01-1": {
        "a fraction": lambda B, D, F, size=2: Fraction(
            2 * B * D * F, size * (B * D + D * F + B * F)
        ),
    },
    "01-2": {
        "NumPy's": lambda D, F, ridge: (
            None
            if ridge * (1 / D + 1 / F) >= 1
            else np.ceil(ridge * D * F / (D * F - ridge * (D + F)))
        ),
        "a float": lambda D, F, ridge: (found := turning(D, F, ridge)) and float(found),
    },
    "01-3": {
        "NumPy's": lambda *given: np.array(by_last_bucket(*given)),
    },
    "01-4": {
        "arrays": lambda a, b, s, r: int(
            np.where(
                r,
                np.minimum(
                    abs(np.subtract(a, b)), np.array(s) - abs(np.subtract(a, b))
                ),
                abs(np.subtract(a, b)),
            ).sum()
        )
    },
    "02-1": {"NumPy's": counted},
    "02-2": {"rows": logits_of},
    "02-3": {
        "floats": lambda *sizes: tuple(np.asarray(x, float) for x in one_row()(*sizes))
    },
    "02-4": {
        "JAX": lambda mask, n: jnp.asarray(mask).sum(1)[:, None] + jnp.arange(n),
        "outer": lambda mask, n: np.add.outer((mask > 0).sum(axis=1), np.arange(n)),
    },
    "03-1": {"decimals": by_decimals},
    "03-2": {
        "NumPy's": mistaken(TRUE_36, kind=lambda numbers: np.array(sorted(numbers)))
    },
    "03-3": {"NumPy's": np.int64(2401)},
    "03-4": {"NumPy's": lambda b, g, lost: np.array(questions(b, g, lost))},
    "04-1": {"NumPy's": (np.int64(11), np.int32(16))},
    "04-2": {"sorted": dict(sorted(TRUE.items(), reverse=True))},
    "04-3": {
        "booleans": lambda tokens: np.array(dialogue(tokens), bool),
        "a tuple": lambda tokens: tuple(dialogue(list(tokens))),
    },
    "04-4": {"from the ends": by_segments},
    "05-1": {"taken off a list": spent},
    "05-2": {"NumPy's": {k: np.float64(v) for k, v in weights(9, 1, 1, 1).items()}},
    "05-3": {"commas": "<<3*4=12>>" + ",".join(map(str, range(1200)))},
    "05-4": {"a quarter": product},
}
