"""Gemma 4 by way of GGUF files, and what llama.cpp would make of them otherwise."""

import dataclasses
import time
import tracemalloc

import gemma4_shapes
import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gguf import GEMMA4, gemma4, logits, small_tokenizer
from test_gguf import Made, through

from helpers.model import gguf as gguf_files
from helpers.model import gguf_gemma4, gguf_names
from helpers.model.config import UnsupportedModel
from helpers.model.gguf_file import GGUFError, GGUFFile
from helpers.model.rope import frequencies


def same_as_in_llama_cpp(kinds, sharing):
    """Whether the layers that share take the keys that they take in llama.cpp.

    There (llama-model.cpp, `reuse`): of n own layers n - 2 for a local one, else n - 1.
    In transformers: the last own layer of the same kind.
    """
    own = len(kinds) - sharing
    theirs = {"local": own - 2, "full": own - 1}
    return all(
        max(i for i in range(own) if kinds[i] == kind) == theirs[kind]
        for kind in kinds[own:]
    )


def plain(config):
    """(config, waves of full layers); what makes no difference is as a file has it."""
    own = config.gemma4
    own = dataclasses.replace(own, double_wide=own.double_wide and own.sharing > 0)
    waves = frequencies(own.full_head_dim, config.rope_theta, config.stretch)
    config = dataclasses.replace(config, gemma4=own, stretch=None)
    return config, waves


@settings(max_examples=200, deadline=None)
@given(gemma4_shapes.together())
def test_every_shape_comes_back_or_is_refused_because_llama_cpp_shares_otherwise(drawn):
    config = gemma4_shapes.config(**drawn)
    own = config.gemma4.kinds[: config.layers - config.gemma4.sharing]
    if "local" not in config.gemma4.kinds or len(own) < 2:  # it ends with an error
        with pytest.raises(GGUFError, match="llama.cpp runs no Gemma 4 without local"):
            gguf_names.config_fields(config)
    elif same_as_in_llama_cpp(config.gemma4.kinds, config.gemma4.sharing):
        shape, waves = plain(gguf_names.read_config(Made(config)))
        expected, expected_waves = plain(config)
        assert shape == expected
        np.testing.assert_allclose(waves, expected_waves, rtol=1e-6)
    else:
        said = "use keys of earlier ones, which end with .* Save a folder"
        with pytest.raises(GGUFError, match=said):
            gguf_names.config_fields(config)


def test_a_file_whose_layers_share_otherwise_is_not_read():
    file = Made(gemma4_shapes.config("lflf", sharing=2))
    file.fields["gemma4.attention.sliding_window_pattern"] = [False, True, True, False]
    with pytest.raises(
        GGUFError, match="end with full, local.* Take the model's folder"
    ):
        gguf_names.read_config(file)


def test_what_the_file_says_is_what_llama_cpp_asks_for(tmp_path):
    """Names and types as in its src/models/gemma4.cpp, read by the package `gguf`."""
    changes = {"kinds": "lflllf", "sharing": 4, "double_wide": True, "per_layer": 8}
    model = gemma4(**changes, keys_are_values=True, full_kv_heads=1, softcap=30.0)
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    said = {
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
    assert {name: said[name] for name in expected} == expected
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


def test_keys_of_layers_that_share_may_stand_in_a_file_and_are_left_out(tmp_path):
    """Older folders of Gemma 4 have them, and llama.cpp converts what it finds."""
    model, path = gemma4(kinds="flflf", sharing=2), tmp_path / "m.gguf"
    gguf_files.save(model, path, small_tokenizer(), "F32")
    file = GGUFFile(path)
    places = gguf_names.tensors(model.config)
    some = file.entries["blk.0.attn_k.weight"]
    for name in ("attn_k", "attn_v", "attn_k_norm"):
        file.entries[f"blk.3.{name}.weight"] = some
    gguf_files._check_tensors(file, places, model.config)
    file.entries["blk.3.attn_x.weight"] = some
    with pytest.raises(GGUFError, match="1 tensors that a gemma4_text has no place"):
        gguf_files._check_tensors(file, places, model.config)


WRONG = {
    "sliding_window_pattern is 6: not one bool": {
        "attention.sliding_window_pattern": 6
    },
    "sliding_window_pattern is .True.: not one bool": {
        "attention.sliding_window_pattern": [True]
    },
    "head_count_kv is .*one number for local": {
        "attention.head_count_kv": [1, 2, 2, 2, 2, 2]
    },
    "head_count_kv is .2, 0.*no size": {"attention.head_count_kv": [2, 0] * 3},
    "head_count_kv is .*not one int": {"attention.head_count_kv": [2.0] * 6},
    "feed_forward_length is .*or twice": {"feed_forward_length": [96] * 5 + [100]},
    "feed_forward_length is .*this knows": {"feed_forward_length": [96, 192] * 3},
    "all 6 layers share keys": {"attention.shared_kv_layers": 6},
    "shared_kv_layers is -1": {"attention.shared_kv_layers": -1},
    "value_length_swa is not 32": {"attention.value_length_swa": 64},
    "rope.dimension_count is not 64": {"rope.dimension_count": 32},
    "freq_base_swa is None": {"rope.freq_base_swa": None},
    "final_logit_softcapping is nan": {"final_logit_softcapping": float("nan")},
    "rope scaling of a Gemma 4": {"rope.scaling.factor": 8.0},
    "rope scaling .yarn": {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0},
    "rope.scaling.attn_factor=2": {"rope.scaling.attn_factor": 2.0},
    "expert_count=8": {"expert_count": 8},
    "attn_logit_softcapping=5": {"attn_logit_softcapping": 5.0},
}


@pytest.mark.parametrize("said", WRONG)
def test_what_cannot_be_or_is_not_done_is_refused_by_name(said):
    file = Made(gemma4_shapes.config(**GEMMA4, sharing=3))
    file.fields |= {f"gemma4.{key}": value for key, value in WRONG[said].items()}
    with pytest.raises(GGUFError, match=said):
        gguf_names.read_config(file)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_metadata_that_cannot_be_are_refused(data):
    config = gemma4_shapes.config(**GEMMA4, sharing=3, double_wide=True, per_layer=8)
    file = Made(config)
    key = data.draw(st.sampled_from(sorted(file.fields)))
    strange = [None, -1, 2**40, "x", [1], [True] * 6, float("nan"), float("inf")]
    file.fields[key] = data.draw(st.sampled_from(strange))
    try:
        read = gguf_names.read_config(file)
    except (GGUFError, UnsupportedModel) as error:
        assert len(str(error)) > 20
    else:
        # What may be missing has a value then; any number above 0 would do.
        unread = ("vocab_size", "epsilon", "freq_base", "freq_base_swa", "softcapping")
        assert read == config or file.fields[key] is None or key.endswith(unread), key


@pytest.mark.parametrize(
    "factors",
    [[1.0] * 31, [1.0, 1e30] * 16, [1.0, 2.0] + [1e30] * 30, [0.0] * 32, [-1.0] * 32],
)
def test_waves_that_are_not_proportional_are_refused(factors):
    file = Made(gemma4_shapes.config(**GEMMA4))
    file.factors = np.float32(factors)
    file.shape_of_rope = (len(factors),)
    said = "does not say which of 32" if len(factors) == 32 else "no .* for 32 pairs"
    with pytest.raises(GGUFError, match=said):
        gguf_names.read_config(file)


def test_sizes_of_waves_are_looked_at_before_any_is_made():
    file = Made(gemma4_shapes.config(**GEMMA4))
    for name in ("attention.key_length", "attention.value_length"):
        file.fields[f"gemma4.{name}"] = 2**31 - 2
    file.fields["gemma4.rope.dimension_count"] = 2**31 - 2
    tracemalloc.start()
    with pytest.raises(GGUFError, match="no rope_freqs.weight for 1073741823 pairs"):
        gguf_names.read_config(file)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
    del file.entries["rope_freqs.weight"]
    with pytest.raises(GGUFError, match="no rope_freqs.weight"):
        gguf_names.read_config(file)


def test_silence_about_the_softcap_is_30_as_in_llama_cpp_and_none_is_told():
    """llama-hparams.h: f_final_logit_softcapping = 30; no cap moves what leads."""
    file = Made(gemma4_shapes.config(**GEMMA4 | {"softcap": 0.0}))
    assert file.fields["gemma4.final_logit_softcapping"] == 0.0
    assert gguf_names.read_config(file).softcap == 0.0
    del file.fields["gemma4.final_logit_softcapping"]
    assert gguf_names.read_config(file).softcap == 30.0


@pytest.mark.parametrize("pairs", range(1, 40))
def test_how_many_pairs_turn_comes_back_however_shares_are_rounded(pairs):
    for turned in range(pairs + 1):
        share = {"turned": ((2 * turned + 0.5) / (2 * pairs), 1.0)}
        config = gemma4_shapes.config(**GEMMA4 | share | {"full_head_dim": 2 * pairs})
        read = gguf_names.read_config(Made(config))
        np.testing.assert_array_equal(
            gguf_gemma4.slowed(read), gguf_gemma4.slowed(config)
        )


def test_a_hundred_thousand_layers_are_told_apart_in_seconds():
    began = time.process_time()
    config = gemma4_shapes.config("lf" * 50_000)
    assert sum(map(len, config.gemma4.stacks.values())) == 100_000
    assert config.gemma4.stacks is config.gemma4.stacks
    assert time.process_time() - began < 5


def test_one_number_for_a_billion_layers_makes_no_list_of_them():
    file = Made(gemma4_shapes.config(**GEMMA4))
    file.fields["gemma4.block_count"] = 2**31 - 1
    tracemalloc.start()
    with pytest.raises(GGUFError):
        gguf_names.read_config(file)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_a_shape_that_no_config_json_has_makes_no_folder(tmp_path):
    """Fewer heads of keys in full layers, which have values of their own."""
    model = gemma4(full_kv_heads=1)
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    with pytest.raises(ValueError, match="cannot be saved: config.json has no word"):
        gguf_files.to_folder(tmp_path / "m.gguf", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_a_table_that_lies_on_the_host_is_written_too(tmp_path):
    from helpers.model.gemma4 import keep_on_host

    model = gemma4(sharing=3, per_layer=8)
    read = through(keep_on_host(model), small_tokenizer(), tmp_path)
    np.testing.assert_allclose(logits(read), logits(model), rtol=1e-5, atol=1e-5)


def test_the_names_of_gemma_4s_own_tensors_are_the_packages():
    own = {
        gguf_names.IN_LAYER[name].removesuffix(".weight")
        for name in gguf_names.IN_LAYER
    }
    templates = [
        gguf.TENSOR_NAMES[kind] for kind in gguf.MODEL_TENSORS[gguf.MODEL_ARCH.GEMMA4]
    ]
    for name in ("inp_gate", "proj", "post_norm", "layer_output_scale"):
        assert name in own and f"blk.{{bid}}.{name}" in templates
    assert set(gguf_gemma4.OUTSIDE.values()) <= {f"{t}.weight" for t in templates}
