"""Self-checks of notebook 02: the KV cache, and a group of answers in one row."""

import numpy as np
from flax import nnx

from helpers.exercises.check import Check, check_properties
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer

SIZES = dict(vocab_size=11, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, ff=12)
TINY = ModelConfig("gemma3_text", **SIZES, window=2, pattern=2, query_scale=4.0)


class _WatchedModel:
    """A model that records, for each call, the positions and how many keys it got."""

    def __init__(self):
        self.config, self.model, self.calls = TINY, Transformer(TINY, nnx.Rngs(0)), []

    def __call__(self, tokens, positions, segments=None, earlier=()):
        if not np.shape(tokens) == np.shape(positions) == (1, 1, 1):
            raise ValueError("give the model one token and its position, (1, 1, 1)")
        keys = sum(piece.positions.shape[-1] for piece in earlier)
        self.calls.append((int(np.ravel(positions)[0]), keys))
        return _run(self.model, tokens, positions, segments, earlier)

    def logits(self, hidden):
        return self.model.logits(hidden)


@nnx.jit
def _run(model, tokens, positions, segments, earlier):
    return model(tokens, positions, segments, earlier)


def check_cached_logits(answer) -> Check:
    """Logits one token at a time, from the keys and values of those before."""
    watched = _WatchedModel()
    texts = np.random.default_rng(2).integers(0, 11, (4, 5))  # the window is 2

    def calls():
        watched.calls = []
        answer(watched, texts[0])
        return watched.calls

    def cached(tokens):
        return answer(watched, tokens)

    def whole(tokens):
        row, positions = tokens[None, None], np.arange(5)[None, None]
        hidden, _ = _run(watched.model, row, positions, None, ())
        return watched.logits(hidden)[0, 0]

    properties = {
        "count positions from the start of the text: 0, 1, 2, 3": lambda: (
            [position for position, _ in calls()] == [*range(5)]
        ),
        "show it the keys of all earlier tokens: 0, 1, 2, 3 of them": lambda: (
            [keys for _, keys in calls()] == [*range(5)]
        ),
        "equal the logits of the whole text at once": [(text,) for text in texts],
    }
    return check_properties(properties, cached, whole, 1e-3)


def check_one_row(answer) -> Check:
    """Positions and mask of a prompt and its answers, written as one row."""
    cases = [(1, 1, 3), (3, 3, 3)]
    cases += np.random.default_rng(2).integers(1, 7, (12, 3)).tolist()

    def row(part):
        return np.asarray(answer(5, 3, 4)[part])

    properties = {
        "count the prompt from 0, and every answer on from its end": lambda: (
            row(0).tolist() == [0, 1, 2, 3, 4] + [5, 6, 7] * 4
        ),
        "show every answer the whole prompt": lambda: row(1)[5:, :5].all(),
        "hide the other answers": lambda: not row(1)[11:14, 5:8].any(),
        "let a token see itself and what is before it, and no more": cases,
    }
    return check_properties(properties, answer, _one_row)


def _one_row(Tp, Tc, G):
    """The same, token by token: each answer as if it alone stood behind the prompt."""
    size = Tp + G * Tc
    positions, mask = np.zeros(size, int), np.zeros((size, size), bool)
    for g in range(G):
        alone = [*range(Tp), *range(Tp + g * Tc, Tp + (g + 1) * Tc)]
        for position, token in enumerate(alone):
            positions[token] = position
            mask[token, alone[: position + 1]] = True
    return positions, mask
