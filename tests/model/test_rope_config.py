"""Rotary settings, in every spelling, are what transformers reads, or are refused."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import config
from transformers import AutoConfig

from helpers.model.config import LAYERS, ModelConfig, UnsupportedModel
from helpers.model.rope import STRETCHES

LINEAR = {"rope_type": "linear", "factor": 8.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
PLACES = (
    "rope_theta",
    "rope_local_base_freq",
    "rope_scaling",
    "rope_parameters",
    "original_max_position_embeddings",
)


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
        found = {name: rope.get(name) for name in LAYERS}
    else:
        found = {"full_attention": rope}
    good = all(x and x.get("rope_type") and x.get("rope_theta") for x in found.values())
    return found if good else None


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
SAID = st.fixed_dictionaries(
    {},
    optional={
        "rope_theta": THETAS,
        "rope_local_base_freq": THETAS,
        "rope_scaling": st.none() | FLAT,
        "rope_parameters": st.none() | FLAT | BY_KIND,
        "original_max_position_embeddings": st.sampled_from([16, 32]),
    },
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(["llama", "qwen2", "qwen3", "gemma3_text", "gemma4_text"]), SAID)
def test_every_spelling_is_read_as_transformers_reads_it_or_refused(family, said):
    assert_read_alike(plain(family) | said)


NESTED = {
    "full_attention": LINEAR | {"rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}


@pytest.mark.parametrize(
    "family, said, theta",
    [
        ("llama", {"rope_theta": 5e5, "rope_scaling": LLAMA3}, 5e5),
        ("llama", {"rope_scaling": LLAMA3 | {"rope_theta": 5e5}}, 5e5),
        ("llama", {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}}, 5e5),
        ("llama", {"rope_scaling": {"rope_theta": 1e6, "rope_type": "default"}}, 1e6),
        ("llama", {"rope_theta": 5e5, "rope_parameters": LLAMA3}, 5e5),
        ("llama", {}, 1e4),
        ("qwen2", {"rope_theta": 1e6, "rope_scaling": None}, 1e6),
        (
            "qwen3",
            {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}},
            1e6,
        ),
        ("gemma3_text", {"rope_scaling": LINEAR}, 1e6),
        ("gemma3_text", {"rope_theta": 5e5, "rope_local_base_freq": 2e4}, 5e5),
        ("gemma3_text", {"rope_parameters": NESTED}, 1e6),
        ("gemma3_text", {"rope_parameters": NESTED, "rope_scaling": LINEAR}, 1e6),
        ("gemma3_text", {"rope_parameters": NESTED | {"rope_theta": 3.0}}, 1e6),
    ],
)
def test_the_spellings_of_published_models_are_read(family, said, theta):
    hf = plain(family) | said
    assert assert_read_alike(hf) and theirs(hf) is not None
    read = ModelConfig.from_hf(hf)
    assert read.rope_theta == theta
    assert bool(read.stretch) == ("factor" in str(said))


@pytest.mark.parametrize(
    "family, said, message",
    [
        (
            "llama",
            {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}},
            "rope_theta 10000.0, and rope_parameters's rope_theta 500000.0",
        ),
        (
            "llama",  # transformers leaves the second out, and takes its own 10,000
            {"rope_scaling": LINEAR, "rope_parameters": LINEAR | {"rope_theta": 5e5}},
            "rope_scaling's rope_theta 10000.0, and rope_parameters's .* 500000.0",
        ),
        (
            "llama",
            {"rope_theta": 5e5, "rope_scaling": LINEAR, "rope_parameters": LLAMA3},
            "rope_scaling .*linear.*, and rope_parameters .*llama3",
        ),
        (
            "llama",
            {"rope_scaling": LLAMA3, "original_max_position_embeddings": 32},
            "original_max_position_embeddings=32 beside 16",
        ),
        ("llama", {"rope_scaling": LINEAR | {"type": "llama3"}}, "linear.*llama3"),
        ("qwen3", {"rope_parameters": NESTED}, "qwen3 has them one for all layers"),
        (
            "gemma3_text",
            {
                "rope_scaling": LINEAR,
                "rope_parameters": NESTED | {"full_attention": {"rope_theta": 1e6}},
            },
            "rope_scaling .*linear.* rope_parameters None",
        ),
        ("gemma3_text", {"rope_parameters": LINEAR}, "gemma3_text has them by kind"),
        ("gemma3_text", {"rope_scaling": {"type": "linear", "factor": 8}}, "rope_type"),
        (
            "gemma3_text",
            {"rope_local_base_freq": 5.0, "rope_parameters": NESTED},
            "of sliding_attention layers: rope_local_base_freq 5.0, and .* 10000.0",
        ),
        ("gemma4_text", {"rope_scaling": LINEAR}, "Gemma 4 has rope_parameters"),
        (
            "gemma4_text",
            {"rope_parameters": {"sliding_attention": {"rope_theta": 1e4}}},
            "full_attention has no rope_theta",
        ),
    ],
)
def test_two_spellings_that_differ_are_refused_by_name(family, said, message):
    with pytest.raises(UnsupportedModel, match=message):
        ModelConfig.from_hf(plain(family) | said)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1e4, True, "1e4"])
def test_a_base_that_is_no_number_above_0_is_refused(value):
    hf = plain("llama")
    for said, name in (
        ({"rope_theta": value}, "rope_theta="),
        ({"rope_parameters": {"rope_theta": value}}, "rope_parameters's rope_theta="),
    ):
        with pytest.raises(UnsupportedModel, match=f"{name}{value!r} is not a number"):
            ModelConfig.from_hf(hf | said)
    with pytest.raises(UnsupportedModel, match="factor is"):
        ModelConfig.from_hf(hf | {"rope_scaling": LINEAR | {"factor": value}})
