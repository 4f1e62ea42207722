"""The shapes we compile for are those of the published models."""

import dataclasses

import jax
from flax import nnx

from helpers.model.config import KNOWN, SEES, ModelConfig
from helpers.model.transformer import Transformer

# Parameters as the models' pages count them (text half, tied tables once). Those of
# Gemma 4 round them; its were counted by hand from google-deepmind/gemma, gm/nn/gemma4.
PUBLISHED = {
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "google/gemma-3-270m-it": 268_098_176,
    "google/gemma-3-1b-it": 999_885_952,
    "google/gemma-3-4b-it": 3_880_263_168,
    "google/gemma-4-E2B-it": 4_628_569_379,
    "google/gemma-4-E4B-it": 7_463_013_418,
    "google/gemma-4-31B-it": 30_697_345_340,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "meta-llama/Llama-3.1-70B-Instruct": 70_553_706_496,
}


def counted(config):
    """{part: its parameters} of a model of this shape."""
    state = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    return {part: sum(x.size for x in jax.tree.leaves(state[part])) for part in state}


def test_shapes_have_the_published_number_of_parameters():
    counts = {name: sum(counted(config).values()) for name, config in KNOWN.items()}
    assert counts == PUBLISHED


def test_a_model_that_sees_has_the_published_number_of_parameters():
    """4.3 billion, of which the tower has 417 million and the projection 3 (the model's
    page; 2503.19786, table 1)."""
    name = "google/gemma-3-4b-it"
    config = dataclasses.replace(KNOWN[name], vision=SEES[name])
    parts = counted(config)
    assert sum(parts.values()) == 4_300_079_472
    assert round(parts["vision"] / 1e6) == 417 + 3
    assert ModelConfig.from_hf(config.to_hf(), vision=True) == config
    assert ModelConfig.from_hf(config.to_hf()) == KNOWN[name]
