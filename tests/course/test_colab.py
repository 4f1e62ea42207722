"""The imitation of Colab: its pins, its Python, and the set-up cell run there.

The imitation itself is made by `make colab-check`: it needs Colab's Python and the
package index.
"""

import tomllib

import pytest
from course_notebooks import ROOT
from packaging.requirements import Requirement

from scripts import colab_check

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COLAB = PROJECT["tool"]["course"]["colab"]
# Colab's TPU runtime as it was seen; written out once more, so that none gets lost.
SEEN = {"jax", "jaxlib", "flax", "numpy", "ipykernel", "ipython", "ipywidgets"}


def test_the_imitation_has_the_pins_of_pyproject_and_the_course_admits_them():
    asked = {r.name: r.specifier for r in map(Requirement, requirements())}
    pinned = {name: str(spec) for name, spec in asked.items() if str(spec)}
    assert pinned == {name: f"=={COLAB[name]}" for name in SEEN}
    assert set(COLAB) == {*SEEN, "python"}
    for ours in map(Requirement, PROJECT["project"]["dependencies"]):
        if ours.name in pinned:
            assert COLAB[ours.name] in ours.specifier, str(ours)


def requirements():
    """Of Colab; Kaggle's are the same."""
    assert colab_check.requirements("kaggle") == colab_check.requirements("colab")
    return colab_check.requirements("colab")


@pytest.fixture
def pythons(tmp_path, monkeypatch):
    """Makes Pythons on the PATH or under pyenv that work or do not."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))

    def make(name, works):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\nexit {0 if works else 127}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_the_first_version_is_taken_that_works_also_behind_a_dead_shim(pythons):
    pythons("bin/python3.13", works=False)
    second = pythons("bin/python3.12", works=True)
    assert colab_check.find_python(["3.13", "3.12"]) == second
    first = pythons("pyenv/versions/3.13.0/bin/python3.13", works=True)
    assert colab_check.find_python(["3.13", "3.12"]) == first


@pytest.mark.parametrize("now", [{"jax": "0.8.0"}, {}])
def test_a_replaced_or_lost_pin_is_found_and_other_packages_may_change(now):
    before = {"jax": "0.7.2", "matplotlib": "3.10.0"}
    pins = ["jax==0.7.2", "matplotlib"]
    colab_check.replaced(before, before | {"matplotlib": "3.11.0"}, pins)
    with pytest.raises(colab_check.Failed, match=r"replaced: jax 0\.7\.2\."):
        colab_check.replaced(before, now, pins)


def test_nothing_of_the_learners_shell_reaches_the_imitation(monkeypatch):
    for name in ("COURSE_PRESET", "PYTHONPATH", "JAX_PLATFORMS", "COLAB_RELEASE_TAG"):
        monkeypatch.setenv(name, "mine")
    assert "mine" not in colab_check.clean_environment().values()
