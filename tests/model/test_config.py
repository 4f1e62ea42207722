"""What a `config.json` says is read, written back, or refused by the field's name."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import FAMILIES, config

from helpers.model import config as config_module
from helpers.model.config import ModelConfig, UnsupportedModel
from helpers.model.known import KNOWN


@pytest.mark.parametrize("family", FAMILIES)
def test_configs_come_back_from_their_json(family):
    for ours in (
        config(family),
        config(family, layers=7, tied=not config(family).tied),
    ):
        assert ModelConfig.from_hf(json.loads(json.dumps(ours.to_hf()))) == ours


def test_layers_are_local_and_global_as_the_files_say():
    """26 layers, every sixth global, in both ways that releases write it."""
    ours = config(layers=26, pattern=6)
    is_global = [ours.is_global(i) for i in range(26)]
    assert [i for i, g in enumerate(is_global) if g] == [5, 11, 17, 23]
    hf = ours.to_hf()
    assert [kind == "full_attention" for kind in hf["layer_types"]] == is_global
    assert ModelConfig.from_hf(hf | {"sliding_window_pattern": 2}).pattern == 6
    assert ModelConfig.from_hf(hf | {"layer_types": None}).pattern == 6
    few = ["sliding_attention"] * 3
    local = ModelConfig.from_hf(hf | {"num_hidden_layers": 3, "layer_types": few})
    assert not any(local.is_global(i) for i in range(3))
    uneven = ["sliding_attention", "full_attention", "full_attention"]
    with pytest.raises(UnsupportedModel, match="layer_types"):
        ModelConfig.from_hf(hf | {"num_hidden_layers": 3, "layer_types": uneven})


def test_rotary_bases_are_read_as_transformers_4_and_5_write_them():
    hf = config().to_hf()
    assert (hf["rope_theta"], hf["rope_local_base_freq"]) == (500.0, 20.0)
    old = [hf.pop(name) for name in ("rope_theta", "rope_local_base_freq")]
    new = {
        "full_attention": {"rope_type": "default", "rope_theta": old[0]},
        "sliding_attention": {"rope_type": "default", "rope_theta": old[1]},
    }
    assert ModelConfig.from_hf(hf | {"rope_parameters": new}) == config()
    assert ModelConfig.from_hf(hf).rope_theta == 1e6  # Gemma's default
    hf = config("llama").to_hf()
    rope = {"rope_type": "default", "rope_theta": hf.pop("rope_theta")}
    assert ModelConfig.from_hf(hf | {"rope_parameters": rope}) == config("llama")


LINEAR = {"rope_type": "linear", "factor": 8.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


@pytest.mark.parametrize(
    "family, scaling", [("gemma3_text", LINEAR), ("llama", LLAMA3)]
)
def test_a_stretch_survives_the_round_trip_in_both_spellings(family, scaling):
    hf = config(family).to_hf() | {"rope_scaling": scaling}
    read = ModelConfig.from_hf(hf)
    assert read.stretch is not None
    assert ModelConfig.from_hf(read.to_hf()) == read
    assert read.to_hf()["rope_scaling"] == scaling
    new = scaling | {"rope_theta": hf.pop("rope_theta")}
    del hf["rope_scaling"]
    if family == "gemma3_text":
        local = {"rope_type": "default", "rope_theta": hf.pop("rope_local_base_freq")}
        new = {"full_attention": new, "sliding_attention": local}
    assert ModelConfig.from_hf(hf | {"rope_parameters": new}) == read


def test_what_a_text_config_leaves_out_is_what_transformers_assumes():
    from transformers import Gemma3TextConfig

    theirs = Gemma3TextConfig()
    for name, value in config_module.GEMMA_TEXT.items():
        assert getattr(theirs, name) == value, name
    sizes = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    sizes |= {"rope_scaling": LINEAR, "sliding_window": 1024}
    four_b = ModelConfig.from_hf({"model_type": "gemma3", "text_config": sizes})
    assert (four_b.heads, four_b.kv_heads, four_b.head_dim) == (8, 4, 256)
    assert (four_b.pattern, four_b.window, four_b.tied) == (6, 1024, True)
    assert (four_b.rope_theta, four_b.rope_local_theta) == (1e6, 1e4)
    assert four_b.stretch.factor == 8.0


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_model_that_transformers_5_saves_again_is_read_as_before(name):
    from transformers import AutoConfig

    again = AutoConfig.for_model(**KNOWN[name].to_hf()).to_dict()
    assert ModelConfig.from_hf(again) == KNOWN[name]


@pytest.mark.parametrize(
    "family, changes, message",
    [
        ("llama", {"model_type": "mamba"}, "mamba.*gemma3_text"),
        ("llama", {"model_type": None}, "model_type None"),
        ("qwen3", {"model_type": "qwen3_moe", "num_experts": 8}, "'qwen3_moe'"),
        ("qwen3", {"num_experts": 8}, "num_experts=8"),
        ("llama", {"vocab_size": "19"}, "vocab_size='19'"),
        ("llama", {"hidden_size": -16}, "hidden_size=-16"),
        ("llama", {"num_hidden_layers": 0}, "num_hidden_layers=0"),
        ("llama", {"intermediate_size": [20, 20]}, "intermediate_size="),
        ("llama", {"num_key_value_heads": 0.5}, "num_key_value_heads=0.5"),
        ("llama", {"head_dim": 7}, "head_dim=7"),
        ("llama", {"quantization_config": {"quant_method": "fp8"}}, "quantization"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        (
            "llama",
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "partial_rotary_factor=0.5",
        ),
        ("llama", {"rope_scaling": "linear"}, "rope_scaling='linear'"),
        ("qwen3", {"layer_types": ["chunked_attention"] * 3}, "chunked_attention"),
        ("llama", {"hidden_size": None}, "hidden_size"),
        ("gemma3_text", {"sliding_window": None}, "sliding_window"),
        ("qwen3", {"head_dim": None}, "head_dim"),
        ("llama", {"num_key_value_heads": 3}, "multiple"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "'yarn'"),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2}}, "'dynamic'"),
        ("llama", {"rope_parameters": {"rope_type": "longrope"}}, "'longrope'"),
        ("llama", {"rope_scaling": {"type": "linear"}}, "factor is None"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 0}}, "factor is 0"),
        (
            "llama",
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            "low_freq_factor is None",
        ),
        (
            "gemma3_text",
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear"}}},
            "'linear' of sliding_attention layers",
        ),
        ("gemma3_text", {"final_logit_softcapping": 30.0}, "softcapping=30"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "softcapping=50"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "bidirectional"),
        ("gemma3_text", {"hidden_activation": "gelu"}, "hidden_activation='gelu'"),
        ("qwen2", {"use_sliding_window": True}, "use_sliding_window"),
        ("qwen3", {"layer_types": ["sliding_attention"] * 3}, "sliding_attention"),
        ("qwen3", {"attention_bias": True}, "attention_bias"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ("llama", {"num_local_experts": 8}, "num_local_experts=8"),
    ],
)
def test_what_the_decoder_cannot_honour_is_refused_not_ignored(
    family, changes, message
):
    hf = config(family).to_hf() | changes
    with pytest.raises(UnsupportedModel, match=message):
        ModelConfig.from_hf(hf)


def test_a_text_config_that_is_no_object_is_said():
    with pytest.raises(UnsupportedModel, match="text_config=None"):
        ModelConfig.from_hf({"model_type": "gemma3", "text_config": None})


def test_a_quantized_model_with_vision_is_refused_before_its_files_are_read():
    outer = {"model_type": "gemma3", "quantization_config": {"quant_method": "gptq"}}
    sizes = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 3}
    with pytest.raises(UnsupportedModel, match="quantization_config"):
        ModelConfig.from_hf(outer | {"text_config": sizes})


FIELDS = st.sampled_from(
    "layer_types rope_parameters rope_scaling rope_theta sliding_window text_config "
    "vision_config per_layer_config hidden_size head_dim num_hidden_layers "
    "num_attention_heads num_key_value_heads model_type rms_norm_eps "
    "tie_word_embeddings final_logit_softcapping num_kv_shared_layers".split()
)
STRANGE = st.sampled_from([3, -1, "a", [], [None], {}, {"a": 1}, True, 0.5, None, [[]]])


@settings(max_examples=150, deadline=None)
@given(
    family=st.sampled_from([*FAMILIES, "gemma4_text"]),
    changes=st.dictionaries(FIELDS, STRANGE, min_size=1, max_size=3),
    vision=st.booleans(),
    inside=st.booleans(),
)
def test_a_strange_config_is_read_or_refused_by_name(family, changes, vision, inside):
    """Whatever kind a field is of; alone, or inside of a model with vision."""
    hf = config(family).to_hf() | changes
    if inside:
        hf = {"model_type": family.replace("_text", ""), "text_config": hf}
    with contextlib.suppress(UnsupportedModel):
        assert ModelConfig.from_hf(hf, vision).layers > 0
