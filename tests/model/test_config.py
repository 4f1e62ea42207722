"""What a `config.json` says is read, written back, or refused by the field's name."""

import copy
import json

import gemma4_sights
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import FAMILIES, config
from transformers import AutoConfig

from helpers.model.config import DEFAULTS, KNOWN, LAYERS, ModelConfig, UnsupportedModel
from helpers.model.ops import STRETCHES


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


def test_what_a_config_leaves_out_is_what_transformers_assumes():
    """Files of the hub leave out what is usual, and nulls are what is left out."""
    for name, fields in DEFAULTS.items():
        usual = AutoConfig.for_model(name).to_dict()
        for field, value in fields.items():
            if field != "rope_parameters":  # see the test of every spelling
                assert usual[field] == value, field
    sizes = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    sizes |= {"rope_scaling": LINEAR, "sliding_window": 1024, "head_dim": None}
    four_b = ModelConfig.from_hf({"model_type": "gemma3", "text_config": sizes})
    assert (four_b.heads, four_b.kv_heads, four_b.head_dim) == (8, 4, 256)
    assert (four_b.pattern, four_b.window, four_b.tied) == (6, 1024, True)
    assert (four_b.rope_theta, four_b.rope_local_theta) == (1e6, 1e4)
    assert four_b.stretch.factor == 8.0


def test_known_models_that_transformers_5_saves_again_are_read_as_before():
    for ours in KNOWN.values():
        again = AutoConfig.for_model(**ours.to_hf()).to_dict()
        assert ModelConfig.from_hf(again) == ours


PLACES = ("rope_theta", "rope_local_base_freq", "rope_scaling", "rope_parameters")


def plain(family):
    """A config.json that says nothing of rotary positions."""
    hf = config(family).to_hf()
    return {name: value for name, value in hf.items() if name not in PLACES}


def theirs(hf):
    """{kind of layer: its settings} by transformers; None: it has no such model."""
    try:
        read = AutoConfig.for_model(**copy.deepcopy(hf))
        # Its models do this once more, when all fields are there.
        if hf["model_type"] != "gemma4_text":
            read.standardize_rope_params()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    rope = read.rope_parameters or {}
    if hf["model_type"] in ("gemma3_text", "gemma4_text"):
        rope = {name: rope.get(name) for name in LAYERS}
    else:
        rope = {"full_attention": rope}
    good = all(x and x.get("rope_type") and x.get("rope_theta") for x in rope.values())
    return rope if good else None


def assert_read_alike(hf):
    """Whether ours reads it at all; if so, and theirs too, they must be the same."""
    try:
        ours = ModelConfig.from_hf(copy.deepcopy(hf))
    except UnsupportedModel:
        return False
    if (read := theirs(hf)) is not None:
        full = read["full_attention"]
        assert full["rope_theta"] == ours.rope_theta
        assert full["rope_type"] == (ours.stretch.kind if ours.stretch else "default")
        if ours.stretch:
            for our, name in STRETCHES[full["rope_type"]].items():
                assert getattr(ours.stretch, our) == full.get(name, 1.0)
        if local := read.get("sliding_attention"):
            assert local["rope_type"] == "default"
            assert local["rope_theta"] == ours.rope_local_theta
    return True


THETAS = st.sampled_from([1e4, 500000, 1e6])
KINDS = st.sampled_from(
    [{}, {"rope_type": "default"}, LINEAR, LLAMA3, LINEAR | {"factor": 2}]
    + [{"type": "linear", "factor": 8.0}, LINEAR | {"type": "default"}]
    + [{"type": "default"}]
)
FLAT = st.builds(
    lambda kind, theta: kind | ({} if theta is None else {"rope_theta": theta}),
    KINDS,
    st.none() | THETAS,
)
BY_KIND = st.dictionaries(
    st.sampled_from(["full_attention", "sliding_attention"]), FLAT | st.none()
)
ROTARY = st.fixed_dictionaries(
    {},
    optional={
        "rope_theta": THETAS,
        "rope_local_base_freq": THETAS,
        "rope_scaling": st.none() | FLAT,
        "rope_parameters": st.none() | FLAT | BY_KIND,
    },
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["llama", "qwen2", "qwen3", "gemma3_text", "gemma4_text"]), ROTARY
)
def test_every_spelling_is_read_as_transformers_reads_it_or_refused(family, rotary):
    assert_read_alike(plain(family) | rotary)


NESTED = {
    "full_attention": LINEAR | {"rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}


REFUSED = [
    ("llama", {"model_type": "mamba"}, "mamba.*gemma3_text"),
    ("llama", {"hidden_size": None}, "no field 'hidden_size'"),
    ("llama", {"vocab_size": {}, "hidden_size": "x"}, "of another kind"),
    ("llama", {"num_key_value_heads": 3}, "equal groups"),
    ("qwen2", {"is_causal": False}, "is_causal=False"),
    ("llama", {"quantization_config": {"bits": 4}}, "quantization_config=.*bits"),
    ("gemma4_text", {"use_bidirectional_attention": "all"}, "bidirectional"),
    ("llama", {"a_new_habit": 0.5}, "a_new_habit=0.5.*may change"),
    ("gemma3_text", {"hidden_activation": "gelu"}, "hidden_activation='gelu'"),
    ("qwen3", {"layer_types": ["full_attention"] * 2}, "should be 3, one in 1"),
    ("qwen3", {"layer_types": ["sliding_attention"] * 3}, "sliding_attention"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
    ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "'yarn'"),
    (
        "llama",
        {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}},
        "different rotary settings.*Delete",
    ),
    ("qwen3", {"rope_parameters": NESTED}, "rope settings .* not supported"),
    ("gemma3_text", {"rope_parameters": LINEAR}, "not by kind of layer"),
]


@pytest.mark.parametrize("family, changes, message", REFUSED)
def test_what_may_change_the_computation_is_refused_by_name(family, changes, message):
    with pytest.raises(UnsupportedModel, match=message):
        ModelConfig.from_hf(config(family).to_hf() | changes)


def test_fields_that_change_nothing_and_empty_ones_are_passed_over():
    harmless = {"use_cache": True, "_name_or_path": "x", "unsloth_version": "1"}
    empty = {"quantization_config": None, "use_sliding_window": False, "new": []}
    hf = config("qwen2").to_hf() | harmless | empty | {"max_window_layers": 28}
    assert ModelConfig.from_hf(hf) == config("qwen2")


def test_a_tower_of_another_kind_is_refused_by_name():
    hf = gemma4_sights.config().to_hf()
    assert ModelConfig.from_hf(hf, vision=True).vision.pad_token == gemma4_sights.PAD
    other = hf | {"vision_config": hf["vision_config"] | {"hidden_activation": "relu"}}
    for changed in (hf | {"is_causal": False}, other, hf | {"vision_config": None}):
        with pytest.raises(UnsupportedModel, match="is_causal|activation|no vision_c"):
            ModelConfig.from_hf(changed, vision=True)
