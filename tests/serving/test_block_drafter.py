"""The block drafter: what it sees, what it learns, and from what."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx

from helpers.batches import BatchSource
from helpers.model import lora
from helpers.model.scoring import prefill
from helpers.serving.block_drafter import FADE, BlockDrafter, block_objective
from helpers.serving.drafters import only_before
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

FAMILIES = ("gemma3_text", "llama")


def batch(seed=0, P=2, G=3, T=9):
    """Answers of several lengths to prompts of several lengths."""
    rng = np.random.default_rng(seed)
    mask = np.arange(T) < rng.integers(3, T + 1, size=(P, G, 1))
    return {
        "prompt": jnp.asarray(rng.integers(1, 19, size=(P, 6))),
        "prompt_mask": jnp.asarray([[1] * 6, [1] * 4 + [0] * 2][:P]),
        "completion": jnp.asarray(rng.integers(1, 19, size=(P, G, T)) * mask),
        "loss_mask": jnp.asarray(mask, jnp.float32),
    }


def past(target, given):
    """The target's KV of prompts and answers."""
    _, prefix = prefill(target, given["prompt"], given["prompt_mask"])
    length = given["prompt_mask"].sum(axis=1)[:, None, None]
    shape = given["completion"].shape
    positions = jnp.broadcast_to(length + jnp.arange(shape[-1]), shape)
    return prefix, target(given["completion"], positions, earlier=(prefix,))[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_block_of_one_with_all_layers_is_the_target(family):
    """Nothing is masked then: the drafter reads the last token as the target does."""
    target, given = tiny_models.model(family, sharpness=2.0), batch()
    drafter = BlockDrafter(target, 1, layers=3)
    prefix, own = past(target, given)
    for place in (1, 2):
        at = jnp.full((2, 3), place)
        first, length = given["completion"][..., place], given["prompt_mask"].sum(1)
        pieces = prefix, only_before(own, at)
        logits = drafter.fill(first, length[:, None] + place, pieces)
        positions = (length[:, None] + place + jnp.zeros((2, 3), int))[..., None]
        hidden, _ = target(first[..., None], positions, earlier=pieces)
        np.testing.assert_allclose(logits, target.logits(hidden), atol=2e-5)


def test_a_block_sees_what_is_before_it_and_nothing_after():
    target, given = tiny_models.model("llama"), batch()
    drafter = BlockDrafter(target, 3, layers=2)

    def logits(given, place=3):
        prefix, own = past(target, given)
        at = jnp.full((2, 3), place)
        length = given["prompt_mask"].sum(axis=1)[:, None]
        first = given["completion"][..., place]
        return drafter.fill(first, length + place, (prefix, only_before(own, at)))

    before = logits(given)
    for place, changes in ((2, True), (3, True), (4, False), (7, False)):
        other = given["completion"].at[..., place].set(5)
        same = np.allclose(logits(given | {"completion": other}), before, atol=1e-6)
        assert same is not changes, place


def test_the_loss_is_a_mean_over_the_tokens_that_are_there():
    target, given = tiny_models.model("llama", sharpness=2.0), batch(3)
    drafter = BlockDrafter(target, 4, layers=2)
    loss, metrics = block_objective(5)(drafter, given, target)
    prefix, own = past(target, given)
    key = jax.random.key(given["completion"].sum().astype(jnp.uint32))
    chance = np.asarray(jax.random.uniform(key, (2, 3, 5)))
    total = weight = right = there = 0.0
    for n in range(5):
        counts = np.asarray(given["loss_mask"]).sum(axis=-1)
        place = jnp.asarray((chance[..., n] * (counts - 1)).astype(int))
        at = place[..., None]
        first = jnp.take_along_axis(given["completion"], at, axis=-1)[..., 0]
        length = given["prompt_mask"].sum(axis=1)[:, None]
        pieces = prefix, only_before(own, place)
        logprobs = np.asarray(
            jax.nn.log_softmax(drafter.fill(first, length + place, pieces))
        )
        for p, g, i in np.ndindex(2, 3, 4):
            goal = int(place[p, g]) + 1 + i
            if goal < counts[p, g]:
                token = int(given["completion"][p, g, goal])
                total -= FADE**i * logprobs[p, g, i, token]
                weight += FADE**i
                right += logprobs[p, g, i].argmax() == token
                there += 1
    assert loss == pytest.approx(total / weight, rel=1e-4)
    assert metrics["weight"] == pytest.approx(weight, rel=1e-5)
    assert metrics["right"] == pytest.approx(right / there)


def test_it_learns_and_the_target_and_its_table_stay_as_they_are():
    target = tiny_models.model("llama", sharpness=2.0)
    drafter = BlockDrafter(target, 3, layers=1)
    before = jax.tree.map(np.asarray, (nnx.state(target), drafter.table[...]))

    class Same(BatchSource):
        """One batch again and again."""

        metrics: dict = {}
        samples: list = []

        def __iter__(self):
            return self

        def __next__(self):
            return {name: np.asarray(x) for name, x in batch(1).items()}

        def get_state(self):
            return {}

        def set_state(self, state):
            pass

    trainer = Trainer(
        drafter, block_objective(6), adamw(1e-2), frozen=(target,), log=False
    )
    table = trainer.fit(Same(), 40)
    assert table[-1]["loss"] < 0.3 * table[0]["loss"]
    assert table[-1]["in_a_row"] > table[0]["in_a_row"] + 0.5
    after = jax.tree.map(np.asarray, (nnx.state(target), drafter.table[...]))
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_the_last_layer_is_always_among_the_copies():
    target = tiny_models.model("llama", layers=5)
    assert BlockDrafter(target, 2, layers=1).chosen == (4,)
    assert BlockDrafter(target, 2, layers=3).chosen == (0, 2, 4)
    assert BlockDrafter(target, 2, layers=5).chosen == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    "changed", [tiny_models.adapted, lora.quantize], ids=["adapters", "int8"]
)
def test_a_target_of_more_than_plain_weights_is_refused(changed):
    with pytest.raises(ValueError, match="merge its adapters"):
        BlockDrafter(changed(tiny_models.model()), 2)


@pytest.mark.parametrize("change", [{"layers": 4}, {"kv_heads": 4}, {"width": 32}])
def test_a_target_of_another_shape_is_refused(change):
    drafter = BlockDrafter(tiny_models.model("llama"), 2)
    drafter.check(tiny_models.model("llama", seed=5))
    with pytest.raises(ValueError, match="of another shape"):
        drafter.check(tiny_models.model("llama", **change))
