"""Adapters from folders: those that we wrote, and folders as `peft` writes them."""

import json
import pathlib
import warnings

import numpy as np
import pytest
import tiny_models
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from test_model import forward

from helpers.model import lora, peft_folder, quantized, weights
from helpers.model.config import KNOWN
from helpers.model.folder import WeightsError
from helpers.model.transformer import named_arrays

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
PEFT = sorted(path.parent for path in GOLDEN.glob("peft/*/*/adapter_config.json"))
READ = [place for place in PEFT if (place / "logits.npz").exists()]
ALL = lora.ATTENTION + lora.MLP
SIZES = tiny_models.FEW_SHAPES
BASES = {family: tiny_models.model(family, **SIZES) for family in tiny_models.FAMILIES}


def arrays(model):
    return {path: np.asarray(x) for path, x in named_arrays(nnx.state(model))}


def assert_same(one, other):
    one, other = arrays(one), arrays(other)
    assert one.keys() == other.keys()
    for path, x in one.items():
        np.testing.assert_array_equal(x, other[path], err_msg=str(path))


@settings(max_examples=8, deadline=None)
@given(
    family=st.sampled_from(tiny_models.FAMILIES),
    targets=st.sets(st.sampled_from(ALL), min_size=1),
    alpha=st.sampled_from([1, 5.0, 16]),
    kind=st.sampled_from([None, *quantized.KINDS]),
)
def test_what_was_saved_is_loaded_to_the_last_bit(
    family, targets, alpha, kind, tmp_path_factory
):
    base = lora.quantize(BASES[family], kind) if kind else BASES[family]
    folder = tmp_path_factory.mktemp("adapters")
    model = tiny_models.adapted(base, targets=targets, alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of codes
        lora.save(model, folder, "a/base")
    read = lora.load(base, folder)
    assert_same(read, model)
    assert read.layers.adapters == model.layers.adapters
    np.testing.assert_allclose(
        read.layers.adapter_scale, model.layers.adapter_scale, rtol=1e-12
    )
    assert not base.layers.adapters


@pytest.fixture
def folder(tmp_path):
    """Adapters of rank 3 on q and down of the small Llama."""
    model = tiny_models.adapted(BASES["llama"], targets=("q", "down"))
    lora.save(model, tmp_path, "a/base")
    return tmp_path


def change(folder, **settings):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def case(place):
    return place.parent.name


@pytest.mark.parametrize("place", READ, ids=case)
def test_what_peft_made_and_saved_gives_the_logits_that_it_computed(place):
    """All seven matrices of a Gemma 4, adapters in bfloat16, and rank-stabilised."""
    stored = np.load(GOLDEN / place.name / "reference.npz")
    base = weights.load(GOLDEN / place.name)
    model = lora.load(base, place, base=place.name)
    tokens = stored["tokens"][:, None].astype(np.int32)
    _, logits, _ = forward(model, tokens)
    theirs = np.load(place / "logits.npz")["logits"]
    np.testing.assert_allclose(logits[:, 0], theirs, atol=2e-4)
    assert np.abs(theirs - stored["logits"]).max() > 0.1  # of the base alone


@pytest.mark.parametrize("place", [p for p in PEFT if p not in READ], ids=case)
def test_what_peft_made_otherwise_is_refused_by_its_name(place):
    base = weights.load(GOLDEN / place.name)
    with pytest.raises(WeightsError, match=f"{case(place)}=.* is not supported"):
        lora.load(base, place)


SETTINGS = {
    "use_dora=True": {"use_dora": True},
    "bias='all'": {"bias": "all"},
    "a_new_way=": {"a_new_way": True},
    "init_lora_weights='pissa' changed the base": {"init_lora_weights": "pissa"},
    "only LoRA": {"peft_type": "IA3"},
    "should have adapters of shape ..4, ": {"r": 4},
}


@pytest.mark.parametrize("message", SETTINGS)
def test_settings_that_would_make_other_numbers_are_refused(message, folder):
    change(folder, **SETTINGS[message])
    with pytest.raises(WeightsError, match=message):
        lora.load(BASES["llama"], folder)


def test_a_pickle_is_never_opened_but_named_with_the_remedy(folder):
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(b"no pickle is opened")
    with pytest.raises(WeightsError, match="is a pickle.*save_pretrained"):
        lora.load(BASES["llama"], folder)


NAME = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"


HEAD = "base_model.model.lm_head.lora_{}.weight"
EDITS = {
    "q_proj.weight should have .* has none": lambda t: t.pop(NAME),
    "of shape .*and has .*3, 5.": lambda t: t.update({NAME: np.ones((3, 5))}),
    "adapters of q in .* has numbers that are not finite": lambda t: t.update(
        {NAME: np.full_like(t[NAME], np.nan)}
    ),
    "no place for, first lora_A of lm_head": lambda t: t.update(
        {HEAD.format("A"): t[NAME], HEAD.format("B"): t[NAME]}
    ),
    "lora_A.weight in I8, not in floats": lambda t: t.update(
        {NAME: np.ones_like(t[NAME], np.int8)}
    ),
    "embed_tokens.lora_embedding_A, which is no LoRA matrix": lambda t: t.update(
        {"base_model.model.model.embed_tokens.lora_embedding_A": t[NAME]}
    ),
}


@pytest.mark.parametrize("message", EDITS)
def test_tensors_of_another_model_are_refused(message, folder):
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    EDITS[message](tensors)
    save_file(tensors, path)
    with pytest.raises(WeightsError, match=message):
        lora.load(BASES["llama"], folder)


def test_adapters_of_another_size_or_on_an_adapted_model_are_refused(folder):
    for size, message in (
        ({"width": 24}, "of another model"),
        ({"layers": 2}, "no place for"),
        ({"layers": 4}, "some are missing"),
    ):
        with pytest.raises(WeightsError, match=message):
            lora.load(tiny_models.model("llama", **SIZES | size), folder)
    with pytest.raises(ValueError, match="adapters on q, down already"):
        lora.load(lora.load(BASES["llama"], folder), folder)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_files_that_are_missing_or_damaged_are_named(name, folder):
    path = folder / name
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(WeightsError, match=f"{name} is (damaged|not JSON)"):
        lora.load(BASES["llama"], folder)
    path.unlink()
    with pytest.raises(WeightsError, match=f"has no {name}"):
        lora.load(BASES["llama"], folder)


@pytest.mark.parametrize("kind", ["int8", "nf4"])
def test_adapters_trained_beside_codes_say_so(kind, tmp_path):
    small = lora.quantize(BASES["llama"], kind)
    with pytest.warns(UserWarning, match=f"trained beside {kind} matrices"):
        lora.save(tiny_models.adapted(small), tmp_path, "a/base")
    stored = peft_folder.read(tmp_path, small.config, ALL)
    assert stored.base == quantized.KINDS[kind]
    with pytest.warns(UserWarning, match=rf"exact base.*quantize\(model, '{kind}'\)"):
        lora.load(BASES["llama"], tmp_path)
    (other, *_) = quantized.KINDS.keys() - {kind}
    with pytest.warns(UserWarning, match=f"{other} base.*'{kind}'"):
        lora.load(lora.quantize(BASES["llama"], other), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lora.load(small, tmp_path)


@pytest.mark.parametrize(
    ("shape", "base", "towers"),
    [
        ("google/gemma-3-4b-it", "google/gemma-3-4b-pt", True),
        ("google/gemma-3-4b-it", "someone/a-copy", True),
        ("google/gemma-4-31B-it", "google/gemma-4-31B", True),
        ("google/gemma-3-1b-it", "google/gemma-3-1b-pt", False),
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", False),
    ],
)
def test_a_base_that_cannot_be_read_has_the_towers_of_its_shape(
    shape, base, towers, tmp_path
):
    adapters = peft_folder.Adapters(1, 1.0, "", {})
    peft_folder.save(tmp_path, adapters, KNOWN[shape], base)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert ("exclude_modules" in settings) == towers
