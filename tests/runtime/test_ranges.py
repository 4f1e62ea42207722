"""Settings that make no sense are refused by their names, where they are given."""

import math

import pytest

from helpers.runtime.ranges import require, require_count


@pytest.mark.parametrize("value", [-1e-3, math.nan, "1", None])
def test_a_number_outside_its_range_is_refused_by_name(value):
    with pytest.raises(ValueError, match="beta=.*at least 0 and at most 1"):
        require("beta", value, least=0, most=1)
    require("beta", 0, least=0, most=1)
    with pytest.raises(ValueError, match="patience=.*whole number from 1"):
        require_count("patience", value)


@pytest.mark.parametrize("value", [True, False, 0, 1.5])
def test_a_count_is_a_whole_number_from_one(value):
    with pytest.raises(ValueError, match="patience=.*whole number from 1"):
        require_count("patience", value)
