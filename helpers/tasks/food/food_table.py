"""What stands around the food: tables, dishes, things beside them, and no food at all.

Everything is drawn in the frame of the whole picture, -1 to 1 in both directions.
"""

from helpers.tasks.food.drawing import (
    BLUE,
    COCOA,
    GREEN,
    LEAF,
    LEMON,
    PINK,
    RED,
    SWEETS,
    colour,
    jitter,
    shade,
)

COLOURS = {
    "white": (240, 238, 232),
    "black": (44, 44, 50),
    "grey": (142, 144, 148),
    "brown": (150, 102, 62),
    "red": (188, 62, 54),
    "blue": (74, 112, 176),
    "green": (96, 148, 96),
    "yellow": (228, 198, 96),
}
PATTERNS = ("plain", "striped", "checked")
DISHES = ("plate", "square plate", "board")
CUTLERY = ("fork", "knife", "spoon")
THINGS = (*CUTLERY, "cup", "napkin", "flower")
STEEL = (196, 200, 206)


def table(pen, rng, pattern, name):
    """The whole background, in a colour of COLOURS."""
    base = jitter(rng, COLOURS[name], 18)
    pen.box(0, 0, 4, 4, base)
    cloth = pen.at(rng.uniform(-0.2, 0.2), 0, angle=rng.uniform(-30, 30))
    other, step = shade(base, rng.choice((0.82, 1.16))), rng.choice((0.3, 0.4, 0.5))
    lines = [step * i for i in range(-int(2 / step), int(2 / step) + 1)]
    if pattern == "striped":
        for x in lines:
            cloth.box(x, 0, step * 0.4, 4, other)
    if pattern == "checked":
        for i, x in enumerate(lines):
            for y in lines[i % 2 :: 2]:
                cloth.box(x, y, step, step, other)


def dish(pen, rng, kind, name):
    """A dish that fills about the unit disc of its pen, and its shadow."""
    base = jitter(rng, COLOURS[name], 14)
    dark = shade(base, 0.72)
    if kind == "plate":
        pen.at(0.03, 0.05).disc(0, 0, 1.0, dark)
        pen.disc(0, 0, 0.99, base)
        pen.disc(0, 0, 0.74, shade(base, 0.9))
        pen.disc(0, 0, 0.71, shade(base, 1.06))
    elif kind == "square plate":
        pen.box(0.03, 0.05, 1.84, 1.84, dark)
        pen.box(0, 0, 1.82, 1.82, base)
        pen.box(0, 0, 1.46, 1.46, shade(base, 0.92))
    else:
        pen.box(0.03, 0.06, 1.9, 1.6, dark)
        pen.box(0, 0, 1.88, 1.56, base)
        for y in (-0.45, 0.0, 0.4):
            pen.line(((-0.9, y), (0.9, y + rng.uniform(-0.06, 0.06))), 0.03, dark)


def things(pen, rng, names):
    """Things beside the dish: cutlery at the sides, others in corners, none on another.

    Args:
      names: at most two of THINGS.
    """
    right = rng.choice((-1, 1))
    for name, side in zip(names, (right, -right), strict=False):
        if name in CUTLERY:
            here = pen.at(side * rng.uniform(0.85, 0.9), rng.uniform(-0.15, 0.15))
            _cutlery(here.at(0, 0, angle=rng.uniform(-7, 7)), rng, name)
        else:
            up = rng.choice((-1, 1))
            here = pen.at(side * rng.uniform(0.72, 0.8), up * rng.uniform(0.7, 0.8))
            {"cup": cup, "napkin": _napkin, "flower": _flower}[name](
                here.at(0, 0, size=rng.uniform(0.24, 0.3)), rng
            )


def cutlery(pen, rng, names):
    """Pieces of cutlery that lie alone in the middle, side by side."""
    for i, name in enumerate(names):
        x = (i - (len(names) - 1) / 2) * 0.5
        _cutlery(pen.at(x, 0, size=1.1, angle=rng.uniform(-8, 8)), rng, name)


def _cutlery(pen, rng, name):
    metal = jitter(rng, shade(STEEL, rng.choice((0.5, 0.8, 1.0, 1.1))), 12)
    dark = shade(metal, 0.55)
    pen.line(((0.025, -0.1), (0.025, 0.6)), 0.1, dark)
    pen.line(((0, -0.1), (0, 0.6)), 0.09, metal)
    if name == "knife":
        pen.polygon(((-0.05, 0.1), (-0.05, -0.6), (0.04, -0.66), (0.1, -0.4)), dark)
        pen.polygon(((-0.05, 0.1), (-0.05, -0.6), (0.02, -0.6), (0.07, -0.4)), metal)
    elif name == "spoon":
        pen.oval(0.015, -0.38, 0.26, 0.42, dark)
        pen.oval(0, -0.38, 0.2, 0.36, metal)
    else:
        pen.box(0, -0.22, 0.27, 0.13, metal)
        for x in (-0.11, 0, 0.11):
            pen.line(((x, -0.2), (x, -0.62)), 0.055, metal)


def cup(pen, rng):
    """A cup with a saucer and a drink, from above."""
    china = colour(rng, *COLOURS.values())
    pen.disc(0, 0, 1.0, shade(china, 0.86))
    pen.disc(0, 0, 0.93, china)
    pen.at(0, 0, angle=rng.uniform(0, 360)).box(0.68, 0, 0.4, 0.2, shade(china, 0.6))
    pen.disc(0, 0, 0.62, shade(china, 0.7))
    pen.disc(0, 0, 0.58, shade(china, 1.1))
    pen.disc(0, 0, 0.48, colour(rng, COCOA, (60, 36, 24), (190, 140, 80)))


def _napkin(pen, rng):
    cloth = colour(rng, *COLOURS.values())
    turned = pen.at(0, 0, angle=rng.uniform(0, 90))
    turned.box(0, 0, 1.7, 1.7, cloth)
    turned.polygon(((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85)), shade(cloth, 0.8))


def _flower(pen, rng):
    petal, turn = colour(rng, *SWEETS, RED), rng.uniform(0, 72)
    pen.at(0, 0, angle=turn + 36).oval(0.8, 0, 0.8, 0.36, colour(rng, GREEN, LEAF))
    for i in range(5):
        pen.at(0, 0, angle=turn + 72 * i).oval(0.52, 0, 0.86, 0.6, petal)
    pen.disc(0, 0, 0.28, colour(rng, LEMON, COCOA))


def flowers(pen, rng):
    """Three flowers in a vase, from the side."""
    vase = colour(rng, *COLOURS.values())
    for x, y in ((-0.5, -0.4), (0.5, -0.36), (0, -0.66)):
        pen.line(((0, 0.3), (x, y)), 0.08, colour(rng, GREEN, LEAF))
        _flower(pen.at(x, y, size=0.36), rng)
    pen.polygon(((-0.26, 0.1), (0.26, 0.1), (0.42, 0.9), (-0.42, 0.9)), vase)
    pen.polygon(((0.1, 0.1), (0.26, 0.1), (0.42, 0.9), (0.2, 0.9)), shade(vase, 0.75))


def book(pen, rng):
    """A closed book with a title."""
    cover = colour(rng, RED, BLUE, GREEN, COCOA, PINK)
    pen.box(0.06, 0.06, 1.3, 1.76, (232, 228, 214))
    pen.box(0, 0, 1.3, 1.76, cover)
    pen.box(-0.55, 0, 0.16, 1.76, shade(cover, 0.7))
    for y, width in ((-0.45, 0.7), (-0.25, 0.5)):
        pen.box(0.1, y, width, 0.1, shade(cover, 1.5))
