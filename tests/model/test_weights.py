"""Hugging Face folders: bit for bit in and out, and what is said when one is broken."""

import errno
import json
import os
import pathlib
import subprocess
import sys
import tracemalloc

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file
from small_disk import disk_of
from tiny_models import FAMILIES, cached_model, cached_tensors
from tiny_models import model as make

from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.model.weights import WeightsError
from helpers.runtime.sharding import make_mesh
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["two apples and two pears cost 4 dollars"], 300)
OTHER_TOKENIZER = train_tokenizer(["nine plums for Mia"], 300)


LAYERS = {"layer_types": None}  # of which there would be too few, or too many
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


def test_bfloat16_files_load_into_float32_and_back(tmp_path):
    model = make(dtype=jnp.bfloat16)
    weights.save(model, tmp_path)
    assert weights.read_config(tmp_path)["torch_dtype"] == "bfloat16"
    wide = weights.load(tmp_path)
    for (_, x), (_, y) in zip(leaves(wide), leaves(model), strict=True):
        assert x.dtype == jnp.float32
        np.testing.assert_array_equal(x, y.astype(jnp.float32))


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


def test_weights_may_be_cut_into_several_files(folder):
    """As models of more than a few GB are; saving here makes one file of them again."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    names = sorted(tensors)
    files = {
        name: f"model-{1 + i % 2}-of-2.safetensors" for i, name in enumerate(names)
    }
    for file in set(files.values()):
        save_file({n: tensors[n] for n in names if files[n] == file}, folder / file)
    path.unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
    assert_same_bits(weights.load(folder), cached_model())
    weights.save(make(seed=1), folder)
    assert_same_bits(weights.load(folder), make(seed=1))
    path.unlink()
    index.write_text(json.dumps({"weight_map": {"x": "model-9-of-9.safetensors"}}))
    with pytest.raises(WeightsError, match=r"has no model-9-of-9\.safetensors"):
        weights.load(folder)
    index.write_text("{}")
    with pytest.raises(WeightsError, match="lack 41 tensors"):
        weights.load(folder)


def test_a_file_beside_an_index_of_others_is_refused(folder):
    """transformers reads the file, and an index says the others: two models, maybe."""
    path, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    tensors = load_file(path)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, path.name)}))
    assert_same_bits(weights.load(folder), cached_model())  # it is the one file
    save_file({k: v + 1 for k, v in tensors.items()}, folder / "a.safetensors")
    index.write_text(
        json.dumps({"weight_map": dict.fromkeys(tensors, "a.safetensors")})
    )
    with pytest.raises(
        WeightsError, match=r"model\.saf.* and .*index.* a\.safetensors"
    ):
        weights.load(folder)
    path.unlink()
    weights.load(folder)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model.norm.weight": "b.safetensors"}, r"a\.saf.* holds model\.norm\.weight"),
        ({"model.norm.weight": "../b.safetensors"}, r"model\.norm\.weight in '\.\./b"),
        ({"model.norm.weight": 3}, "model.norm.weight in 3"),
    ],
)
def test_an_index_that_misplaces_a_tensor_names_it(folder, change, message):
    path, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    tensors = load_file(path)
    places = {n: f"{'ab'[i % 2]}.safetensors" for i, n in enumerate(sorted(tensors))}
    places["model.norm.weight"] = "a.safetensors"
    for file in "a.safetensors", "b.safetensors":
        save_file({n: tensors[n] for n in tensors if places[n] == file}, folder / file)
    path.unlink()
    index.write_text(json.dumps({"weight_map": places}))
    assert_same_bits(weights.load(folder), cached_model())
    index.write_text(json.dumps({"weight_map": places | change}))
    with pytest.raises(WeightsError, match=message):
        weights.load(folder)
    index.write_text(json.dumps({"weight_map": sorted(places)}))
    with pytest.raises(WeightsError, match="weight_map of .* is not an object"):
        weights.load(folder)


def test_loading_needs_one_weight_beside_those_that_stay(tmp_path):
    """What Python and NumPy allocate; the largest is all layers of one matrix."""
    sizes = {"vocab": 64, "width": 128, "ff": 256, "head_dim": 32, "layers": 24}
    weights.save(make("qwen3", **sizes), tmp_path)
    stored = [x.nbytes for _, x in leaves(weights.load(tmp_path))]  # and warm up
    assert sum(stored) > 4 * max(stored)
    tracemalloc.start()
    try:
        model = weights.load(tmp_path)
        stays, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - stays < 1.25 * max(stored), model


def test_a_mesh_holds_the_same_weights(folder):
    mesh = make_mesh(jax.devices()[:1])
    model = weights.load(folder, mesh=mesh)
    assert_same_bits(model, cached_model())
    assert all(x.sharding.mesh == mesh for _, x in leaves(model))


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.999])
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
    with pytest.raises(WeightsError, match=r"up_proj.*\(20, 15\).*\(20, 16\)"):
        weights.load(folder)
    rewrite(folder, **{name: None})
    with pytest.raises(WeightsError, match=f"lack 1 tensors.*{name}"):
        weights.load(folder)
    up = np.zeros((20, 16), np.float32)
    rewrite(folder, **{name: up, extra: up})
    with pytest.raises(WeightsError, match=f"1 tensors.*no place.*{extra}"):
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


def test_a_weight_under_two_names_is_refused(folder):
    stored = load_file(folder / "model.safetensors")["model.norm.weight"]
    rewrite(folder, **{"language_model.model.norm.weight": stored + 1})
    with pytest.raises(WeightsError, match="norm.weight.* under another name"):
        weights.load(folder)


@pytest.mark.parametrize(
    "changes, message",
    [
        (LAYERS | {"num_hidden_layers": 4}, r"lack 13 tensors.*model\.layers\.3"),
        (
            LAYERS | {"num_hidden_layers": 2},
            r"13 tensors.*no place for.*model\.layers\.2",
        ),
        ({"hidden_size": 32}, r"shape.*16.*asks for.*32"),
        ({"vocab_size": 20}, r"embed_tokens.*\(19, 16\).*\(20, 16\)"),
        ({"num_key_value_heads": 4}, r"k_proj.*\(12, 16\).*\(24, 16\)"),
        ({"tie_word_embeddings": False}, "lack 1 tensors.*lm_head"),
    ],
)
def test_a_config_of_another_model_is_refused(folder, changes, message):
    rewrite_config(folder, **changes)
    with pytest.raises(WeightsError, match=message):
        weights.load(folder)


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


def test_transformers_generate_is_told_where_answers_end(tmp_path):
    """It reads generation_config.json, and config.json no longer."""
    from transformers import GenerationConfig

    weights.save(make(vocab=len(TOKENIZER)), tmp_path, TOKENIZER)
    theirs = GenerationConfig.from_pretrained(tmp_path)
    assert tuple(theirs.eos_token_id) == chat.eos_ids(TOKENIZER)
    assert theirs.pad_token_id == TOKENIZER.pad_token_id
    assert theirs.bos_token_id == TOKENIZER.bos_token_id


def test_a_tokenizer_with_more_tokens_than_the_model_is_another_models(tmp_path):
    with pytest.raises(WeightsError, match="tokens, and the model 10: it is another"):
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


def test_a_tokenizer_counts_that_a_killed_save_left_without_its_model(tmp_path):
    weights.save(make(vocab=len(TOKENIZER)), tmp_path, TOKENIZER)
    before = content(tmp_path)
    old = tmp_path / f".part-{os.getpid()}" / "old"
    old.mkdir(parents=True)
    (tmp_path / "config.json").rename(old / "config.json")
    with pytest.raises(WeightsError, match="pass its own tokenizer=, too"):
        weights.save(make(vocab=len(TOKENIZER) + 5), tmp_path)
    assert content(tmp_path) == before


def test_a_model_does_not_move_in_with_the_tokenizer_of_another(tmp_path):
    weights.save(make(vocab=len(TOKENIZER)), tmp_path, TOKENIZER)
    before = content(tmp_path)
    with pytest.raises(WeightsError, match="pass its own tokenizer=, too"):
        weights.save(make(vocab=len(TOKENIZER) + 5), tmp_path)
    assert content(tmp_path) == before
    weights.save(make(vocab=len(TOKENIZER), seed=1), tmp_path)  # trained on, say
    assert content(tmp_path)["tokenizer.json"] == before["tokenizer.json"]


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["model.embed_tokens.weight", UP, "model.norm.weight"])
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


def test_numbers_too_large_for_the_dtype_that_is_asked_for_are_named(folder):
    tensor = load_file(folder / "model.safetensors")[UP].copy()
    tensor.flat[-1] = 1e5
    rewrite(folder, **{UP: tensor})
    with pytest.raises(WeightsError, match=f"{UP} .* in float16"):
        weights.load(folder, dtype=jnp.float16)
    weights.load(folder, dtype=jnp.bfloat16)


def saved(tmp_path, seed, tokenizer):
    """A model folder; the models of two seeds differ in every file but its names."""
    folder = tmp_path / f"model {seed}"
    made = make(seed=seed, vocab=len(tokenizer), ff=20 + seed)
    weights.save(made, folder, tokenizer)
    return made, folder, content(folder)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_disk_that_fills_up_at_any_file_leaves_the_old_model(tmp_path):
    model, folder, before = saved(tmp_path, 0, TOKENIZER)
    other, _, after = saved(tmp_path, 1, OTHER_TOKENIZER)
    assert len(after) == 6
    for name, file in after.items():
        with disk_of(len(file) - 1):
            with pytest.raises(WeightsError, match="could not be written.*space"):
                weights.save(other, folder, OTHER_TOKENIZER)
        assert content(folder) == before, name
        assert len(list(folder.iterdir())) == len(before)
    assert_same_bits(weights.load(folder), model)


class Renames:
    """Counts renames; calls `look` before each, and fails the one with number `fail`.

    What `look` sees is also what a kill at this moment would leave.
    """

    def __init__(self, monkeypatch, look=lambda: None):
        self.count, self.fail = 0, None
        rename = pathlib.Path.replace

        def replace(path, target):
            look()
            self.count += 1
            if self.count == self.fail:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return rename(path, target)

        monkeypatch.setattr(pathlib.Path, "replace", replace)


def test_a_reader_never_finds_the_files_of_two_models(tmp_path, monkeypatch):
    model, folder, before = saved(tmp_path, 0, TOKENIZER)
    other, _, after = saved(tmp_path, 1, OTHER_TOKENIZER)
    seen = []
    renames = Renames(monkeypatch, look=lambda: seen.append(content(folder)))
    weights.save(other, folder, OTHER_TOKENIZER)
    assert content(folder) == after and renames.count == 2 * len(after)
    assert seen[0] == before
    assert all("config.json" not in now for now in seen[1:])


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
def test_a_rename_that_fails_brings_the_old_model_back(
    tmp_path, monkeypatch, tokenizer
):
    """Also where the new one has files that the old one has not."""
    model, folder = make(vocab=len(TOKENIZER)), tmp_path / "model"
    weights.save(model, folder, tokenizer)
    before, other = content(folder), make(seed=1, vocab=len(TOKENIZER))
    for number in range(1, 6 + len(before) + 1):
        renames = Renames(monkeypatch)
        renames.fail = number
        with pytest.raises(WeightsError, match="No space left"):
            weights.save(other, folder, OTHER_TOKENIZER)
        assert content(folder) == before, number
        monkeypatch.undo()
    assert_same_bits(weights.load(folder), model)


KILLED = """
import os, pathlib, sys
sys.path[:0] = ["tests"]
from tiny_models import model
from helpers.model import folder, weights
folder._move_in = lambda aside, folder, mark: os.kill(os.getpid(), 9)
weights.save(model(seed=1), sys.argv[1])
"""


def test_a_save_that_was_killed_leaves_the_old_model_and_the_next_one_tidies_up(folder):
    root = pathlib.Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", KILLED, str(folder)], cwd=root)
    (left,) = folder.glob(".part-*")
    assert (left / "model.safetensors").is_file()
    assert_same_bits(weights.load(folder), cached_model())
    running = folder / f".part-{os.getppid()}"
    running.mkdir()
    weights.save(make(seed=1), folder)
    assert list(folder.glob(".part-*")) == [running]
    assert_same_bits(weights.load(folder), make(seed=1))


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WeightsError, match="file could not be written.*folder"):
        weights.save(cached_model(), tmp_path / "file")


@pytest.mark.parametrize("place", [0, -1])
def test_a_head_of_its_own_is_not_dropped_where_the_config_says_tied(folder, place):
    embed = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    head = embed.copy()
    head[place, -1] += 1
    rewrite(folder, **{"lm_head.weight": head})
    with pytest.raises(WeightsError, match='own.*"tie_word_embeddings": false'):
        weights.load(folder)
    rewrite(folder, **{"lm_head.weight": embed[:-1]})
    with pytest.raises(WeightsError, match="own"):
        weights.load(folder)
    rewrite(folder, **{"lm_head.weight": head})
    rewrite_config(folder, tie_word_embeddings=False)
    np.testing.assert_array_equal(weights.load(folder).head[...], head)


def test_a_head_is_compared_past_the_first_rows(folder, monkeypatch):
    embed = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    head = embed.copy()
    head[7] += 1
    monkeypatch.setattr(weights, "ROWS", 4)
    rewrite(folder, **{"lm_head.weight": head})
    with pytest.raises(WeightsError, match="own"):
        weights.load(folder)


@pytest.mark.parametrize("family", ["gemma3", "gemma4"])
def test_a_config_with_towers_says_for_its_text_half_whether_the_head_is_tied(family):
    if family == "gemma4":
        text = gemma4_shapes.config(**gemma4_shapes.SMALL).to_hf()
    else:
        text = cached_model().config.to_hf()
    text.pop("tie_word_embeddings")
    outer = {"model_type": family, "text_config": text}
    assert ModelConfig.from_hf(outer).tied
    assert ModelConfig.from_hf(outer | {"tie_word_embeddings": None}).tied
    assert not ModelConfig.from_hf(outer | {"tie_word_embeddings": False}).tied
    for told in (True, False):  # transformers asks the outer one alone
        inner = {"text_config": text | {"tie_word_embeddings": not told}}
        both = outer | {"tie_word_embeddings": told} | inner
        assert ModelConfig.from_hf(both).tied == told
