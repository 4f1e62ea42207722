"""Where the TPU's compiler is looked for."""

import sys
from importlib import metadata, util

import pytest

from helpers import compiler


def test_the_compiler_is_the_one_that_jax_names():
    name, _, version = compiler.requirement().partition("==")
    assert name == "libtpu" and version[0].isdigit()
    assert any(x.startswith(compiler.requirement()) for x in metadata.requires("jax"))
    assert "*" not in compiler.folder().name


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No libtpu in the environment, and an empty place for one."""
    found = util.find_spec
    seen = [path for path in sys.path if "libtpu" not in path]
    monkeypatch.setattr(sys, "path", seen)
    monkeypatch.setattr(compiler, "ROOT", tmp_path)
    if found("libtpu") is not None:
        pytest.skip("libtpu is installed in this environment, as on a TPU")


def test_without_a_compiler_the_answer_is_no_and_nothing_is_put_on_the_path(nowhere):
    before = list(sys.path)
    assert not compiler.find_compiler()
    assert sys.path == before


def test_a_compiler_installed_aside_can_be_imported(nowhere):
    (compiler.folder() / "libtpu").mkdir(parents=True)
    (compiler.folder() / "libtpu" / "__init__.py").write_text("")
    assert compiler.find_compiler() and compiler.find_compiler()
    assert sys.path.count(str(compiler.folder())) == 1
