"""Numbers, kinds and truths in a config.json that are none are refused by name."""

import time

import gemma4_sights
import pytest
import tiny_vision
from tiny_models import config

from helpers.model.config import ModelConfig, UnsupportedModel

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    "family, changes, message",
    [
        ("qwen2", {"is_causal": False}, "is_causal=False is not supported"),
        ("gemma3_text", {"is_causal": 0}, "is_causal=0"),
        ("gemma4_text", {"is_causal": False}, "is_causal=False"),
        ("llama", {"rms_norm_eps": NAN}, "rms_norm_eps=nan"),
        ("llama", {"rms_norm_eps": -1.0}, "rms_norm_eps=-1.0"),
        ("llama", {"rms_norm_eps": INFINITE}, "rms_norm_eps=inf"),
        ("gemma4_text", {"rms_norm_eps": "1e-6"}, "rms_norm_eps='1e-6'"),
        ("gemma3_text", {"query_pre_attn_scalar": INFINITE}, "attn_scalar=inf"),
        ("llama", {"max_position_embeddings": -1}, "max_position_embeddings=-1"),
        ("llama", {"tie_word_embeddings": "false"}, "tie_word_embeddings='false'"),
        ("qwen3", {"layer_types": ["full_attention"] * 2}, "has 2 layers.* is 3"),
        ("gemma3_text", {"layer_types": ["sliding_attention"] * 4}, "has 4 layers"),
    ],
)
def test_a_value_that_is_none_is_refused_by_name(family, changes, message):
    with pytest.raises(UnsupportedModel, match=message):
        ModelConfig.from_hf(config(family).to_hf() | changes)


@pytest.mark.parametrize("pattern", [0, -1, 2.5, True, "6"])
def test_a_pattern_of_layers_that_is_none_is_refused(pattern):
    hf = config().to_hf() | {"layer_types": None, "sliding_window_pattern": pattern}
    with pytest.raises(UnsupportedModel, match=f"sliding_window_pattern={pattern!r}"):
        ModelConfig.from_hf(hf)
    assert ModelConfig.from_hf(hf | {"sliding_window_pattern": 2}).pattern == 2


@pytest.mark.parametrize("inside", [True, False])
def test_tokens_that_see_both_ways_are_refused_in_a_model_with_vision(inside):
    hf = {"model_type": "gemma3", "text_config": config().to_hf()}
    assert ModelConfig.from_hf(hf | {"is_causal": True})
    (hf["text_config"] if inside else hf)["is_causal"] = False
    with pytest.raises(UnsupportedModel, match="is_causal=False"):
        ModelConfig.from_hf(hf)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"layer_norm_eps": NAN}, "vision norm eps=nan"),
        ({"num_hidden_layers": 10**6}, "vision num_hidden_layers=1000000"),
        ({"intermediate_size": -3}, "vision ff=-3"),
    ],
)
def test_a_tower_that_cannot_be_is_refused_by_name(changes, message):
    hf = tiny_vision.model().config.to_hf()
    hf["vision_config"] |= changes
    with pytest.raises(UnsupportedModel, match=message):
        ModelConfig.from_hf(hf, vision=True)


@pytest.mark.parametrize(
    "place, changes, message",
    [
        ("text_config", {"pad_token_id": 19}, "pad_token_id=19.*vocab_size is 19"),
        ("text_config", {"pad_token_id": -1}, "pad_token_id=-1 is no token"),
        ("text_config", {"pad_token_id": "x"}, "pad_token_id='x' is no token"),
        ("text_config", {"pad_token_id": [1]}, "pad_token_id=.1. is no token"),
        (None, {"image_token_id": 9999}, "image_token_id=9999 is no token"),
        (None, {"eoi_token_id": -2}, "eoi_token_id=-2 is no token"),
        (None, {"boi_token_id": gemma4_sights.IMAGE}, "boi_token_id.*one token"),
        (None, {"vision_soft_tokens_per_image": 0}, "vision budget=0"),
        ("vision_config", {"use_clipped_linears": "yes"}, "clipped_linears='yes'"),
        ("vision_config", {"standardize": 1}, "standardize=1 is not true"),
        ("vision_config", {"num_key_value_heads": 0}, "vision kv_heads=0"),
        ("vision_config", {"position_embedding_size": 4.0}, "vision positions=4.0"),
    ],
)
def test_what_gemma_4_cannot_see_with_is_refused_by_name(place, changes, message):
    hf = gemma4_sights.config().to_hf()
    assert ModelConfig.from_hf(hf, vision=True).vision.pad_token == gemma4_sights.PAD
    (hf[place] if place else hf).update(changes)
    with pytest.raises(UnsupportedModel, match=message):
        ModelConfig.from_hf(hf, vision=True)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gemma4_text"])
def test_more_layers_than_any_model_has_are_refused_at_once(family):
    hf = config(family).to_hf() | {"num_hidden_layers": 10**6, "layer_types": None}
    start = time.monotonic()
    with pytest.raises(UnsupportedModel, match="num_hidden_layers=1000000.*1,000"):
        ModelConfig.from_hf(hf)
    assert time.monotonic() - start < 0.5
