"""What GGUF files say of a model's shape: it comes back, or is refused by name."""

import dataclasses

import gemma4_shapes
import gguf
import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gguf import GEMMA, GEMMA4, SIZES, gemma4, small_tokenizer

from helpers.model import families, gguf_config
from helpers.model import gguf as gguf_files
from helpers.model.config import ModelConfig, UnsupportedModel
from helpers.model.gguf_config import ROPE, GGUFError
from helpers.model.ops import Stretch, frequencies


@st.composite
def configs(draw):
    family = draw(st.sampled_from(tiny_models.FAMILIES))
    gemma, heads = family == "gemma3_text", draw(st.sampled_from([2, 4, 8]))
    layers = draw(st.sampled_from([1, 6, 26, 62] if gemma else [1, 6, 62]))
    width, head_dim = 16 * heads, draw(st.sampled_from([8, 16, 64]))
    stretches = [None, Stretch("linear", 8.0)]
    if family == "llama":
        stretches += [Stretch("llama3", 8.0), Stretch("llama3", 32.0)]
    stretch = draw(st.sampled_from(stretches))
    theta = draw(st.sampled_from([1e4, 1e5, 5e5, 1e6]))
    if stretch and stretch.kind == "llama3":  # of slow enough waves to tell its factor
        head_dim, theta = 64, 5e5
    return ModelConfig(
        family=family,
        vocab_size=draw(st.integers(3, 300)),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=draw(st.sampled_from([1, 2, heads])),
        head_dim=head_dim,
        ff=draw(st.integers(1, 99)),
        window=draw(st.integers(1, 4096)) if gemma else 0,
        pattern=6 if gemma else 1,
        rope_theta=theta,
        stretch=stretch,
        max_positions=draw(st.integers(1, 2**20)),
        query_scale=(width / heads if layers == 62 else head_dim) if gemma else 0.0,
        norm_eps=draw(st.sampled_from([1e-5, 1e-6, 9e-7])),
        tied=gemma or draw(st.booleans()),
    )


class Head:
    """As GGUFFile, of a head only."""

    path = "made.gguf"

    def __init__(self, config):
        self.fields = {
            # As they come out of the file.
            key: float(np.float32(x)) if isinstance(x, float) else x
            for key, x in gguf_config.config_fields(config).items()
        }
        architecture = families.FAMILIES[config.family].gguf
        self.fields["general.architecture"] = architecture
        gemma4, layers = config.gemma4, range(config.layers)
        without = gemma4 and gemma4.keys_are_values
        self.shapes = dict.fromkeys(f"blk.{i}.attn_q.weight" for i in layers)
        values = [i for i in layers if not (without and gemma4.kinds[i] == "full")]
        self.shapes |= dict.fromkeys(f"blk.{i}.attn_v.weight" for i in values)
        self.shapes["token_embd.weight"] = config.vocab_size, config.width
        if not config.tied:
            self.shapes["output.weight"] = config.vocab_size, config.width
        self.factors = gguf_config.rope_divisors(config)
        if self.factors is not None:
            self.shapes[ROPE] = self.factors.shape

    def array(self, name):
        assert name == ROPE
        return self.factors


@settings(max_examples=100, deadline=None)
@given(configs())
def test_every_shape_comes_back_as_it_was(config):
    assert gguf_config.read_config(Head(config)) == config


def same_as_in_llama_cpp(kinds, sharing):
    """Whether the layers that share take the keys that they take in llama.cpp.

    There (llama-model.cpp, `reuse`): of n layers with keys the last but one for a local
    layer, else the last.
    In transformers: the last of these of the same kind.
    """
    count = len(kinds) - sharing
    theirs = {"local": count - 2, "full": count - 1}
    return all(
        max(i for i in range(count) if kinds[i] == kind) == theirs[kind]
        for kind in kinds[count:]
    )


def plain(config):
    """(config, waves of full layers); what makes no difference is as a file has it."""
    gemma4, wide = config.gemma4, config.gemma4.double_wide
    gemma4 = dataclasses.replace(gemma4, double_wide=wide and gemma4.sharing > 0)
    waves = frequencies(gemma4.full_head_dim, config.rope_theta, config.stretch)
    config = dataclasses.replace(config, gemma4=gemma4, stretch=None)
    return config, waves


@settings(max_examples=100, deadline=None)
@given(gemma4_shapes.together())
def test_every_shape_comes_back_or_is_refused_because_llama_cpp_shares_otherwise(drawn):
    config = gemma4_shapes.config(**drawn)
    with_keys = config.gemma4.kinds[: config.layers - config.gemma4.sharing]
    can_run = "local" in with_keys and len(with_keys) > 1  # else it ends with an error
    if can_run and same_as_in_llama_cpp(config.gemma4.kinds, config.gemma4.sharing):
        shape, waves = plain(gguf_config.read_config(Head(config)))
        expected, expected_waves = plain(config)
        assert shape == expected
        np.testing.assert_allclose(waves, expected_waves, rtol=1e-6)
    else:
        with pytest.raises(GGUFError, match="use keys of earlier ones.* Save a folder"):
            gguf_config.config_fields(config)


def test_a_gemma_has_the_pattern_and_the_local_base_that_its_file_names():
    """Newer llama.cpp read both keys, as `make gguf-check` found."""
    file = Head(tiny_models.config("gemma3_text", **SIZES | GEMMA))
    file.fields["gemma3.attention.sliding_window_pattern"] = 2
    file.fields["gemma3.rope.freq_base_swa"] = 20.0
    read = gguf_config.read_config(file)
    assert (read.pattern, read.rope_local_theta) == (2, 20.0)


def test_a_factor_of_no_kind_is_a_linear_one_as_in_llama_cpp():
    """llama-model.cpp: the kind is "linear" where nothing is said."""
    file = Head(tiny_models.config("llama", **SIZES))
    file.fields["llama.rope.scaling.factor"] = 4.0
    assert gguf_config.read_config(file).stretch == Stretch("linear", 4.0)
    file.fields["llama.rope.scaling.type"] = "none"
    assert gguf_config.read_config(file).stretch is None
    slow = Head(
        tiny_models.config(
            "llama", **SIZES | {"rope_theta": 5e5}, stretch=Stretch("llama3", 8.0)
        )
    )
    slow.fields["llama.rope.scaling.factor"] = 4.0
    with pytest.raises(GGUFError, match="divided a second time"):
        gguf_config.read_config(slow)
    del slow.fields["llama.rope.scaling.factor"]
    slow.factors = np.full(16, 0.5, np.float32)
    with pytest.raises(GGUFError, match="rope_freqs.weight is not Llama 3.1's"):
        gguf_config.read_config(slow)


REFUSED = {
    "architecture 'gpt2': take a model of gemma3": (
        "llama",
        {"general.architecture": "gpt2"},
    ),
    "one part of 3: join": ("llama", {"split.count": 3}),
    "is a 'adapter' of": ("llama", {"general.type": "adapter"}),
    "expert_count=8 is not supp": ("llama", {"llama.expert_count": 8}),
    "rope.scaling.type='yarn'": ("llama", {"llama.rope.scaling.type": "yarn"}),
    "tensors for 2,147,483,647 layers": ("llama", {"llama.block_count": 2**31 - 1}),
    "rope_scaling=.* is not supported": ("gemma4", {"gemma4.rope.scaling.factor": 8.0}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_this_decoder_does_not_do_is_refused_by_name(message):
    family, changes = REFUSED[message]
    file = Head(tiny_models.config("llama", **SIZES))
    if family == "gemma4":
        file = Head(gemma4_shapes.config(**GEMMA4, sharing=3))
    for key, value in changes.items():
        file.fields[key] = value
    with pytest.raises((GGUFError, UnsupportedModel, ValueError), match=message):
        gguf_config.read_config(file)


@pytest.mark.parametrize(
    "factors", [[1.0] * 31, [1.0, 1e30] * 16, [1.0, 2.0] + [1e30] * 30, [-1.0] * 32]
)
def test_waves_that_are_not_proportional_are_refused(factors):
    file = Head(gemma4_shapes.config(**GEMMA4))
    file.factors = np.float32(factors)
    file.shapes[ROPE] = (len(factors),)
    with pytest.raises(GGUFError, match="does not say which of 32"):
        gguf_config.read_config(file)


def test_silence_about_the_softcap_is_30_as_in_llama_cpp_and_none_is_written():
    """llama-hparams.h: f_final_logit_softcapping = 30; no cap moves what leads."""
    file = Head(gemma4_shapes.config(**GEMMA4 | {"softcap": 0.0}))
    assert file.fields["gemma4.final_logit_softcapping"] == 0.0
    assert gguf_config.read_config(file).softcap == 0.0
    del file.fields["gemma4.final_logit_softcapping"]
    assert gguf_config.read_config(file).softcap == 30.0


def test_what_the_file_says_is_what_llama_cpp_asks_for(tmp_path):
    """Names and types as in its src/models/gemma4.cpp, read by the package `gguf`."""
    changes = {"kinds": "lflllf", "sharing": 4, "double_wide": True, "per_layer": 8}
    model = gemma4(**changes, keys_are_values=True, full_kv_heads=1, softcap=30.0)
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    fields = {
        name.removeprefix("gemma4."): field.contents()
        for name, field in reader.fields.items()
        if name.startswith("gemma4.")
    }
    expected = {
        "attention.key_length": 64,
        "attention.value_length": 64,
        "attention.key_length_swa": 32,
        "attention.value_length_swa": 32,
        "attention.sliding_window": 4,
        "attention.sliding_window_pattern": [True, False, True, True, True, False],
        "attention.shared_kv_layers": 4,
        "attention.head_count_kv": [2, 1, 2, 2, 2, 1],
        "feed_forward_length": [96, 96, 192, 192, 192, 192],
        "embedding_length_per_layer_input": 8,
        "final_logit_softcapping": 30.0,
        "rope.dimension_count": 64,
        "rope.dimension_count_swa": 32,
        "rope.freq_base": 500.0,
        "rope.freq_base_swa": 20.0,
    }
    assert {name: fields[name] for name in expected} == expected
    tensors = {t.name: t.data for t in reader.tensors}
    turned = tensors["rope_freqs.weight"]  # a quarter of 32 pairs
    np.testing.assert_array_equal(turned, np.float32([1] * 8 + [1e30] * 24))
    known = {
        template.format(bid=i)
        for kind in gguf.MODEL_TENSORS[gguf.MODEL_ARCH.GEMMA4]
        for template in [gguf.TENSOR_NAMES[kind]]
        for i in range(6)
    }
    assert {name.removesuffix(".weight") for name in tensors} <= known
    norm = np.asarray(model.layers.full.attention_norm[...])[0]
    np.testing.assert_array_equal(tensors["blk.1.attn_norm.weight"], norm)
    assert "blk.1.attn_v.weight" not in tensors and "blk.0.attn_v.weight" in tensors
    assert "blk.2.attn_k.weight" not in tensors
