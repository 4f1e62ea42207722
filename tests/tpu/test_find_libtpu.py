"""Where the TPU's compiler is looked for."""

import sys
from importlib import metadata, util

import pytest

from helpers.tpu import find_libtpu


def test_the_compiler_is_the_one_that_jax_names():
    name, _, version = find_libtpu.requirement().partition("==")
    assert name == "libtpu" and version[0].isdigit()
    assert any(
        x.startswith(find_libtpu.requirement()) for x in metadata.requires("jax")
    )
    assert "*" not in find_libtpu.folder().name


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No libtpu in the environment, and an empty place for one."""
    found = util.find_spec
    seen = [path for path in sys.path if "libtpu" not in path]
    monkeypatch.setattr(sys, "path", seen)
    monkeypatch.setattr(find_libtpu, "ROOT", tmp_path)
    if found("libtpu") is not None:
        pytest.skip("libtpu is installed in this environment, as on a TPU")


def test_without_a_compiler_the_answer_is_no_and_nothing_is_put_on_the_path(nowhere):
    before = list(sys.path)
    assert not find_libtpu.find_compiler()
    assert sys.path == before


def test_a_compiler_installed_aside_can_be_imported(nowhere):
    (find_libtpu.folder() / "libtpu").mkdir(parents=True)
    (find_libtpu.folder() / "libtpu" / "__init__.py").write_text("")
    assert find_libtpu.find_compiler() and find_libtpu.find_compiler()
    assert sys.path.count(str(find_libtpu.folder())) == 1
