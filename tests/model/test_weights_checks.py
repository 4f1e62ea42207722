"""What is said of a place that is no model folder."""

import copy

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_models import cached_model

from helpers.course.stages import stage_folder
from helpers.model import weights
from helpers.model.folder import WeightsError
from helpers.text import chat

PLACES = {  # the files that are there; what is passed
    r"GGUF file: gguf.to_folder\(": (["ok.gguf"], "ok.gguf"),
    r"a GGUF file: gguf.to_folder\(": (["ok.gguf", "README.md"], ""),
    r"holds adapters: .* lora.load\(": (["adapter_config.json"], ""),
    "the folder that holds config.json and": (["model.safetensors"], ""),
    "the folder that holds config": (["config.json"], "config.json"),
}


@pytest.mark.parametrize("said", PLACES)
def test_what_is_no_model_folder_says_what_to_do_with_it(said, tmp_path):
    names, passed = PLACES[said]
    for name in names:
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(WeightsError, match=f"has no config.json: .* folder. .*{said}"):
        weights.load(str(tmp_path / passed))


def test_ropes_frequencies_in_an_older_file_are_passed_over(tmp_path):
    weights.save(cached_model("llama"), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    old = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    save_file(tensors | old, tmp_path / "model.safetensors")
    again = weights.load(tmp_path)
    np.testing.assert_array_equal(again.embed.value, cached_model("llama").embed.value)
    save_file(
        tensors | {"model.inv_freq": old.popitem()[1]}, tmp_path / "model.safetensors"
    )
    with pytest.raises(WeightsError, match="no place for, first model.inv_freq"):
        weights.load(tmp_path)


@pytest.mark.parametrize("name", ["pad", "eos", "bos", "unk"])
def test_a_special_token_beyond_the_model_is_refused_before_it_is_saved(name, tmp_path):
    model = weights.load(stage_folder("base"))
    tokenizer = copy.deepcopy(chat.load_tokenizer(stage_folder("base")))
    tokenizer.add_special_tokens({f"{name}_token": "<mine>"})
    assert tokenizer.vocab_size <= model.config.vocab_size
    with pytest.raises(WeightsError, match=f"{name} token '<mine>' is number"):
        weights.save(model, tmp_path, tokenizer)
    assert not any(tmp_path.iterdir())
