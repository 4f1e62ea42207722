"""Repositories that hold no safetensors, and answers that list no files at all."""

import huggingface_hub
import numpy as np
import pytest
import tiny_models
from hub_server import MODEL, alone
from small_gguf import logits, small_tokenizer

from helpers.model import gguf, hub, lora, weights
from helpers.model.hub import ModelUnavailable

API = "/api/models/"


@pytest.fixture
def server(monkeypatch, tmp_path):
    with alone(monkeypatch, tmp_path / "cache", {}) as server:
        yield server


ANSWERS = ["[1, 2]", '"text"', "{}", '{"id": "team/small"}', '{"id": 1, "siblings": 3}']
ANSWERS += [
    '{"id": "x", "siblings": ["config.json"]}',
    '{"id": "x", "lastModified": 3}',
]


@pytest.mark.parametrize("body", ANSWERS)
def test_an_answer_that_lists_no_files_is_of_no_hub(server, body):
    server.refused[API] = 200, {"Content-Type": "application/json"}, body.encode()
    with pytest.raises(ModelUnavailable, match="no model hub .*HF_ENDPOINT right"):
        hub.fetch(MODEL)


UNREAD = {
    r'but GGUF files: .*"team/small", "m-Q8_0.gguf"\).*gguf.to_folder': (
        "README.md m-IQ2_XXS.gguf m-Q8_0.gguf config.json"
    ),
    r"pickles \(pytorch_model.bin\).*never opened here. Take .* safetensors": (
        "config.json pytorch_model.bin tokenizer.json"
    ),
    r"pickles \(adapter_model.bin\)": "adapter_config.json adapter_model.bin",
    "weights that are read here, but README.md, flax": "flax_model.msgpack README.md",
    "no files at all. Take a repository": "",
}


@pytest.mark.parametrize("said", UNREAD)
def test_a_repository_without_safetensors_is_refused_before_anything_is_fetched(
    server, said
):
    server.files = dict.fromkeys(UNREAD[said].split(), b"{}")
    with pytest.raises(ModelUnavailable, match=f"team/small has no safetens.*{said}"):
        hub.fetch(MODEL)
    assert {name for _, name, _ in server.asked} == {"/api/models/team/small"}


def test_what_is_said_of_a_gguf_file_on_the_hub_works(server, tmp_path):
    made = tiny_models.cached_model("llama")
    gguf.save(made, tmp_path / "m.gguf", small_tokenizer(), "F32")
    server.files = {"m.gguf": (tmp_path / "m.gguf").read_bytes()}
    with pytest.raises(ModelUnavailable) as caught:
        hub.fetch(MODEL)
    assert f'file = huggingface_hub.hf_hub_download("{MODEL}", "m.gguf")' in str(
        caught.value
    )
    file = huggingface_hub.hf_hub_download(MODEL, "m.gguf", endpoint=server.address)
    folder = hub.fetch(str(gguf.to_folder(file, tmp_path / "made")))
    np.testing.assert_array_equal(logits(weights.load(folder)), logits(made))


def test_adapters_are_fetched_and_it_is_said_how_they_are_used(
    server, tmp_path, capsys
):
    """They have no config.json, and `lora.load` reads them."""
    base = tiny_models.cached_model("llama")
    policy = tiny_models.adapted(base)
    lora.save(policy, tmp_path / "mine", base="team/base")
    server.files = {p.name: p.read_bytes() for p in (tmp_path / "mine").iterdir()}
    folder = hub.fetch(MODEL)
    assert "Adapters: lora.load puts them on the model" in capsys.readouterr().out
    loaded = lora.load(base, folder, base="team/base")
    for half in ("q_a", "q_b"):
        np.testing.assert_allclose(
            getattr(loaded.layers, half)[...], getattr(policy.layers, half)[...]
        )
    with pytest.raises(weights.WeightsError, match=r"holds adapters.*lora.load\("):
        weights.load(folder)
