"""The shapes we compile for are those of the published models."""

import jax
import pytest
from flax import nnx

from helpers.model.config import ModelConfig
from helpers.model.known import KNOWN
from helpers.model.transformer import Transformer

# Parameters as the models' pages count them (text half, tied tables once).
PUBLISHED = {
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "google/gemma-3-270m-it": 268_098_176,
    "google/gemma-3-1b-it": 999_885_952,
    "google/gemma-3-4b-it": 3_880_263_168,
    "meta-llama/Llama-3.1-70B-Instruct": 70_553_706_496,
}


@pytest.mark.parametrize("name", KNOWN)
def test_shapes_have_the_published_number_of_parameters(name):
    shapes = nnx.eval_shape(lambda: nnx.state(Transformer(KNOWN[name], nnx.Rngs(0))))
    assert sum(x.size for x in jax.tree.leaves(shapes)) == PUBLISHED[name]


@pytest.mark.parametrize("name", KNOWN)
def test_shapes_survive_their_own_config_json(name):
    assert ModelConfig.from_hf(KNOWN[name].to_hf()) == KNOWN[name]
