"""The imitation of Colab: its pins, its Python, and the set-up cell run there.

The imitation itself is made by `make colab-check`: it needs Colab's Python and the
package index.
"""

import tomllib

import pytest
from course_notebooks import ROOT
from packaging.requirements import Requirement

from tests.colab import colab_check

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COLAB = PROJECT["tool"]["course"]["colab"]
# Colab's TPU runtime as it was seen; written out once more, so that none gets lost.
SEEN = {"jax", "jaxlib", "flax", "numpy", "ipykernel", "ipython", "ipywidgets"}


def test_the_imitation_has_the_pins_of_pyproject_and_the_course_admits_them():
    listed = {r.name: r.specifier for r in map(Requirement, requirements())}
    pinned = {name: str(spec) for name, spec in listed.items() if str(spec)}
    assert pinned == {name: f"=={COLAB[name]}" for name in SEEN}
    assert set(COLAB) == {*SEEN, "python"}
    for ours in map(Requirement, PROJECT["project"]["dependencies"]):
        if ours.name in pinned:
            assert COLAB[ours.name] in ours.specifier, str(ours)


def requirements():
    """Of Colab; Kaggle's are the same."""
    assert colab_check.requirements("kaggle") == colab_check.requirements("colab")
    return colab_check.requirements("colab")


@pytest.mark.parametrize("now", [{"jax": "0.8.0"}, {}])
def test_a_replaced_or_lost_pin_is_found_and_other_packages_may_change(now):
    before = {"jax": "0.7.2", "matplotlib": "3.10.0"}
    pins = ["jax==0.7.2", "matplotlib"]
    colab_check.replaced(before, before | {"matplotlib": "3.11.0"}, pins)
    with pytest.raises(colab_check.Failed, match=r"replaced: jax 0\.7\.2\."):
        colab_check.replaced(before, now, pins)
