"""Notebooks 01 and 02: what chips and models cost."""

import math

import jax.numpy as jnp
import numpy as np


def turning(D, F, ridge, *, rounded=math.ceil, bounded=True, more=0):
    left = D * F - ridge * (D + F)
    if bounded and left <= 0:
        return None
    return rounded(ridge * D * F / left) + more


def tried_out(D, F, ridge):
    for B in range(1, 100_000):
        if B * D * F / (B * D + D * F + B * F) >= ridge:
            return B
    return None


def best_of(
    run=lambda lengths, sizes: sum(min(s for s in sizes if s >= n) for n in lengths),
    programs=len,
):
    """Trying out which buckets are cheapest; a mistake replaces one part."""

    def answer(lengths, compiling, token):
        def seconds(sizes):
            return compiling * programs(sizes) + token * run(lengths, sizes)

        *others, longest = sorted(set(lengths))
        chosen = [[]]
        for size in others:
            chosen += [[*some, size] for some in chosen]
        return min(([*some, longest] for some in chosen), key=seconds)

    return answer


def by_last_bucket(lengths, compiling, token):
    """The cheapest way to end with each length, from those that are shorter."""
    best = {0: (0.0, ())}
    for size in sorted(set(lengths)):
        ways = []
        for end, (seconds, sizes) in best.items():
            count = sum(end < n <= size for n in lengths)
            ways.append((seconds + compiling + token * size * count, (*sizes, size)))
        best[size] = min(ways)
    return best[max(lengths)][1]


def hops(a, b, shape, rings, nearer=min):
    away = [abs(x - y) for x, y in zip(a, b, strict=True)]
    ways = zip(away, shape, rings, strict=True)
    return sum(nearer(d, n - d) if ring else d for d, n, ring in ways)


def by_remainder(a, b, shape, rings):
    ways = zip(a, b, shape, rings, strict=True)
    return sum(
        min((x - y) % n, (y - x) % n) if ring else abs(x - y) for x, y, n, ring in ways
    )


def gemma(hf, *, matrices=3, norms=4, head_norms=2, last=1):
    D, H = hf["hidden_size"], hf["head_dim"]
    N, K = hf["num_attention_heads"], hf["num_key_value_heads"]
    layer = D * H * (2 * N + 2 * K) + matrices * D * hf["intermediate_size"]
    layer += norms * D + head_norms * H
    return hf["vocab_size"] * D + hf["num_hidden_layers"] * layer + last * D


def without_cache(model, tokens_T):
    rows = []
    for t, token in enumerate(tokens_T):
        hidden, _ = model(jnp.full((1, 1, 1), token), jnp.full((1, 1, 1), t))
        rows.append(model.logits(hidden)[0, 0, 0])
    return jnp.stack(rows)


def cached(model, tokens_T, first=0, past=lambda pieces: pieces):
    pieces, rows = (), []
    for t, token in enumerate(tokens_T):
        place = jnp.full((1, 1, 1), t + first)
        seen = past(pieces)
        hidden, kv = model(jnp.full((1, 1, 1), token), place, earlier=seen)
        pieces += (kv,)
        rows.append(model.logits(hidden)[0, 0, 0])
    return jnp.stack(rows)


def prefix_again(model, tokens_T):
    rows = []
    for t in range(1, len(tokens_T) + 1):
        hidden, _ = model(
            jnp.array(tokens_T[:t])[None, None], jnp.arange(t)[None, None]
        )
        rows.append(model.logits(hidden)[0, 0, -1])
    return jnp.stack(rows)


def grows_in_a_list(model, tokens_T):
    pieces, rows = [], []
    for t, token in enumerate(tokens_T):
        token, place = jnp.array([[[token]]]), jnp.array([[[t]]])
        hidden, kv = model(token, place, None, tuple(pieces))
        pieces.append(kv)
        rows.append(np.asarray(model.logits(hidden)).ravel())
    return np.array(rows)


def from_the_last(mask_PT, steps):
    starts = [max(np.flatnonzero(row)) + 1 for row in mask_PT]
    return np.array([[start + i for i in range(steps)] for start in starts])


def one_row(
    place=lambda t, Tp, Tc: Tp + (t - Tp) % Tc,
    past=lambda t, s, mine: s <= t,
    shown=lambda mine, other: other in (0, mine),
):
    """A group in one row, token by token; a mistake replaces one of three questions."""

    def answer(Tp, Tc, G):
        texts = [0] * Tp + [g + 1 for g in range(G) for _ in range(Tc)]
        positions = [place(t, Tp, Tc) if g else t for t, g in enumerate(texts)]
        mask = [
            [past(t, s, mine) and shown(mine, other) for s, other in enumerate(texts)]
            for t, mine in enumerate(texts)
        ]
        return np.array(positions), np.array(mask)

    return answer


def joined_row(Tp, Tc, G):
    """The same from blocks."""
    answers = np.kron(np.eye(G), np.tri(Tc))
    mask = np.block(
        [[np.tri(Tp), np.zeros((Tp, G * Tc))], [np.ones((G * Tc, Tp)), answers]]
    )
    return np.concatenate([np.arange(Tp), *[Tp + np.arange(Tc)] * G]), mask > 0


WRONG = {
    "01-1": {
        "one FLOP each": lambda B, D, F, size=2: (
            B * D * F / (size * (B * D + D * F + B * F))
        ),
        "only the weights": lambda B, D, F, size=2: 2 * B * D * F / (size * D * F),
        "always bfloat16": lambda B, D, F, size=2: (
            2 * B * D * F / (2 * (B * D + D * F + B * F))
        ),
        "square matrices": lambda B, D, F, size=2: (
            2 * B * D * D / (size * (2 * B * D + D * D))
        ),
    },
    "01-2": {
        "the ridge": lambda D, F, ridge: math.ceil(ridge),
        "down": lambda D, F, ridge: turning(D, F, ridge, rounded=math.floor),
        "one too many": lambda D, F, ridge: turning(D, F, ridge, more=1),
        "no bound": lambda D, F, ridge: turning(D, F, ridge, bounded=False),
    },
    "01-3": {
        "the longest alone": lambda lengths, *_: [max(lengths)],
        "every length": lambda lengths, *_: sorted(set(lengths)),
        "each length counted once": best_of(
            run=lambda lengths, sizes: sum(
                min(s for s in sizes if s >= n) for n in set(lengths)
            )
        ),
        "padding alone": best_of(programs=lambda sizes: 0),
    },
    "01-4": {
        "no rings": lambda a, b, s, r: hops(a, b, s, (False,) * 3),
        "all rings": lambda a, b, s, r: hops(a, b, s, (True,) * 3),
        "the long way round": lambda a, b, s, r: hops(a, b, s, r, nearer=max),
        "from the origin": lambda a, b, s, r: hops((0, 0, 0), b, s, r),
    },
    "02-1": {
        "two matrices": lambda hf: gemma(hf, matrices=2),
        "two norms": lambda hf: gemma(hf, norms=2),
        "no last norm": lambda hf: gemma(hf, last=0),
        "no norms of heads": lambda hf: gemma(hf, head_norms=0),
    },
    "02-2": {
        "no cache": without_cache,
        "the text at once": lambda model, tokens: prefix_again(model, tokens),
        "from 1": lambda model, tokens: cached(model, tokens, first=1),
        "only the last piece": lambda model, tokens: cached(
            model, tokens, past=lambda pieces: pieces[-1:]
        ),
    },
    "02-3": {
        "causal over the whole row": one_row(shown=lambda mine, other: True),
        "the prompt hidden": one_row(shown=lambda mine, other: mine == other),
        "the answers see all of themselves": one_row(
            past=lambda t, s, mine: s <= t or mine > 0
        ),
        "positions of the row": one_row(place=lambda t, Tp, Tc: t),
    },
    "02-4": {
        "the width": lambda mask, n: (
            np.full((len(mask), 1), mask.shape[1]) + np.arange(n)
        ),
        "from 1": lambda mask, n: mask.sum(1)[:, None] + 1 + np.arange(n),
        "the last token's": lambda mask, n: mask.sum(1)[:, None] - 1 + np.arange(n),
        "three steps": lambda mask, n: mask.sum(1)[:, None] + np.arange(3),
    },
}

RIGHT = {
    "01-1": {
        "one formula": lambda B, D, F, size=2: 2 / (size * (1 / F + 1 / B + 1 / D)),
    },
    "01-2": {
        "tried out": tried_out,
        "the formula": turning,
    },
    "01-3": {
        "all tried": best_of(),
        "by the last bucket": by_last_bucket,
        "a set": lambda *given: {*by_last_bucket(*given)},
    },
    "01-4": {"a list": hops, "remainders": by_remainder},
    "02-1": {"by heads": gemma},
    "02-2": {"a tuple that grows": cached, "a list that grows": grows_in_a_list},
    "02-3": {
        "token by token": one_row(),
        "repeated and joined": joined_row,
        "in JAX": lambda *sizes: tuple(map(jnp.asarray, joined_row(*sizes))),
    },
    "02-4": {
        "broadcast": lambda mask, n: mask.sum(axis=1, keepdims=True) + np.arange(n),
        "the last token": from_the_last,
    },
}
