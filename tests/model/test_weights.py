"""Hugging Face folders: bit for bit in and out, and clear errors when one is broken."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file
from tiny_models import FAMILIES, cached_model, cached_tensors
from tiny_models import model as make

from helpers.model import weights
from helpers.model.weights import WeightsError
from helpers.runtime.sharding import make_mesh
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["two apples and two pears cost 4 dollars"], 300)


UP = "model.layers.1.mlp.up_proj.weight"


def leaves(model):
    return jax.tree_util.tree_leaves_with_path(nnx.state(model))


def assert_same_bits(ours, theirs):
    for (path, x), (_, y) in zip(leaves(ours), leaves(theirs), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, path
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), path


@pytest.fixture
def folder(tmp_path):
    """A saved Gemma-shaped model."""
    weights.save(cached_model(), tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, **changes):
    """Saves the folder's tensors again; None takes one out."""
    path = folder / "model.safetensors"
    tensors = load_file(path) | changes
    save_file({k: v for k, v in tensors.items() if v is not None}, path)


def rewrite_config(folder, **changes):
    hf = weights.read_config(folder) | changes
    (folder / "config.json").write_text(json.dumps(hf))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_comes_back_bit_for_bit(family, dtype, tmp_path):
    model = make(family, dtype=dtype)
    weights.save(model, tmp_path)
    back = weights.load(tmp_path, dtype=dtype)
    assert back.config == model.config
    assert_same_bits(back, model)
    weights.save(back, tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / name).read_bytes() == (
            tmp_path / "again" / name
        ).read_bytes()


def test_matrices_are_stored_out_by_in_under_their_hugging_face_names(folder):
    """One weight of each kind, picked by hand: layer 2 of 3 (width 16, ff 20)."""
    stored, model = load_file(folder / "model.safetensors"), cached_model()
    up = stored["model.layers.2.mlp.up_proj.weight"]
    assert up.shape == (20, 16)
    np.testing.assert_array_equal(up, np.asarray(model.layers.up[...])[2].T)
    norm = stored["model.layers.1.post_attention_layernorm.weight"]
    np.testing.assert_array_equal(norm, model.layers.post_attention_norm[...][1])
    np.testing.assert_array_equal(stored["model.embed_tokens.weight"], model.embed[...])
    assert "lm_head.weight" not in stored
    untied = cached_tensors("llama")[0]
    ours = cached_model("llama").layers.ff_norm[...][0]
    np.testing.assert_array_equal(
        untied["model.layers.0.post_attention_layernorm.weight"], ours
    )
    assert untied["lm_head.weight"].shape == (19, 16)


@pytest.mark.parametrize("share", [0, 0.5, 0.999])
def test_a_file_cut_short_is_refused(folder, share):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(WeightsError, match=r"model\.safetensors is damaged.*again"):
        weights.load(folder)


def test_what_is_no_model_folder_is_named(tmp_path, folder):
    with pytest.raises(WeightsError, match="has no config.json"):
        weights.load(tmp_path / "nowhere")
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(WeightsError, match=r"has no model\.safetensors"):
        weights.load(folder)
    (folder / "config.json").write_text('{"model_type": "gem')
    with pytest.raises(WeightsError, match="is not JSON"):
        weights.load(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(WeightsError, match="holds a list"):
        weights.load(folder)


def test_tensors_that_do_not_belong_are_named(folder):
    name = "model.layers.1.mlp.up_proj.weight"
    extra = "model.layers.1.mlp.experts.weight"
    rewrite(folder, **{name: np.zeros((20, 15), np.float32)})
    with pytest.raises(WeightsError, match=r"up_proj.*\(20, 16\).*\(20, 15\)"):
        weights.load(folder)
    rewrite(folder, **{name: None})
    with pytest.raises(WeightsError, match=f"1 tensors are missing.*{name}"):
        weights.load(folder)
    up = np.zeros((20, 16), np.float32)
    rewrite(folder, **{name: up, extra: up})
    with pytest.raises(WeightsError, match=f"no place for 1: {extra}"):
        weights.load(folder)
    embed = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    rewrite(folder, **{extra: None, "lm_head.weight": embed})
    weights.load(folder)  # some files repeat a tied head


def test_numbers_that_need_scales_are_refused(folder):
    """Without a quantization_config nothing else says that they are not the weights."""
    name = "model.layers.1.mlp.up_proj.weight"
    rewrite(folder, **{name: np.ones((20, 16), np.int8)})
    with pytest.raises(WeightsError, match=f"{name} in I8: a quantized model"):
        weights.load(folder)
    with pytest.raises(ValueError, match="dtype int8 is no float.*quantize"):
        weights.load(folder, dtype=jnp.int8)


def test_the_text_half_of_gemma_with_vision_is_read(tmp_path):
    """As the hub has it: sizes that the text_config leaves out, prefixed tensors."""
    made = cached_model("gemma3_text")
    weights.save(made, tmp_path)
    hf = weights.read_config(tmp_path)
    outer = {"model_type": "gemma3", "text_config": hf, "vision_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(outer))
    plain = load_file(tmp_path / "model.safetensors")
    vision = {"vision_tower.a": np.ones(2), "multi_modal_projector.b": np.ones(2)}
    for text, other in (
        ("language_model.model.", ""),
        ("model.language_model.", "model."),
    ):
        tensors = {text + k.removeprefix("model."): v for k, v in plain.items()}
        tensors |= {other + k: v for k, v in vision.items()}
        save_file(tensors, tmp_path / "model.safetensors")
        assert_same_bits(weights.load(tmp_path), made)


def test_a_tokenizer_travels_along_and_says_where_answers_end(tmp_path):
    weights.save(make(vocab=len(TOKENIZER)), tmp_path, TOKENIZER)
    again = chat.load_tokenizer(tmp_path)
    assert chat.prompt_tokens(again, "two?") == chat.prompt_tokens(TOKENIZER, "two?")
    hf = weights.read_config(tmp_path)
    assert tuple(hf["eos_token_id"]) == chat.eos_ids(TOKENIZER)
    assert hf["pad_token_id"] == TOKENIZER.pad_token_id


def test_a_tokenizer_with_more_tokens_than_the_model_is_another_models(tmp_path):
    with pytest.raises(WeightsError, match="token .*, and the model 10 embeddings"):
        weights.save(make(vocab=10), tmp_path / "new", TOKENIZER)
    assert not (tmp_path / "new").exists()


def test_an_added_token_without_an_embedding_is_no_other_model(tmp_path):
    """As Gemma 3's text models have: the image token is added behind the vocabulary."""
    tokenizer = train_tokenizer(["two plums for Mia"], 300)
    model = make(vocab=len(tokenizer))
    tokenizer.add_tokens(["<one more>"])
    assert len(tokenizer) == model.config.vocab_size + 1
    weights.save(model, tmp_path, tokenizer)
    assert len(chat.load_tokenizer(tmp_path)) == len(tokenizer)


@pytest.mark.parametrize(
    "name, strange", [("model.embed_tokens.weight", np.nan), (UP, -np.inf)]
)
def test_numbers_that_are_none_are_neither_loaded_nor_saved(name, strange, folder):
    tensor = load_file(folder / "model.safetensors")[name].copy()
    tensor.flat[-1] = strange
    rewrite(folder, **{name: tensor})
    with pytest.raises(WeightsError, match=f"{name} has numbers that are not finite"):
        weights.load(folder)
    with pytest.raises(WeightsError, match="not finite"):
        weights.load(folder, mesh=make_mesh())
    model = make()
    model.final_norm[...] = model.final_norm[...].at[0].set(strange)
    with pytest.raises(WeightsError, match="final_norm has numbers that are not fin"):
        weights.save(model, folder)


def test_numbers_too_large_for_the_chosen_dtype_are_named(folder):
    tensor = load_file(folder / "model.safetensors")[UP].copy()
    tensor.flat[-1] = 1e5
    rewrite(folder, **{UP: tensor})
    with pytest.raises(WeightsError, match=f"{UP} .* in float16"):
        weights.load(folder, dtype=jnp.float16)
    weights.load(folder, dtype=jnp.bfloat16)


@pytest.fixture
def shards(folder):
    """The folder with its weights in two files, and {tensor: file} of its index."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    places = {name: files[i % 2] for i, name in enumerate(sorted(tensors))}
    for file in files:
        part = {name: x for name, x in tensors.items() if places[name] == file}
        save_file(part, folder / file)
    path.unlink()
    write_index(folder, places)
    return places


def write_index(folder, places):
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))


def test_weights_in_several_files_are_read_and_replaced_by_one(folder, shards):
    whole = weights.fingerprint(folder)
    assert_same_bits(weights.load(folder), cached_model())
    weights.save(cached_model(), folder)
    assert weights.fingerprint(folder) == whole
    weights.save(make(seed=1), folder)
    assert_same_bits(weights.load(folder), make(seed=1))
    assert len(list(folder.glob("*.safetensors*"))) == 1


def test_an_index_that_does_not_fit_its_files_is_refused(folder, shards):
    norm = "model.norm.weight"
    other = next(file for file in shards.values() if file != shards[norm])
    for places, message in (
        (shards | {norm: other}, "is damaged"),
        (shards | {norm: "model-9.safetensors"}, "has no model-9"),
    ):
        write_index(folder, places)
        with pytest.raises(WeightsError, match=message):
            weights.load(folder)
    write_index(folder, shards)
    (folder / "model.safetensors").touch()
    with pytest.raises(WeightsError, match="may be two models"):
        weights.load(folder)


def test_a_fingerprint_is_of_the_weights_alone(folder, tmp_path):
    before = weights.fingerprint(folder)
    assert len(before) == 16 and int(before, 16)
    copied = shutil.copytree(folder, tmp_path / "copy")
    rewrite_config(copied, use_cache=True)
    assert weights.fingerprint(copied) == before
    rewrite(copied, **{UP: load_file(folder / "model.safetensors")[UP] + 1})
    assert weights.fingerprint(copied) != before
    weights.save(cached_model(), copied)
    assert weights.fingerprint(copied) == before
    weights.save(make(dtype=jnp.bfloat16), copied)
    assert weights.fingerprint(copied) != before
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(WeightsError, match="is damaged"):
        weights.fingerprint(folder)


def test_ropes_frequencies_in_an_older_file_are_passed_over(folder):
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    rewrite(folder, **{name: np.ones(4, np.float32)})
    assert_same_bits(weights.load(folder), cached_model())
