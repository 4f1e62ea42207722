"""Log-probabilities of answers: the prompt computed once, against all spelt out."""

import functools

import gemma4_shapes
import jax
import jax.numpy as jnp
import naive_decoder
import numpy as np
import pytest
import traced
from flax import nnx
from tiny_models import (
    VOCAB,
    cached_model,
    cached_tensors,
    flat_batch,
    group_batch,
    random_groups,
    tensors,
    texts,
)
from tiny_models import model as make

from helpers.model.ops import REMAT
from helpers.model.scoring import hidden_targets_mask, token_logprobs

PROMPTS, COMPLETIONS = random_groups()
PAIRS = [
    (p, g, prompt + answer)
    for p, prompt in enumerate(PROMPTS)
    for g, answer in enumerate(COMPLETIONS[p])
]
WEIGHT = np.random.default_rng(3).normal(size=(3, 2, 12)).astype(np.float32)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _scored(graph, state, batch, chunk):
    hidden, targets, _ = hidden_targets_mask(nnx.merge(graph, state), batch)
    return token_logprobs(nnx.merge(graph, state), hidden, targets, chunk)


def scored(model, batch, chunk=8192):
    """(logprobs, entropy) of a batch of groups or rows."""
    return _scored(*nnx.split(model), batch, chunk)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _gradient(graph, state, batch, weight, chunk):
    def total(state):
        return (_scored(graph, state, batch, chunk)[0] * weight).sum()

    return jax.value_and_grad(total)(state)


def gradient(model, batch, weight, chunk=8192):
    """Value and gradient of Σ weight · logprob, the gradient as a state."""
    return _gradient(*nnx.split(model), batch, weight, chunk)


def assert_same_gradient(ours, theirs, atol=2e-5):
    ours, theirs = (jax.tree_util.tree_leaves_with_path(g) for g in (ours, theirs))
    for (path, x), (_, y) in zip(ours, theirs, strict=True):
        name = jax.tree_util.keystr(path)
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=atol, err_msg=name)


def weight_of(batch):
    return WEIGHT[..., : batch["loss_mask"].shape[-1]] * batch["loss_mask"]


SLOW = [pytest.param(shape, marks=pytest.mark.slow) for shape in gemma4_shapes.NAMED]


@pytest.mark.parametrize("family", ["gemma3_text", *SLOW])
def test_every_answer_scores_as_its_text_in_a_plain_transcription(family):
    """Prompts and answers of unequal length; the entropy of each prediction too."""
    truth, hf = cached_tensors(family)
    logprobs, entropy = scored(cached_model(family), group_batch(PROMPTS, COMPLETIONS))
    for p, g, text in PAIRS:
        scores = naive_decoder.log_softmax(naive_decoder.logits(truth, hf, text))
        at = np.arange(len(PROMPTS[p]), len(text))
        expected = scores[at - 1, np.array(text)[at]]
        np.testing.assert_allclose(logprobs[p, g, : len(at)], expected, atol=1e-5)
        spread = -(np.exp(scores) * scores).sum(axis=-1)[at - 1]
        np.testing.assert_allclose(entropy[p, g, : len(at)], spread, atol=1e-5)


def test_a_prompt_computed_once_gives_the_gradient_of_computing_it_for_every_answer():
    """The slopes below hold Gemma's windows; Qwen2's program is the quicker one."""
    groups = group_batch(PROMPTS, COMPLETIONS)
    rows = flat_batch([text for _, _, text in PAIRS])
    weight = np.zeros((len(PAIRS), 1, rows["tokens"].shape[1] - 1), np.float32)
    for row, (p, g, text) in enumerate(PAIRS):
        size = len(text) - len(PROMPTS[p])
        weight[row, 0, len(text) - 1 - size : len(text) - 1] = WEIGHT[p, g, :size]
    model = cached_model("qwen2")
    value, ours = gradient(model, groups, weight_of(groups))
    expected, theirs = gradient(model, rows, weight)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert_same_gradient(ours, theirs)


# A layer and one that shares its keys; the slow one has local layers, too.
FEW = {"kinds": "ff", "sharing": 1}
SLOPES = [("gemma3_text", {}), ("qwen2", {}), ("gemma4_text", FEW)]
SLOPES += [pytest.param("gemma4_text like 31B", {}, marks=pytest.mark.slow)]


@pytest.mark.parametrize("family, changes", SLOPES)
def test_the_gradient_is_the_slope_of_the_transcription(family, changes):
    """Along a random direction through all weights, by central differences, float64."""
    model, (truth, hf) = (
        cached(family, **changes) for cached in (cached_model, cached_tensors)
    )
    groups = group_batch(PROMPTS, COMPLETIONS)
    _, state = gradient(model, groups, weight_of(groups))
    slopes, _ = tensors(nnx.merge(nnx.graphdef(model), state))
    rng = np.random.default_rng(0)
    direction = {name: rng.normal(size=x.shape) for name, x in truth.items()}

    def total(step):
        moved = {name: x + step * direction[name] for name, x in truth.items()}
        return sum(
            WEIGHT[p, g, : len(COMPLETIONS[p][g])]
            @ naive_decoder.logprobs(moved, hf, text)[len(PROMPTS[p]) - 1 :]
            for p, g, text in PAIRS
        )

    expected = (total(1e-5) - total(-1e-5)) / 2e-5
    ours = sum((slopes[name] * direction[name]).sum() for name in truth)
    size = np.sqrt(sum((x**2).sum() for x in slopes.values()))
    assert abs(ours - expected) < 1e-4 * size, (ours, expected)
    assert abs(expected) > 0.1 * size


def test_neither_padding_nor_chunks_change_values_or_gradients():
    """A larger bucket and budget, other ids in the padding; 72 tokens, 5 at a time."""
    model = cached_model("qwen2")
    tight = group_batch(PROMPTS, COMPLETIONS)
    loose = group_batch(PROMPTS, COMPLETIONS, bucket=16, budget=12, garbage=11)
    value, ours = gradient(model, tight, weight_of(tight))
    other, theirs = gradient(model, loose, weight_of(loose), 5)
    np.testing.assert_allclose(value, other, rtol=1e-5)
    assert_same_gradient(ours, theirs)


def test_logits_of_more_than_a_chunk_never_exist():
    """Neither in the forward nor in the backward pass, by reading the program."""
    graph, state = nnx.split(cached_model("qwen2"))
    groups, chunk = group_batch(PROMPTS, COMPLETIONS), 6
    program = jax.make_jaxpr(
        lambda state: _gradient(graph, state, groups, weight_of(groups), chunk)
    )(state)
    computed = [x.aval for each, _ in traced.equations(program) for x in each.outvars]
    sizes = [x.size for x in computed if x.shape[-1:] == (VOCAB,)]
    assert max(sizes) == chunk * VOCAB


def test_packed_rows_predict_each_target_from_its_own_example():
    """Token t from the tokens before it in its segment; masks stay beside targets."""
    a, b = texts(2, 6)
    batch = {
        "tokens": np.concatenate([a, b])[None],
        "positions": np.tile(np.arange(6), 2)[None],
        "segment_ids": np.repeat([1, 2], 6)[None],
        "loss_mask": np.tile([0, 0, 1, 1, 1, 1], 2)[None].astype(np.float32),
    }
    batch = jax.tree.map(jnp.asarray, batch)
    model, (truth, hf) = cached_model(), cached_tensors()
    read = jax.jit(lambda: hidden_targets_mask(model, batch)[1:])  # no hidden states
    targets, mask = read()
    np.testing.assert_array_equal(targets[0, 0], np.concatenate([a, b])[1:])
    np.testing.assert_array_equal(mask[0, 0], [0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1])
    logprobs, _ = scored(model, batch)
    for start, text in ((0, a), (6, b)):
        expected = naive_decoder.logprobs(truth, hf, text.tolist())
        ours = logprobs[0, 0, start : start + 5]
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_what_is_recomputed_changes_memory_and_not_the_gradient():
    """Of what the layer gives; the head is behind all that is recomputed."""
    rows, gradients = flat_batch([text for _, _, text in PAIRS]), []
    for remat in REMAT:
        model = make("qwen3", layers=1)
        model.remat = remat
        graph, state = nnx.split(model)

        def total(state, graph=graph):
            hidden, _, mask = hidden_targets_mask(nnx.merge(graph, state), rows)
            return (jnp.sin(hidden) * mask[..., None]).sum()

        gradients.append(jax.jit(jax.grad(total))(state))
    for other in gradients[1:]:
        assert_same_gradient(other, gradients[0])
