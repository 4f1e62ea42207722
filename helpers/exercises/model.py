"""Self-checks of notebook 02: parameters, the KV cache, a group, positions."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.exercises.check import Check, check_properties, leaves_alone
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


@functools.cache
def _counted(config):
    """The parameters of a model of this size, counted one by one."""
    return count_params(nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0))))


def check_parameters(answer) -> Check:
    """Counting parameters from a config.json alone."""
    hf, other = TINY.to_hf(), dataclasses.replace(TINY, **OTHER)

    def grows(**change):
        return answer({**hf, **change}) - answer({**hf})

    def real(layers):
        return _counted(dataclasses.replace(TINY, layers=layers))

    return check_properties(
        ("give a whole number", lambda: answer({**hf}) == int(answer({**hf}))),
        (
            "grow by one row of the table (hidden_size) for a new vocabulary entry",
            lambda: grows(vocab_size=hf["vocab_size"] + 1) == hf["hidden_size"],
        ),
        (
            "count three feed-forward matrices a layer",
            lambda: grows(intermediate_size=13) == 3 * 2 * hf["hidden_size"],
        ),
        (
            "count a key and a value matrix for each key head in every layer",
            lambda: grows(num_key_value_heads=2) == 2 * 2 * 8 * 4,
        ),
        (
            "count a query and an output matrix for each head in every layer",
            lambda: grows(num_attention_heads=3) == 2 * 2 * 8 * 4,
        ),
        (
            "count all six norms of a layer: 4 of the width, 2 of the head's width",
            lambda: grows(num_hidden_layers=3) == real(3) - real(2),
        ),
        (
            "count what remains: the norm after the last layer",
            lambda: answer({**hf}) == real(2),
        ),
        (
            "be right for a model of quite other sizes",
            lambda: answer(other.to_hf()) == _counted(other),
        ),
        ("leave the config as it is", lambda: leaves_alone(answer, hf)),
    )


class _Watched:
    """A model that writes down what it is called with."""

    def __init__(self):
        self.config, self.calls = TINY, []

    def __call__(self, tokens, positions, segments=None, earlier=()):
        shapes = (jnp.shape(tokens), jnp.shape(positions))
        seen = sum(piece.positions.shape[-1] for piece in earlier)
        self.calls.append((shapes, int(jnp.ravel(positions)[0]), seen))
        return _run(_model(), tokens, positions, segments, earlier)

    def logits(self, hidden):
        return _read(_model(), hidden)


@functools.cache
def _model():
    return Transformer(TINY, nnx.Rngs(0))


@nnx.jit
def _run(model, tokens, positions, segments, earlier):
    return model(tokens, positions, segments, earlier)


@nnx.jit
def _read(model, hidden):
    return model.logits(hidden)


@functools.cache
def _logits(tokens):
    """Logits (T, V) of a whole text at once."""
    row = np.array(tokens)[None, None]
    hidden, _ = _run(_model(), row, np.arange(len(tokens))[None, None], None, ())
    return np.asarray(_model().logits(hidden)[0, 0])


def check_cached_logits(answer) -> Check:
    """Logits one token at a time, from the keys and values of those before."""
    tokens = (3, 7, 3, 4, 9, 3)  # 3 thrice, and more of them than a window holds
    one = ((1, 1, 1), (1, 1, 1))

    @functools.cache
    def tried(tokens=tokens):
        watched, given = _Watched(), np.array(tokens)
        found = np.asarray(answer(watched, given))
        return found, watched.calls, np.array_equal(given, tokens)

    def close(rows, tokens=tokens):
        truth = _logits(tokens)[rows]
        found = tried(tokens)[0][rows]
        return found.shape == truth.shape and np.allclose(found, truth, atol=1e-4)

    return check_properties(
        (
            "return logits of shape (tokens, vocabulary)",
            lambda: tried()[0].shape == (6, 11),
        ),
        (
            "call the model once per token, with that one token and its position, of "
            "shape (1, 1, 1)",
            lambda: [call[0] for call in tried()[1]] == [one] * 6,
        ),
        ("be right for the first token, which has no past", lambda: close([0])),
        (
            "count positions from the start of the text: 0, 1, 2, 3",
            lambda: [call[1] for call in tried()[1]] == [*range(6)],
        ),
        (
            "show the model the keys of all earlier tokens: 0, 1, 2, 3 of them",
            lambda: [call[2] for call in tried()[1]] == [*range(6)],
        ),
        ("equal the logits of the whole text at once", lambda: close(slice(None))),
        (
            "be right for a text of another length",
            lambda: close(slice(None), (8, 0, 10)),
        ),
        ("leave the tokens as they are", lambda: tried()[2]),
    )


def check_one_row(answer) -> Check:
    """Positions and mask of a prompt and its answers, written as one row."""
    rng = np.random.default_rng(2)
    cases = [(1, 1, 3), (3, 3, 3), *rng.integers(1, 7, (12, 3)).tolist()]
    Tp, Tc, G = 5, 3, 4

    @functools.cache
    def tried():
        positions, mask = answer(Tp, Tc, G)
        return np.asarray(positions), np.asarray(mask)

    def sees(rows, columns, truth):
        return np.array_equal(tried()[1][rows, columns], truth)

    def right(case):
        positions, mask = answer(*case)
        return all(map(np.array_equal, (positions, mask), _one_row(*case)))

    prompt, first, third = slice(Tp), slice(Tp, Tp + Tc), slice(Tp + 2 * Tc, -Tc)
    return check_properties(
        (
            "give a position to each of the tokens, and a mask of tokens × tokens",
            lambda: [x.shape for x in tried()] == [(17,), (17, 17)],
        ),
        (
            "count the prompt from 0",
            lambda: tried()[0][prompt].tolist() == [*range(Tp)],
        ),
        (
            "have every answer count on from where the prompt ended",
            lambda: tried()[0][Tp:].tolist() == [5, 6, 7] * G,
        ),
        (
            "let a token of the prompt see itself and what is before it, and no more",
            lambda: sees(prompt, slice(None), np.tri(Tp, 17)),
        ),
        (
            "show every answer the whole prompt",
            lambda: sees(slice(Tp, None), prompt, np.ones((Tc * G, Tp))),
        ),
        (
            "show an answer its own tokens up to the one that looks",
            lambda: sees(first, first, np.tri(Tc)) and sees(third, third, np.tri(Tc)),
        ),
        ("hide the other answers", lambda: not tried()[1][third, first].any()),
        ("be right for other lengths and groups", lambda: all(map(right, cases))),
    )


def _one_row(Tp, Tc, G):
    """The same, token by token: each answer as if it alone stood behind the prompt."""
    size = Tp + G * Tc
    positions, mask = np.zeros(size, int), np.zeros((size, size), bool)
    for g in range(G):
        alone = [*range(Tp), *range(Tp + g * Tc, Tp + (g + 1) * Tc)]
        for place, token in enumerate(alone):
            positions[token] = place
            mask[token, alone[: place + 1]] = True
    return positions, mask


def check_answer_positions(answer) -> Check:
    """Positions of answer tokens after right-padded prompts."""
    mask_PT = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    lengths = np.random.default_rng(2).integers(1, 8, 6)
    others_PT = (np.arange(7) < lengths[:, None]).astype(int)

    @functools.cache
    def tried():
        return answer(mask_PT.copy(), 3)

    def right():
        found = np.asarray(answer(others_PT.copy(), 4))
        rows = [[n, n + 1, n + 2, n + 3] for n in lengths.tolist()]
        return found.tolist() == rows

    return check_properties(
        ("be an array of shape (prompts, steps)", lambda: tried().shape == (2, 3)),
        ("be whole numbers", lambda: tried().dtype.kind in "iu"),
        (
            "rise by 1 from token to token",
            lambda: (np.diff(tried(), axis=1) == 1).all(),
        ),
        (
            "start where a prompt without padding ends",
            lambda: tried()[0].tolist() == [5, 6, 7],
        ),
        (
            "start where the *text* of a padded prompt ends, not its padding",
            lambda: tried()[1].tolist() == [2, 3, 4],
        ),
        (
            "not depend on how wide the batch is padded",
            lambda: np.array_equal(
                answer(np.pad(mask_PT, [(0, 0), (0, 4)]), 3), tried()
            ),
        ),
        ("be right for any number of prompts and steps", right),
        ("leave the mask as it is", lambda: leaves_alone(answer, mask_PT, 3)),
    )
