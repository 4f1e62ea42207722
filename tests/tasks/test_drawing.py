"""The pen's shapes cover what geometry says, wherever its frame lies."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from helpers.tasks.food.drawing import Pen

INK = (255, 255, 255)
SIZE = 400


def drawn(draw):
    """Where the ink is after `draw(pen)`; one unit is 100 pixels, (0, 0) the middle."""
    image = Image.new("RGB", (SIZE, SIZE))
    draw(Pen(ImageDraw.Draw(image), complex(SIZE / 2, SIZE / 2), 100))
    return np.asarray(image)[..., 0] > 0


def area(ink):
    return ink.sum() / 100**2


def middle(ink):
    """Mean place of the ink, in units of the frame."""
    y, x = np.nonzero(ink)
    return (x.mean() - SIZE / 2) / 100, (y.mean() - SIZE / 2) / 100


places = st.floats(-0.6, 0.6)
sizes = st.floats(0.4, 1)
angles = st.floats(-180, 180)


@settings(deadline=None, max_examples=40)
@given(places, places, sizes, angles)
def test_shapes_have_the_area_of_their_formula_in_any_frame(x, y, size, angle):
    r, whole = 0.8, 2 * math.pi
    shapes = {  # (area, length of the edge) by the formulas
        (r * r * whole / 2, r * whole): lambda pen: pen.disc(0, 0, 0.8, INK),
        (whole * 0.16, 3.88): lambda pen: pen.oval(0, 0, 1.6, 0.8, INK),
        (1.08, 4.2): lambda pen: pen.box(0, 0, 1.2, 0.9, INK),
        (0.72, 4.1): lambda pen: pen.polygon(((0, 0), (1.2, 0), (0, 1.2)), INK),
        (whole * 0.24, 1.2 * whole): lambda pen: pen.sector(0.8, 0, 360, INK, hole=0.4),
        (r * r * whole / 8, 1.6 + 0.2 * whole): lambda pen: pen.sector(0.8, 0, 90, INK),
    }
    for (wanted, edge), shape in shapes.items():
        ink = drawn(lambda pen, shape=shape: shape(pen.at(x, y, size, angle)))
        pixel = 0.01  # each along the edge, and of four corners, is inked or not
        off = pixel * edge * size + 4 * pixel**2
        assert area(ink) == pytest.approx(wanted * size**2, abs=off)


@settings(deadline=None, max_examples=40)
@given(places, places, sizes, angles)
def test_a_frame_is_moved_scaled_and_turned_clockwise(x, y, size, angle):
    ink = drawn(lambda pen: pen.at(x, y, size, angle).disc(0.7, 0, 0.1, INK))
    radians = math.radians(angle)  # y points down: clockwise to the eye
    wanted = x + 0.7 * size * math.cos(radians), y + 0.7 * size * math.sin(radians)
    assert middle(ink) == pytest.approx(wanted, abs=0.03)
