"""The topology explorer: what is chosen is what is shown, whatever the order."""

import re

import pytest

from helpers.plots import widgets
from helpers.tpu import topology


@pytest.fixture
def explorer():
    return widgets.topology_explorer("v5e:2x4").children


def alt(shown):
    return re.match(r'<img alt="([^"]*)"', shown.value).group(1)


def test_it_opens_with_a_picture_and_its_words(explorer):
    *_, shown = explorer
    assert alt(shown).startswith("v5e:2x4: 8 chips, 1 host")
    assert "max-width:100%" in shown.value and "base64,iVBOR" in shown.value
    assert shown.value.count(alt(shown)) == 2, "alt text and caption"


def test_the_controls_choose_slice_and_chip(explorer):
    kind, shape, chip, shown = explorer
    shape.value = "16x16"
    chip.value = 255
    assert "v5e:16x16" in alt(shown) and "From chip 255" in alt(shown)
    shape.value = "2x2"
    assert chip.max == 3 and "From chip 0" in alt(shown)


@pytest.mark.parametrize("before", ["1x1", "4x8", "16x16"])
def test_another_kind_of_chip_offers_its_own_slices(explorer, before):
    kind, shape, _, shown = explorer
    shape.value = before
    kind.value = "v5p"
    assert list(shape.options) == topology.SHAPES["v5p"]
    assert alt(shown).startswith("v5p:2x2x1: 4 chips")
    shape.value = "4x4x4"
    kind.value = "v4"
    assert alt(shown).startswith("v4:4x4x4: 64 chips"), "the shape is kept"
    kind.value = "v6e"
    assert alt(shown).startswith("v6e:1x1: 1 chip,")


def test_an_unknown_start_is_refused():
    with pytest.raises(ValueError, match="No v5e of '3x3'"):
        widgets.topology_explorer("v5e:3x3")
