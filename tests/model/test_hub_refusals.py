"""A hub that lists a model and then refuses, or gives a part of it."""

import json

import hub_server
import huggingface_hub
import pytest
import tiny_models
from hub_server import MODEL, alone, cut
from huggingface_hub import constants

from helpers.model import hub
from helpers.model.hub import ModelUnavailable, NotStored
from helpers.model.hub_errors import first_line

NAME = "model.safetensors"
FILES = {
    "config.json": json.dumps(tiny_models.config("llama").to_hf()).encode(),
    NAME: bytes(range(256)) * 40,
    "tokenizer.json": b"{}",
}
NEWER = {name: content + b"\n" for name, content in FILES.items()}


@pytest.fixture
def server(monkeypatch, tmp_path):
    with alone(monkeypatch, tmp_path / "cache", dict(FILES)) as server:
        yield server


def whole(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refuse_within(server, status):
    """Refuses what huggingface_hub asks besides the list: the commit, its tree."""
    server.refused |= dict.fromkeys(("/tree/", "/revision/"), (status, {}, b""))


@pytest.fixture
def renewed(server, monkeypatch):
    """The older folder, fetched; the hub has a newer commit since."""
    folder = hub.fetch(MODEL)
    monkeypatch.setattr(hub_server, "COMMIT", "b" * 40)
    server.files = NEWER
    return folder


WITHIN = {429: "too many requests", 503: "answered 503", 403: "no access", 404: "404"}


@pytest.mark.parametrize("status", WITHIN)
def test_a_config_alone_is_no_model(server, status):
    refuse_within(server, status)
    with pytest.raises(ModelUnavailable, match=WITHIN[status]) as caught:
        hub.fetch(MODEL)
    assert not isinstance(caught.value, NotStored)
    server.refused.clear()
    assert whole(hub.fetch(MODEL)) == FILES


def test_a_part_that_another_program_fetched_is_not_taken_for_the_model(server):
    """huggingface_hub gives that folder as it is, and keeps why to itself."""
    huggingface_hub.hf_hub_download(MODEL, "config.json", endpoint=server.address)
    refuse_within(server, 429)
    with pytest.raises(ModelUnavailable, match=f"lists {NAME} .*did not give it"):
        hub.fetch(MODEL)
    server.refused.clear()
    assert whole(hub.fetch(MODEL)) == FILES


def test_where_the_hub_refuses_a_newer_commit_the_older_copy_serves(
    server, renewed, capsys, monkeypatch
):
    refuse_within(server, 503)
    assert hub.fetch(MODEL) == renewed and whole(renewed) == FILES
    assert "from this machine; the hub answered 503." in capsys.readouterr().out
    with monkeypatch.context() as without_network:
        without_network.setattr(constants, "HF_HUB_OFFLINE", True)
        assert hub.fetch(MODEL) == renewed
    server.refused.clear()
    assert whole(hub.fetch(MODEL)) == NEWER


def test_a_download_that_broke_does_not_hide_the_older_copy(
    server, renewed, monkeypatch
):
    server.faults[NAME] = [cut(0)] * 6
    with pytest.raises(ModelUnavailable, match="hung up"):
        hub.fetch(MODEL)
    with monkeypatch.context() as without_network:
        without_network.setattr(constants, "HF_HUB_OFFLINE", True)
        assert hub.fetch(MODEL) == renewed and whole(renewed) == FILES
    newer = hub.fetch(MODEL)
    assert whole(newer) == NEWER
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch(MODEL) == newer


ANSWERS = {401: {}, 403: {"X-Error-Code": "GatedRepo"}, 429: {}}
ANSWERS |= {404: {"X-Error-Code": "RepoNotFound"}}


@pytest.mark.parametrize("status", ANSWERS)
def test_of_a_hub_that_refuses_it_is_not_said_that_it_was_not_reached(
    server, capsys, status
):
    folder = hub.fetch(MODEL)
    server.refused["/api/"] = status, ANSWERS[status], b""
    assert hub.fetch(MODEL) == folder
    said = capsys.readouterr().out
    assert f"this machine; the hub answered {status}." in said


@pytest.mark.parametrize("name", ["../../../evil.json", "/tmp/evil.json"])
def test_a_file_that_would_lie_out_of_the_folder_is_refused(server, name, tmp_path):
    server.files[name] = b"{}"
    with pytest.raises(ModelUnavailable, match=f"outside of the .*{name}.*report it"):
        hub.fetch(MODEL)
    assert not list(tmp_path.rglob("evil.json"))


@pytest.mark.parametrize("name", ["config.json", NAME])
def test_a_file_that_is_listed_and_not_there_is_named(server, name):
    server.refused[f"/{name}"] = 404, {"X-Error-Code": "EntryNotFound"}, b""
    with pytest.raises(
        ModelUnavailable, match=f"not whole on the hub.*{name}.*Take another"
    ) as caught:
        hub.fetch(MODEL)
    assert "in a while" not in str(caught.value), "waiting does not help"


def test_what_a_client_says_is_told_without_the_token():
    error = ValueError("Illegal header value b'Bearer hf_aB1\\n'.\nmore")
    assert first_line(error) == "Illegal header value b'Bearer hf_…\\n'"
