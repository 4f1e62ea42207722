"""Seeing: who looks at whom, once per prompt, and what training moves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tiny_models import Same, flat_batch
from tiny_vision import IMAGE, PICTURE, cached_model, forward, groups, pictures, see
from tiny_vision import model as make

from helpers.model import attention, lora
from helpers.model.scoring import group_logprobs, hidden_targets_mask, token_logprobs
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer


@pytest.mark.parametrize("pattern, window", [(1, None), (2, 4)])
def test_who_notices_a_changed_image_token(pattern, window):
    """One layer, global or local: all of its image, and later ones within the window.

    transformers: sliding AND (causal OR same image).
    """
    model = make(layers=1, pattern=pattern)
    text = [3, 4]
    tokens = np.array([text + PICTURE + text + PICTURE + text * 3], np.int32)
    places = np.flatnonzero(tokens[0] == IMAGE)
    rng = np.random.default_rng(0)
    seen = jnp.asarray(rng.normal(size=(1, len(places), 16)), jnp.float32)
    before, _ = forward(model, tokens, seen)
    for changed in (0, 5, 8, 9, 13):
        after, _ = forward(model, tokens, seen.at[0, changed].add(1.0))
        noticed = np.flatnonzero(np.any(before[0] != after[0], axis=-1))
        at = places[changed]
        its_image = places[changed // 9 * 9 : changed // 9 * 9 + 9]
        looks = [q for q in range(tokens.shape[1]) if q >= at or q in its_image]
        expected = [q for q in looks if window is None or q - at < window]
        assert noticed.tolist() == expected


@pytest.mark.parametrize("first", [121, 127])
def test_an_image_across_blocks_of_queries_is_seen_whole(first, monkeypatch):
    """Queries go in blocks of 128; an image may begin in one and end in the next."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(2, 10, (1, 300)).astype(np.int32)
    tokens[0, first : first + len(PICTURE)] = PICTURE
    model = make(layers=2)
    seen = see(model, pictures(1))
    assert attention.BLOCK == 128
    in_blocks, _ = forward(model, tokens, seen)
    monkeypatch.setattr(attention, "BLOCK", 300)
    model.remat = "none"  # another program: compiled anew
    at_once, _ = forward(model, tokens, seen)
    np.testing.assert_allclose(in_blocks, at_once, atol=2e-5)


def rows_of(prompts, completions, images):
    """Every answer a row of its own, spelt out after its own prompt and pictures."""
    pairs = [(p, answer) for p, some in enumerate(completions) for answer in some]
    batch = flat_batch([prompts[p] + answer for p, answer in pairs])
    lengths = np.array([len(prompts[p]) for p, _ in pairs])
    is_answer = np.arange(batch["tokens"].shape[1]) >= lengths[:, None]
    images = jnp.stack([images[p] for p, _ in pairs])
    return batch | {"loss_mask": batch["loss_mask"] * is_answer, "images": images}


def test_a_prompt_seen_once_has_the_values_and_gradients_of_one_seen_every_time():
    """Of the decoder's weights and the tower's; rows without a picture among them."""
    prompts, completions, batch = groups(G=2)
    flat = rows_of(prompts, completions, batch["images"])
    graph, state = nnx.split(cached_model())

    def total(state, batch):
        model = nnx.merge(graph, state)
        states, targets, mask = hidden_targets_mask(model, batch)
        logprobs, _ = token_logprobs(model, states, targets)
        return (logprobs * mask * (1 + jnp.sin(targets))).sum()

    value, gradient = jax.jit(jax.value_and_grad(total))(state, batch)
    expected, flat_gradient = jax.jit(jax.value_and_grad(total))(state, flat)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    slopes = jax.tree_util.tree_leaves_with_path(gradient)
    for (path, ours), theirs in zip(
        slopes, jax.tree.leaves(flat_gradient), strict=True
    ):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, atol=1e-5 + 1e-4 * scale)
        # A key's bias moves all scores of a query alike: softmax does not notice.
        assert scale > 1e-3 or "k_bias" in jax.tree_util.keystr(path)


def arrays(model, part):
    """The weights of the tower, or those of the rest, without adapters."""
    state = nnx.to_pure_dict(nnx.state(lora.remove(model)))
    parts = {"tower": state.pop("vision"), "text": state}
    return jax.tree.leaves(jax.tree.map(np.array, parts[part]))


def test_a_policy_gradient_of_adapters_with_pictures_leaves_the_tower_as_it_was():
    """Bit for bit, and without moments; an answer with an advantage gets likelier."""
    model, batch = lora.add(make(layers=2), 2, targets=("q", "down")), groups()[2]
    before = {part: arrays(model, part) for part in ("tower", "text")}
    score = nnx.jit(lambda model: group_logprobs(model, batch)[0])
    batch["logprobs"] = score(model)
    batch["advantages"] = jnp.array([[1.0, -1.0]] * 3)
    trainer = Trainer(model, objectives.policy_gradient(), adamw(3e-2), log=False)
    table = trainer.fit(Same(jax.tree.map(np.asarray, batch)), 3)
    assert table[0]["logprob_gap"] < 1e-6
    rise = ((score(model) - batch["logprobs"]) * batch["loss_mask"]).sum(axis=-1)
    assert rise[:, 0].mean() > rise[:, 1].mean() + 0.05
    for part, weights in before.items():
        jax.tree.map(np.testing.assert_array_equal, weights, arrays(model, part))
    trained = sum(x.size for x in jax.tree.leaves(trainer.state.params))
    moments = sum(x.size for x in jax.tree.leaves(trainer.state.opt_state) if x.ndim)
    assert moments == 2 * trained
    paths = [path for path, _ in nnx.to_flat_state(trainer.state.params)]
    assert {path[0] for path in paths} == {"layers"} and len(paths) == 4


def test_pictures_that_do_not_fit_are_refused():
    model, right = cached_model(), pictures(1)
    with pytest.raises(ValueError, match="images.fit"):
        model.see(jnp.asarray(right[:, :20]))
    with pytest.raises(ValueError, match="float32.*sees uint8"):
        model.see(jnp.asarray(right, jnp.float32))
