"""Gemma 4 is sampled and trained as the other families are."""

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx

from helpers.generation.sampling import generate, row_keys
from helpers.model import lora
from helpers.model.scoring import group_logprobs

PROMPTS, _ = tiny_models.random_groups(seed=2)
GROUP, BUDGET = 3, 9
SHAPES = list(gemma4_shapes.NAMED)


def answers(model, seed=0):
    """A batch of answers that the model sampled, with the log-probs it noted."""
    blank = tiny_models.group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
    said = generate(
        model,
        blank["prompt"],
        blank["prompt_mask"],
        row_keys(jax.random.key(seed), 0, len(PROMPTS), GROUP),
        max_tokens=BUDGET,
        eos_ids=(0, 1),
    )
    return {
        "prompt": blank["prompt"],
        "prompt_mask": blank["prompt_mask"],
        "completion": said.tokens,
        "loss_mask": said.mask.astype(np.float32),
        "logprobs": said.logprobs,
    }


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stored", ["", "int8", "nf4", "bfloat16"])
def test_what_was_sampled_is_what_the_trainer_scores(stored, shape):
    """Past the window; plain, and with adapters beside matrices in few bits."""
    model = tiny_models.cached_model(shape)
    if stored == "bfloat16":
        model = tiny_models.model(shape, dtype=jnp.bfloat16)
    elif stored:
        model = tiny_models.adapted(lora.quantize(model, stored))
    batch = answers(model)
    graph, state = nnx.split(model)
    found = jax.jit(lambda s: group_logprobs(nnx.merge(graph, s), batch)[0])(state)
    off = np.abs(found - batch["logprobs"]) * batch["loss_mask"]
    assert off.max() < (0.15 if stored == "bfloat16" else 3e-5)
    assert batch["loss_mask"].sum() > 40
