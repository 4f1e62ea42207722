"""Answers that learners write and that are as right as the official solution.

A function computes the same in another way; right_answers.toml has changes of a
solution, as wrong_answers.toml has them, and every check must accept both.
"""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np

from helpers.exercises.sft import END, MODEL
from helpers.losses import distillation
from helpers.rewards import food_rewards
from helpers.tasks.instructions import STOP_WORDS, words_of
from helpers.tools import calculator, nutrition
from helpers.tools.grammars import HERMES


def tried_out(D, F, ridge):
    for B in range(1, 100_000):
        if B * D * F / (B * D + D * F + B * F) >= ridge:
            return B
    return None


def grows_in_a_list(model, tokens_T):
    pieces, rows = [], []
    for t, token in enumerate(tokens_T):
        token, place = jnp.array([[[token]]]), jnp.array([[[t]]])
        hidden, kv = model(token, place, None, tuple(pieces))
        pieces.append(kv)
        rows.append(np.asarray(model.logits(hidden)).ravel())
    return np.array(rows)


def joined_row(Tp, Tc, G):
    """The same from blocks."""
    answers = np.kron(np.eye(G), np.tri(Tc))
    mask = np.block(
        [[np.tri(Tp), np.zeros((Tp, G * Tc))], [np.ones((G * Tc, Tp)), answers]]
    )
    return np.concatenate([np.arange(Tp), *[Tp + np.arange(Tc)] * G]), mask > 0


def counted_up(p, half):
    """Tried from one question on."""
    spread = 1.96 * np.sqrt(p * (1 - p))
    return next(n for n in itertools.count(1) if spread / np.sqrt(n) <= half)


def by_turns(tokens):
    """Turn by turn, from END to END."""
    mask, t = np.zeros(len(tokens), int), 0
    while t < len(tokens):
        if END not in tokens[t:]:
            break
        close = tokens.index(END, t)
        if tokens[t + 1] == MODEL:
            mask[t + 3 : close + 1] = 1
        t = close + 2
    return mask


def level_by_level(block, levels):
    """Halfway between two levels the nearer one changes."""
    scale = np.max([block.max(), -block.min()])
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, block / scale), scale


def last_line_of(text):
    """What follows the last mark on its line; None without one."""
    _, mark, rest = text.rpartition("####")
    return rest.partition("\n")[0] if mark else None


def taken_away(text, numbers, target):
    """Each number that is written is taken from those left."""
    line, left = last_line_of(text), [str(number) for number in numbers]
    for number in re.findall(r"[0-9.]+", line or ""):
        if number not in left:
            return 0.0
        left.remove(number)
    return 1.0 if line and calculator.calculate(line) == target else 0.0


def by_jax(theta, pair):
    def log_p(theta):
        rows = jax.nn.log_softmax(theta.reshape(4, 3))
        return rows[0, pair[0]] + rows[1 + pair[0], pair[1]]

    return jax.grad(log_p)(jnp.asarray(theta))


def dpo_by_autodiff(logprobs, reference, beta):
    def loss(new):
        gained = new - reference
        return jax.nn.softplus(beta * (gained[:, 1] - gained[:, 0])).mean()

    return jax.grad(loss)(jnp.asarray(logprobs))


def row_by_row(patches, columns, n):
    grid = patches.reshape(len(patches) // columns, columns, -1)
    return np.array(
        [
            grid[top : top + n, left : left + n].mean(axis=(0, 1))
            for top in range(0, len(grid), n)
            for left in range(0, columns, n)
        ]
    )


def by_the_helper(text, lookup):
    """The tool's own schema judges."""
    verdict = HERMES.parse(text)
    if verdict.error:
        return [{"error": verdict.error}]
    results = []
    for call in verdict.calls:
        known = nutrition.TOOL.call({**call.arguments, "food": "pizza"})
        whole = call.name == nutrition.TOOL.name and "food" in call.arguments
        whole = whole and isinstance(call.arguments["food"], str)
        good = whole and "error" not in known
        results.append(
            lookup(**call.arguments) if good else {"error": "not a call of the tool"}
        )
    return results


def by_what_was_done(prompts, completions, portions, **_):
    """A price for each of the four ends that a conversation can come to."""
    paid = []
    for trace, plate in zip(completions, portions, strict=True):
        if not plate:
            paid.append(0.5 if food_rewards.declined([], [trace], [plate])[0] else -0.5)
        elif not trace.calls:
            paid.append(-9.0)
        else:
            paid.append(food_rewards.solved([], [trace], [plate])[0] / 2)
    return paid


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


def by_index(table, length, users, free):
    """The slot computed from the length, tables written by index."""
    slot = length // 4
    if slot == len(table):
        block = free.pop(0)
        table.append(block)
        users[block] += 1
        return None
    old = table[slot]
    if users[old] == 1:
        return None
    block = table[slot] = free.pop(0)
    users[old], users[block] = users[old] - 1, users[block] + 1
    return old


def by_a_loop(out, back, version, pieces, limit):
    learn, again = [], []
    for sampled, number in sorted((v, n) for n, v in back.items()):
        (learn if sampled >= version - limit else again).append(number)
    free = pieces + limit * pieces - (out + len(learn))
    if len(learn) < pieces:
        learn = []
    return tuple(learn[:pieces]), np.array(sorted(again)), free


def by_events(operations, start, end):
    """Count how many are running, at every start and end."""
    marks = [(start, 0), (end, 0)]
    for begin, seconds in operations:
        low, high = max(begin, start), min(begin + seconds, end)
        marks += [(low, 1), (high, -1)] if low < high else []
    marks.sort(key=lambda mark: (mark[0], -mark[1]))
    running, best = 0, (start, 0.0)
    for (at, change), (then, _) in itertools.pairwise(marks):
        running += change
        if not running and then - at > best[1]:
            best = (at, then - at)
    return best


def divided(matrices, chip):
    """The same, without a loop over ranks."""
    shapes = np.array(matrices)
    room = 0.9 * chip - 2 * shapes.prod(axis=1).sum()
    rank = int(room // (16 * shapes.sum()))
    return min(rank, 64) if rank > 0 else None


def word_by_word(text, word):
    """A loop, and a list in the place of a set."""
    words, new = words_of(text), []
    for each in map(str.lower, words):
        if each not in STOP_WORDS and word not in each and each not in new:
            new.append(each)
    return 0 if len(words) > 12 else min(1, len(new) / 4)


def fork(table, users):
    """A table of its own, as the official solution makes it."""
    for block in set(table):
        users[block] += 1
    return [*table]


# By exercise; a tuple where the check takes several.
RIGHT = {
    "01-2": tried_out,
    "02-1": grows_in_a_list,
    "02-2": joined_row,
    "03-2": counted_up,
    "04-2": by_turns,
    "04b-2": level_by_level,
    "05-1": taken_away,
    "06-1": by_jax,
    "08b-2": dpo_by_autodiff,
    "09-1": row_by_row,
    "09-2": by_the_helper,
    "10-2": by_what_was_done,
    "11-1": listed,
    "11-2": distillation.top_k_forward_kl,
    "12-1": (fork, by_index),
    "13b-1": by_a_loop,
    "13c-1": by_events,
    "15-1": divided,
    "15-2": word_by_word,
}
