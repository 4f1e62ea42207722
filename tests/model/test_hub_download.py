"""The bytes on their way from a hub to the disk: cut, slow, changed, without room."""

import hashlib
import json

import hub_server
import huggingface_hub
import numpy as np
import pytest
import tiny_models
from hub_server import COMMIT, MODEL, alone, cut, git_sha1, other, sha256, slow, stalled
from huggingface_hub import constants
from small_disk import disk_of
from small_gguf import logits, small_tokenizer

from helpers.model import hub, hub_checksums, weights
from helpers.model.config import UnsupportedModel
from helpers.model.folder import INDEX
from helpers.model.hub import ModelUnavailable, NotStored
from helpers.text import chat

NAME = "model.safetensors"
NEVER = "pytorch_model.bin", "code.py"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small model as it lies on a hub, beside what is never to be fetched."""
    folder = tmp_path_factory.mktemp("hub")
    weights.save(tiny_models.cached_model("llama"), folder, small_tokenizer())
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files | {name: b"import os" for name in NEVER}


@pytest.fixture
def server(monkeypatch, tmp_path, files):
    with alone(monkeypatch, tmp_path, files) as server:
        yield server


def assert_whole(folder, files):
    """Each file of a fetched folder is there, and is the hub's."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    wanted = files.keys() - {*NEVER}
    assert found == {name: files[name] for name in wanted}


def assert_only_whole_blobs(cache):
    """A later fetch finds nothing in the cache that it might take for a whole file."""
    for path in cache.glob("models--*/blobs/*"):
        if not path.name.endswith(".incomplete"):
            content = path.read_bytes()
            assert path.name in (sha256(content), git_sha1(content))


def test_a_fetched_model_computes_what_the_one_on_the_hub_does(
    server, files, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    folder = hub.fetch(MODEL)
    assert_whole(folder, files)
    there = tiny_models.cached_model("llama")
    np.testing.assert_array_equal(logits(weights.load(folder)), logits(there))
    assert chat.load_tokenizer(folder).encode("abc") == small_tokenizer().encode("abc")
    assert server.tokens == {"Bearer hf_mine"}


def test_it_is_said_where_a_model_is_from(server, files, capsys, monkeypatch):
    for where, said in ("online", "the hub"), ("offline", "this machine; the hub was"):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", where == "offline")
        assert_whole(hub.fetch(MODEL), files)
        assert f"{MODEL}: from {said}" in capsys.readouterr().out


def test_a_cut_download_goes_on_where_it_broke(server, files):
    server.faults[NAME] = [cut(10_500), cut(5_000)]
    assert_whole(hub.fetch(MODEL), files)
    assert server.downloads(NAME) == [None, "bytes=10000-", "bytes=15000-"]


CUT_OFF = {
    "hung up .*fetch it again .files that have arrived whole are kept": cut(0),
    "fell silent.*slow network.*HF_HUB_DOWNLOAD_TIMEOUT=60": stalled(0),
}


@pytest.mark.parametrize("said", CUT_OFF)
def test_a_download_that_gets_nowhere_ends_and_the_next_goes_on(
    server, files, said, tmp_path, monkeypatch
):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    server.faults[NAME] = [CUT_OFF[said]] * 6
    with pytest.raises(ModelUnavailable, match=said):
        hub.fetch(MODEL)
    assert_only_whole_blobs(tmp_path)
    there = {path.name for path in tmp_path.glob(f"models--*/snapshots/{COMMIT}/*")}
    server.asked.clear()
    assert_whole(hub.fetch(MODEL), files)
    asked = {name for verb, name, _ in server.asked if verb == "GET"}
    assert NAME in asked and not asked & there


def test_a_hub_that_never_answers_is_not_waited_for(server, files, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.5)
    server.silent = ["/api/"]
    with pytest.raises(ModelUnavailable, match="fell silent.*HF_HUB_ETAG_TIMEOUT=60"):
        hub.fetch(MODEL)
    server.silent = []
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 10)
    folder = hub.fetch(MODEL)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.5)
    server.silent = ["/"]
    assert hub.fetch(MODEL) == folder


def test_a_slow_download_is_waited_for_while_bytes_arrive(server, files, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    server.faults[NAME] = [slow(parts=12, pause=0.15)]
    assert_whole(hub.fetch(MODEL), files)


def test_a_file_that_is_not_what_the_hub_says_is_refused_and_fetched_anew(
    server, files, tmp_path
):
    server.faults[NAME] = [other(lambda content: content[:-1] + b"!")]
    stated = sha256(files[NAME])
    said = f"{NAME} has the checksum .*, not {stated[:12]}.*deleted: fetch it again"
    with pytest.raises(NotStored, match=said):
        hub.fetch(MODEL)
    assert_only_whole_blobs(tmp_path)
    assert_whole(hub.fetch(MODEL), files)
    assert server.downloads(NAME) == [None, None]


CHANGED = {  # of as many bytes, so that no size tells
    "config.json": (b'"llama"', b'"lluma"'),  # no family: refused, were it believed
    "tokenizer.json": (b'"a"', b'"A"'),
    "chat_template.jinja": (b"messages", b"MESSAGES"),
}
GIT_TAGS = '"{}"', 'W/"{}"', "{}"


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("tag", GIT_TAGS)
def test_a_small_file_that_is_not_what_the_hub_says_is_fetched_anew(
    server, files, tmp_path, name, tag
):
    server.etag = lambda content: tag.format(git_sha1(content))
    assert files[name] != (changed := files[name].replace(*CHANGED[name]))
    server.faults[name] = [other(lambda _: changed)]
    stated = git_sha1(files[name])
    said = f"{name} has the checksum .*, not {stated[:12]}.*deleted: fetch it again"
    with pytest.raises(NotStored, match=said):
        hub.fetch(MODEL)
    assert_only_whole_blobs(tmp_path)
    assert_whole(hub.fetch(MODEL), files)
    assert server.downloads(name) == [None, None]


OWN_TAGS = {  # of a proxy in between, which has other names for the same files
    "plain SHA-1": lambda content: f'"{hashlib.sha1(content).hexdigest()}"',
    "MD5": lambda content: f'"{hashlib.md5(content).hexdigest()}"',
    "SHA-256": lambda content: f'"{sha256(content)}"',
    "no hash": lambda content: f'W/"{len(content):040x}"',
    "git's id of the pointer": lambda content: f'"{"d" * 40}"',
}


@pytest.mark.parametrize("tag", OWN_TAGS)
def test_a_tag_that_is_not_the_hubs_id_is_no_checksum(server, files, tag):
    server.files = {name: files[name] for name in ("config.json", NAME)}
    server.etag, server.links = OWN_TAGS[tag], False
    if "pointer" in tag:  # a name for each file of the cache
        server.files.pop("config.json")
    assert_whole(hub.fetch(MODEL), server.files)


def test_ids_of_a_hub_that_are_not_gits_are_no_checksum(server, files, monkeypatch):
    monkeypatch.setattr(
        hub_server, "git_sha1", lambda content: hashlib.md5(content).hexdigest()
    )
    assert_whole(hub.fetch(MODEL), files)


def test_a_file_of_a_fetch_that_failed_is_checked_by_the_next(
    server, files, monkeypatch
):
    shards = {"a.safetensors": files[NAME], "b.safetensors": files[NAME][::-1]}
    server.files = shards
    server.faults = {
        "a.safetensors": [other(lambda content: content[:-1] + b"!")],
        "b.safetensors": [cut(0)] * 6,
    }
    with pytest.raises(ModelUnavailable, match="hung up"):
        hub.fetch(MODEL)
    with pytest.raises(NotStored, match="a.safetensors has the checksum"):
        hub.fetch(MODEL)
    assert_whole(hub.fetch(MODEL), shards)


@pytest.mark.parametrize(
    "how, damaged", [("_sha256", NAME), ("_git_id", "config.json")]
)
def test_a_file_is_read_for_its_checksum_once(how, damaged, server, files, monkeypatch):
    """A large one for the SHA-256, a small one for git's id."""
    read, sums = [], getattr(hub_checksums, how)
    monkeypatch.setattr(
        hub_checksums, how, lambda path: read.append(path.name) or sums(path)
    )
    expected = {sha256(files[NAME])}
    if how == "_git_id":
        expected = {git_sha1(files[name]) for name in files.keys() - {NAME, *NEVER}}
    for _ in range(2):
        folder = hub.fetch(MODEL)
        assert sorted(read) == sorted(expected)
    blob = (folder / damaged).resolve()
    blob.write_bytes(b"written over")
    with pytest.raises(NotStored, match=f"{damaged} has the checksum"):
        hub.fetch(MODEL)
    assert_whole(hub.fetch(MODEL), files)


def test_a_file_that_is_shorter_than_stated_is_refused(server, files, tmp_path):
    server.faults[NAME] = [other(lambda content: content[:-1])]
    with pytest.raises(
        NotStored, match="did not arrive whole.*Fetch it again"
    ) as caught:
        hub.fetch(MODEL)
    assert "force_download" not in str(caught.value), "fetch has no such argument"
    assert_only_whole_blobs(tmp_path)
    assert_whole(hub.fetch(MODEL), files)


def test_without_room_no_half_file_stays_and_the_next_fetch_goes_on(
    server, files, tmp_path
):
    with disk_of(len(files[NAME]) // 2):
        with pytest.raises(NotStored, match="disk is full.*HF_HOME.*fetch it again"):
            hub.fetch(MODEL)
    assert_only_whole_blobs(tmp_path)
    left = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert left < len(files[NAME]) // 2, "the half that was written is gone"
    assert_whole(hub.fetch(MODEL), files)


def test_what_is_in_the_cache_needs_no_network(server, files, monkeypatch):
    folder = hub.fetch(MODEL)
    server.asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch(MODEL) == folder and not server.asked
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    server.refused["/"] = 500, {}, b""
    assert hub.fetch(MODEL) == folder
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert hub.fetch(MODEL) == folder
    assert_whole(folder, files)


SHARDS = {f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}


@pytest.mark.parametrize(
    "gone", ["config.json", "tokenizer.json", NAME, *sorted(SHARDS), INDEX]
)
def test_a_part_of_a_model_is_not_taken_for_it_without_a_network(
    server, files, monkeypatch, gone
):
    """As an older client takes it, which gives any folder that a fetch has made."""
    if gone not in files:
        index = {"weight_map": {f"{name}.weight": name for name in SHARDS}}
        rest = {name: file for name, file in files.items() if name != NAME}
        shards = dict.fromkeys(SHARDS, files[NAME])
        server.files = rest | shards | {INDEX: json.dumps(index).encode()}
    folder = hub.fetch(MODEL)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: folder)
    assert hub.fetch(MODEL) == folder
    (folder / gone).unlink()
    with pytest.raises(ModelUnavailable, match="not complete on this machine.*unset"):
        hub.fetch(MODEL)


def test_adapters_without_a_network_are_whole_with_their_weights(server, monkeypatch):
    server.files = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"1"}
    folder = hub.fetch(MODEL)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: folder)
    assert hub.fetch(MODEL) == folder
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="not complete on this machine"):
        hub.fetch(MODEL)


def test_of_a_model_with_experts_only_the_config_is_fetched(server, files):
    """26B-A4B has 50 GB of weights that this decoder cannot use."""
    text = {"num_hidden_layers": 30, "enable_moe_block": True, "num_experts": 128}
    text |= {"top_k_experts": 8, "moe_intermediate_size": 704}
    config = {"model_type": "gemma4", "text_config": text}
    server.files = files | {"config.json": json.dumps(config).encode()}
    with pytest.raises(UnsupportedModel, match="26B-A4B"):
        hub.fetch(MODEL)
    assert server.downloads("config.json") and not server.downloads(NAME)
