"""GGUF files that are refused, each with a remedy; and folders that held a model."""

import copy

import numpy as np
import pytest
from small_gguf import logits, made, small_tokenizer
from transformers import AutoTokenizer

from helpers.model import gguf as gguf_files
from helpers.model import weights
from helpers.model.gguf_file import GGUFError, GGUFFile
from helpers.model.rope import Stretch
from helpers.text import chat

INSTEAD = "Fetch the file again, or take the model's folder of safetensors."


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    gguf_files.save(made("llama", tied=True), path, small_tokenizer(), "F32")
    return path


def refusal(path, **fields):
    """What is said of a file with other metadata."""
    file = GGUFFile(path)
    file.fields |= {key.replace("__", "."): x for key, x in fields.items()}
    with pytest.raises(GGUFError) as error:
        gguf_files._described(file)
    assert str(error.value).count(str(path)) == 1
    return str(error.value)


WITHOUT = {  # what is said without a remedy, where it is found
    "no tokenizer.ggml.merges": {"merges": None},
    "bos_token_id is -1, of 19": {"bos_token_id": -1},
    "make no tokenizer: ": {"merges": ["a b", "a z"]},
    "model is 'bert'": {"model": "bert"},
    "pre is 'falcon'": {"pre": "falcon"},
}


@pytest.mark.parametrize("said", WITHOUT)
def test_each_refusal_of_a_tokenizer_ends_in_one_remedy(said, saved):
    found = refusal(
        saved, **{f"tokenizer.ggml.{k}": x for k, x in WITHOUT[said].items()}
    )
    assert said in found and found.endswith(INSTEAD)
    assert found.count("etch the file again") == 1


def test_other_refusals_of_a_head_end_in_one_remedy_too(saved):
    odd = {f"attention.{x}_length": 31 for x in ("key", "value")}
    odd |= {"rope.dimension_count": 31}
    found = refusal(saved, **{f"llama.{key}": x for key, x in odd.items()})
    assert f"head_dim=31 is odd: rotary positions turn pairs. {INSTEAD}" in found
    assert "cannot be used" in (
        found := refusal(saved, tokenizer__chat_template="{% if %}")
    )
    assert found.endswith(INSTEAD)
    long = refusal(saved, tokenizer__chat_template="x" * (2**18 + 1))
    assert "262,145 characters" in long and long.endswith(INSTEAD)


def test_a_refusal_that_has_its_own_remedy_gets_no_other(saved):
    for found in (
        refusal(saved, tokenizer__ggml__pre=None),
        refusal(saved, tokenizer__ggml__add_eos_token=True),
        refusal(saved, general__architecture="gpt2"),
        refusal(saved, split__count=3),
        refusal(saved, llama__embedding_length=0),
    ):
        assert INSTEAD not in found and "ake" in found or "oin" in found


def test_frequencies_of_another_model_are_refused_with_a_remedy(tmp_path, monkeypatch):
    model = made("llama", stretch=Stretch("llama3", 8.0), rope_theta=5e5)
    gguf_files.save(model, tmp_path / "m.gguf", small_tokenizer(), "F32")
    half = np.full(16, 0.5, np.float32)
    monkeypatch.setattr(GGUFFile, "array", lambda *_: half)
    found = refusal(tmp_path / "m.gguf")
    assert "rope_freqs.weight is not Llama 3.1's" in found and found.endswith(INSTEAD)


def test_a_later_part_of_a_file_is_called_one_though_it_names_no_architecture(saved):
    found = refusal(saved, general__architecture=None, split__no=1, split__count=3)
    assert "is one part of 3: join them first" in found


@pytest.mark.parametrize(
    "kind, architecture",
    [("adapter", "llama"), ("mmproj", "clip"), ("imatrix", None), (7, "llama")],
)
def test_what_goes_beside_a_model_is_no_model(kind, architecture, saved):
    found = refusal(saved, general__type=kind, general__architecture=architecture)
    assert f"general.type is {kind!r}): take the GGUF file of the model" in found


def test_a_file_that_says_it_is_a_model_is_read(saved):
    file = GGUFFile(saved)
    file.fields["general.type"] = "model"
    assert gguf_files._described(file)[0].family == "llama"


def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_is_computed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(weights, "folder_tensors", None)  # to call it would fail
    with pytest.raises(GGUFError, match="is a folder: name a file in it, such as mod"):
        gguf_files.save(made("llama"), tmp_path, small_tokenizer())
    assert not list(tmp_path.iterdir())


# --- what the folder held before ---


def scattered(folder):
    """What transformers 4 and several downloads leave in a folder."""
    (folder / "additional_chat_templates").mkdir(parents=True)
    for name, text in {
        "special_tokens_map.json": '{"eos_token": "ab"}',
        "added_tokens.json": '{"<zz>": 19}',
        "chat_template.json": '{"chat_template": "OLD"}',
        "chat_template.jinja": "OLD",
        "additional_chat_templates/tool_use.jinja": "OLD TOOL",
        "README.md": "a card",
    }.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("has_template", [True, False])
def test_a_tokenizer_is_read_back_whatever_lay_in_the_folder(has_template, tmp_path):
    folder, tokenizer = tmp_path / "hf", copy.deepcopy(small_tokenizer())
    if not has_template:
        tokenizer.chat_template = None
    scattered(folder)
    gguf_files.save(made("llama"), tmp_path / "m.gguf", tokenizer, "F32")
    gguf_files.to_folder(tmp_path / "m.gguf", folder)
    back = AutoTokenizer.from_pretrained(folder)  # ours wants a template
    assert (back.eos_token, len(back)) == ("<|end|>", len(tokenizer))
    assert back.chat_template == tokenizer.chat_template
    assert (folder / "README.md").read_text() == "a card"


def test_a_saved_models_tokenizer_is_read_back_whatever_lay_in_the_folder(tmp_path):
    scattered(tmp_path / "hf")
    weights.save(made("llama"), tmp_path / "hf", small_tokenizer())
    back = chat.load_tokenizer(tmp_path / "hf")
    assert (back.eos_token, len(back)) == ("<|end|>", len(small_tokenizer()))
    assert back.chat_template == small_tokenizer().chat_template


def test_a_folder_of_one_file_and_one_of_several_take_each_others_place(
    saved, tmp_path
):
    weights.save(made("llama"), tmp_path, small_tokenizer())
    gguf_files.to_folder(saved, tmp_path)
    read = weights.load(tmp_path)
    np.testing.assert_allclose(
        logits(read), logits(made("llama", tied=True)), rtol=1e-5
    )
    weights.save(made("qwen3"), tmp_path, small_tokenizer())
    assert [path.name for path in tmp_path.glob("model*")] == ["model.safetensors"]
    np.testing.assert_array_equal(logits(weights.load(tmp_path)), logits(made("qwen3")))
