"""Fetching models: from a hub made here that answers as the real one, and without."""

import errno
import json
import sys
import types

import hub_server
import huggingface_hub
import pytest
import tiny_models
from huggingface_hub import constants

from helpers.model import hub
from helpers.model.config import UnsupportedModel
from helpers.model.hub import ModelUnavailable

MODEL = hub_server.MODEL
CONFIG = json.dumps(tiny_models.config("llama").to_hf()).encode()
SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
INDEX = json.dumps({"weight_map": dict(zip("ab", SHARDS, strict=True))}).encode()
FILES = {
    "config.json": CONFIG,
    "model.safetensors.index.json": INDEX,
    SHARDS[0]: b"one",
    SHARDS[1]: b"two",
    "tokenizer.json": b"{}",
}


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with hub_server.alone(monkeypatch, tmp_path, dict(FILES)) as server:
        yield server


def test_a_model_is_fetched_once_without_its_pickles(server, monkeypatch):
    server.files["pytorch_model.bin"] = b"pickle"
    folder = hub.fetch(MODEL)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == FILES
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch(MODEL) == folder
    assert sorted(server.downloads) == sorted(FILES)


API, FILE = "/api/", "/resolve/"
GATED = {"X-Error-Code": "GatedRepo"}
WRONG_TOKEN = {"X-Error-Message": "Invalid credentials in Authorization header"}
REFUSED = {
    "licence": (API, 403, GATED, "is gated. Accept its licence on https://.*/small"),
    "wrong token": (API, 401, WRONG_TOKEN, r"401.*Remove an HF_TOKEN that is wrong"),
    "unknown": (API, 404, {"X-Error-Code": "RepoNotFound"}, "404.*Check the spelling"),
    "too many": (FILE, 429, {}, "team/small cannot be had .*429.*five minutes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_cause_and_the_fix_and_passes(server, case):
    path, status, headers, message = REFUSED[case]
    server.refused[path] = status, headers, b""
    with pytest.raises(ModelUnavailable, match=message):
        hub.fetch(MODEL)
    server.refused.clear()
    assert (hub.fetch(MODEL) / SHARDS[1]).read_bytes() == b"two"


def test_a_token_of_the_runtime_is_sent(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    hub.fetch(MODEL)
    assert server.tokens == {"Bearer hf_mine"}


def test_a_shard_that_is_missing_is_never_passed_over(server, monkeypatch):
    """huggingface_hub returns a part of a model where there is no network."""
    for name in ("config.json", "model.safetensors.index.json", SHARDS[0]):
        huggingface_hub.hf_hub_download(MODEL, name, endpoint=server.address)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match=f"not complete.*has no {SHARDS[1]}"):
        hub.fetch(MODEL)


def test_without_a_network_and_a_copy_the_remedy_is_named(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match="Check the network.*shipped models"):
        hub.fetch("team/elsewhere")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match="Check the network.*HF_HUB_OFFLINE"):
        hub.fetch("team/elsewhere")


def test_a_repository_of_pickles_is_refused(server):
    server.files.clear()
    server.files |= {"config.json": CONFIG, "pytorch_model.bin": b"pickle"}
    with pytest.raises(ModelUnavailable, match="only safetensors are read"):
        hub.fetch(MODEL)
    assert "pytorch_model.bin" not in server.downloads


def test_of_a_model_that_nothing_here_reads_only_the_config_is_downloaded(server):
    server.files["config.json"] = json.dumps({"model_type": "mamba"}).encode()
    with pytest.raises(UnsupportedModel, match="mamba"):
        hub.fetch(MODEL)
    assert server.downloads == ["config.json"]


def test_adapters_are_fetched_too(server, capsys):
    server.files.clear()
    server.files |= {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}
    assert (hub.fetch(MODEL) / "adapter_model.safetensors").is_file()
    assert "lora.load" in capsys.readouterr().out


def test_a_full_disk_is_named(server, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(ModelUnavailable, match="Free some space.*HF_HOME"):
        hub.fetch(MODEL)


def test_names_that_are_neither_a_folder_nor_an_id(tmp_path):
    (tmp_path / "ok.gguf").write_bytes(b"GGUF")
    for name in ("", "./missing/model", "/a/b", "gpt2", str(tmp_path / "ok.gguf")):
        with pytest.raises(ModelUnavailable, match=r"no folder.*gguf.to_folder\("):
            hub.fetch(name)
    assert hub.fetch(tmp_path) == tmp_path


def test_on_kaggle_its_own_copy_is_taken(monkeypatch, tmp_path):
    def download(handle):
        if handle != "qwen-lm/qwen-3/transformers/0.6b":
            raise RuntimeError("403 Client Error: licence")
        return str(tmp_path)

    fake = types.SimpleNamespace(model_download=download)
    monkeypatch.setitem(sys.modules, "kagglehub", fake)
    monkeypatch.setattr("helpers.runtime.where", lambda: "kaggle")
    assert hub.fetch("Qwen/Qwen3-0.6B") == tmp_path
    with pytest.raises(ModelUnavailable, match="kaggle.com/models/google/gemma-3"):
        hub.fetch("google/gemma-3-1b-it")
