"""Self-checks of notebook 02: parameters, the KV cache, a group, positions."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.exercises.check import Check, check_properties, same
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer, count_params

TINY = ModelConfig(
    family="gemma3_text",
    vocab_size=11,
    width=8,
    layers=2,
    heads=2,
    kv_heads=1,
    head_dim=4,
    ff=12,
    window=2,
    pattern=2,
    query_scale=4.0,
)
# Every size differs from TINY's, and from every other.
OTHER = dict(vocab_size=23, width=10, layers=3, heads=6, kv_heads=2, head_dim=8, ff=7)


def check_parameters(answer) -> Check:
    """Counting parameters from a config.json alone."""
    hf = TINY.to_hf()

    def grows(**change):
        return answer({**hf, **change}) - answer({**hf})

    def right(config):
        model = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0)))
        return answer(config.to_hf()) == count_params(model)

    heads = {"num_attention_heads": 3, "num_key_value_heads": 2}  # one more of each
    properties = {
        "grow by one row of the table (hidden_size) for a new vocabulary entry": (
            lambda: grows(vocab_size=12) == 8
        ),
        "count three matrices a layer": lambda: grows(intermediate_size=13) == 3 * 16,
        "count a query and an output matrix a head, a key and a value matrix a key "
        "head": lambda: all(grows(**{name: n}) == 128 for name, n in heads.items()),
        "count all norms: 6 in a layer, two of them of a head's width, and the last": (
            lambda: right(TINY) and right(dataclasses.replace(TINY, **OTHER))
        ),
    }
    return check_properties(properties)


class _WatchedModel:
    """A model that records, for each call, the first position and the keys given."""

    def __init__(self):
        self.config, self.calls = TINY, []

    def __call__(self, tokens, positions, segments=None, earlier=()):
        if not jnp.shape(tokens) == jnp.shape(positions) == (1, 1, 1):
            raise ValueError("give the model one token and its position, (1, 1, 1)")
        keys = sum(piece.positions.shape[-1] for piece in earlier)
        self.calls.append((int(jnp.ravel(positions)[0]), keys))
        return _run(_model(), tokens, positions, segments, earlier)

    def logits(self, hidden):
        return _model().logits(hidden)


@functools.cache
def _model():
    return Transformer(TINY, nnx.Rngs(0))


@nnx.jit
def _run(model, tokens, positions, segments, earlier):
    return model(tokens, positions, segments, earlier)


@functools.cache
def _logits(tokens):
    """Logits (T, V) of a whole text at once."""
    row = np.array(tokens)[None, None]
    hidden, _ = _run(_model(), row, np.arange(len(tokens))[None, None], None, ())
    return np.asarray(_model().logits(hidden)[0, 0])


def check_cached_logits(answer) -> Check:
    """Logits one token at a time, from the keys and values of those before."""
    texts = ((3, 7, 3, 4, 9), (8, 0, 10))  # the first is longer than the window of 2

    @functools.cache
    def run(tokens):
        watched, given = _WatchedModel(), np.array(tokens)
        logits = np.asarray(answer(watched, given))
        if given.tolist() != list(tokens):
            raise ValueError("the function changes what it is called with")
        return logits, *map(list, zip(*watched.calls, strict=True))

    properties = {
        "count positions from the start of the text: 0, 1, 2, 3": lambda: (
            run(texts[0])[1] == [*range(5)]
        ),
        "show the model the keys of all earlier tokens: 0, 1, 2, 3 of them": lambda: (
            run(texts[0])[2] == [*range(5)]
        ),
        "equal the logits of the whole text at once": lambda: all(
            same(run(tokens)[0], _logits(tokens), 1e-3) for tokens in texts
        ),
    }
    return check_properties(properties)


def check_one_row(answer) -> Check:
    """Positions and mask of a prompt and its answers, written as one row."""
    rng = np.random.default_rng(2)
    cases = [(1, 1, 3), (3, 3, 3), *rng.integers(1, 7, (12, 3)).tolist()]

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


def check_answer_positions(answer) -> Check:
    """Positions of answer tokens after right-padded prompts."""
    rng = np.random.default_rng(2)
    mask_PT = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    cases = [
        ((np.arange(width) < rng.integers(1, 8, 6)[:, None]).astype(int), 4)
        for width in (7, 11)
    ]

    def after_text(mask_PT, steps):
        return np.array([[sum(row) + t for t in range(steps)] for row in mask_PT])

    properties = {
        "start where a prompt without padding ends": [(mask_PT[:1], 3)],
        "start where the *text* of a padded prompt ends, not its padding": [
            (mask_PT, 3)
        ],
        "be right for any number of prompts and steps, however wide the padding": cases,
    }
    return check_properties(properties, answer, after_text)
