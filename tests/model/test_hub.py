"""Fetching models: from a hub made here that answers as the real one, and without."""

import errno
import http.server
import json
import threading
import types

import huggingface_hub
import pytest
from huggingface_hub import constants

from helpers.model import hub
from helpers.model.hub import ModelUnavailable

COMMIT = "a" * 40
CONFIG = b'{"model_type": "llama"}'


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves one public model, and refuses others by their name."""

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        if "gated" in self.path:
            return self.reply(403, X_Error_Code="GatedRepo")
        if "forbidden" in self.path:
            return self.reply(403)
        if "badtoken" in self.path:
            return self.reply(401, X_Error_Code="", X_Error_Message="Invalid token")
        if "broken" in self.path:
            return self.reply(500)
        if "/api/models/team/small" in self.path and "/tree/" not in self.path:
            files = ["config.json", "pytorch_model.bin", "code.py"]
            siblings = [{"rfilename": name} for name in files]
            body = {"id": "team/small", "sha": COMMIT, "siblings": siblings}
            return self.reply(200, json.dumps(body).encode())
        if "/api/models/team/small" in self.path:
            tree = [
                {"type": "file", "path": name, "size": len(CONFIG), "oid": "0" * 40}
                for name in ("config.json", "pytorch_model.bin", "code.py")
            ]
            return self.reply(200, json.dumps(tree).encode())
        if "/team/small/resolve/" in self.path:
            assert self.path.endswith("config.json"), self.path
            return self.reply(200, CONFIG, ETag='"1"', X_Repo_Commit=COMMIT)
        return self.reply(404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A hub on this machine, with an empty cache."""
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{serving.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    yield serving
    serving.shutdown()


def test_a_public_model_is_fetched_without_pickles_and_code(server):
    folder = hub.fetch("team/small")
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert (folder / "config.json").read_bytes() == CONFIG


@pytest.mark.parametrize(
    "model, message",
    [
        ("team/gated", "Accept its licence on https://huggingface.co/team/gated"),
        ("team/forbidden", "403.*licence"),
        ("team/badtoken", "HF_TOKEN"),
        ("team/broken", "500.*Try again"),
        ("team/nothing", "no model team/nothing.*slip in the name"),
    ],
)
def test_what_the_hub_refuses_says_what_to_do(server, model, message):
    with pytest.raises(ModelUnavailable, match=message):
        hub.fetch(model)


def test_without_a_network_the_remedy_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(ModelUnavailable, match="hub cannot be reached.*shipped models"):
        hub.fetch("team/elsewhere")


def test_a_full_disk_is_said(monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(ModelUnavailable, match="disk is full.*HF_HOME"):
        hub.fetch("team/large")


@pytest.mark.parametrize("name", ["no such folder", "./missing/model", "/a/b", "gpt2"])
def test_a_name_that_is_neither_folder_nor_id_is_said(name):
    with pytest.raises(ModelUnavailable, match="no folder"):
        hub.fetch(name)


def test_a_folder_is_taken_as_it_is(tmp_path):
    assert hub.fetch(str(tmp_path)) == tmp_path


def test_on_kaggle_its_own_copy_is_taken(monkeypatch, tmp_path):
    asked = []

    def download(handle):
        asked.append(handle)
        if len(asked) > 1:
            raise RuntimeError("403 Client Error: licence")
        return str(tmp_path)

    fake = types.SimpleNamespace(model_download=download)
    monkeypatch.setitem(__import__("sys").modules, "kagglehub", fake)
    monkeypatch.setattr("helpers.runtime.where", lambda: "kaggle")
    assert hub.fetch("Qwen/Qwen3-0.6B") == tmp_path
    assert asked == ["qwen-lm/qwen-3/transformers/0.6b"]
    with pytest.raises(ModelUnavailable, match="kaggle.com/models/google/gemma-3"):
        hub.fetch("google/gemma-3-1b-it")
