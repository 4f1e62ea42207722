"""Seven sweet foods of Food-101, each drawn by one function `(pen, rng)`.

As in `foods_savoury`: a drawing fills about the unit disc, its colours tell little.
"""

from helpers.tasks.food.drawing import (
    COCOA,
    CREAM,
    GREEN,
    LEMON,
    PINK,
    RED,
    ROUND,
    SWEETS,
    baked,
    colour,
    mix,
    shade,
    specks,
)


def donuts(pen, rng):
    """A ring with icing and sprinkles."""
    dough, icing = baked(rng), colour(rng, *SWEETS)
    hole = rng.uniform(0.28, 0.38)
    pen.sector(1.0, 0, 360, shade(dough, 0.85), hole=hole)
    pen.sector(0.96, 0, 360, dough, hole=hole + 0.02)
    pen.sector(0.88, 0, 360, icing, hole=hole + 0.08)
    pen.at(0, 0, angle=20).sector(0.8, 180, 290, shade(icing, 1.12), hole=0.72)
    for _ in range(rng.choice((0, 10, 14, 18))):
        sprinkle = pen.at(0, 0, angle=rng.uniform(0, 360))
        here = sprinkle.at(rng.uniform(0.5, 0.78), 0, angle=rng.uniform(0, 180))
        here.line(((-0.07, 0), (0.07, 0)), 0.07, colour(rng, *SWEETS, GREEN))


def ice_cream(pen, rng):
    """One to three scoops in a cone."""
    cone = baked(rng)
    pen.polygon(((-0.46, 0.0), (0.46, 0.0), (0, 1.05)), cone)
    for x in (-0.28, 0, 0.28):
        dark = shade(cone, 0.66)
        pen.line(((x, 0.05), (x * 0.2 + 0.12, 0.72)), 0.04, dark)
        pen.line(((x, 0.05), (x * 0.2 - 0.12, 0.72)), 0.04, dark)
    scoops = rng.choice((1, 2, 3))
    places = {
        1: ((0, -0.3, 0.55),),
        2: ((-0.28, -0.2, 0.42), (0.28, -0.26, 0.42)),
        3: ((-0.32, -0.16, 0.38), (0.32, -0.16, 0.38), (0, -0.62, 0.4)),
    }[scoops]
    for x, y, radius in places:
        taste = colour(rng, *SWEETS)
        pen.disc(x, y, radius, shade(taste, 0.86))
        pen.disc(x - 0.03, y - 0.03, radius * 0.9, taste)
        pen.disc(x - 0.12, y - 0.14, radius * 0.3, shade(taste, 1.15))
    pen.oval(0, 0.03, 1.0, 0.16, shade(cone, 0.85))


def waffles(pen, rng):
    """A square with a grid of dents, and something on top."""
    dough = baked(rng)
    edge, dent = shade(dough, 0.72), shade(dough, 0.58)
    pen.box(0, 0, 1.72, 1.72, edge)
    pen.box(0, 0, 1.62, 1.62, dough)
    for i in range(16):
        pen.box(-0.6 + 0.4 * (i % 4), -0.6 + 0.4 * (i // 4), 0.25, 0.25, dent)
    top = rng.choice(("butter", "berries", "none"))
    if top == "butter":
        pen.at(0.1, -0.1, angle=20).box(0, 0, 0.42, 0.36, colour(rng, LEMON, CREAM))
    if top == "berries":
        specks(pen, rng, 5, 0.6, 0.14, (RED, (70, 70, 140), PINK))


def pancakes(pen, rng):
    """A stack, seen from the side and a little from above."""
    dough = baked(rng)
    count = rng.choice((3, 4, 5))
    for i in range(count):
        y = 0.62 - 0.24 * i
        x = rng.uniform(-0.06, 0.06)
        pen.oval(x, y + 0.1, 1.9, 0.62, shade(dough, 0.6))
        pen.oval(x, y, 1.9, 0.62, dough)
    top = 0.62 - 0.24 * (count - 1)
    pen.oval(0, top, 1.66, 0.46, shade(dough, 0.84))
    syrup = colour(rng, COCOA, RED, (190, 110, 30), CREAM)
    pen.oval(0.05, top, 1.1, 0.3, syrup)
    for x, length in ((-0.35, 0.3), (0.15, 0.5), (0.5, 0.25)):
        pen.line(((x, top + 0.05), (x, top + 0.1 + length)), 0.16, syrup)
    pen.at(0, top - 0.1, angle=8).box(0, 0, 0.42, 0.26, colour(rng, LEMON, CREAM))


def cup_cakes(pen, rng):
    """A cake in a pleated paper cup, a swirl on top."""
    paper, icing = colour(rng, *SWEETS), colour(rng, *SWEETS)
    pen.polygon(((-0.74, 0.1), (0.74, 0.1), (0.5, 1.0), (-0.5, 1.0)), paper)
    for i in range(5):
        x = -0.56 + 0.28 * i
        pen.line(((x, 0.16), (x * 0.7, 0.96)), 0.08, shade(paper, 0.68))
    for i, width in enumerate((1.76, 1.4, 0.98, 0.52)):
        y = 0.08 - 0.28 * i
        pen.oval(0, y + 0.06, width, 0.46, shade(icing, 0.78))
        pen.oval(0, y - 0.02, width * 0.95, 0.38, icing)
    if rng.random() < 0.6:
        pen.disc(0, -0.92, 0.17, colour(rng, RED, (150, 30, 50)))
    else:
        specks(pen.at(0, -0.1), rng, 7, 0.55, 0.06, SWEETS)


def macarons(pen, rng):
    """A pile of two or three: two smooth shells each, cream with a ruffle between."""
    count = rng.choice((2, 3))
    height = 2.0 / count
    for i in range(count):
        shell = colour(rng, *SWEETS)
        one = pen.at(rng.uniform(-0.1, 0.1), 1 - height * (i + 0.5), size=height / 1.5)
        width = 1.1 if count == 3 else 0.92
        for side, light in ((180, 1.0), (0, 0.88)):
            for x in range(-4, 5):
                y = -0.14 if side else 0.14
                one.disc(x * 0.24 * width, y, 0.11, shade(shell, 0.74))
            y = -0.24 if side else 0.24
            points = _dome(width, 0.5 if side else -0.5)
            one.at(0, y).polygon(points, shade(shell, light))
        one.box(0, 0, 1.9 * width, 0.17, colour(rng, CREAM, COCOA, PINK, LEMON))


def _dome(width, height):
    """Half an oval on the line y = 0, with its top at -height."""
    half = [p for p in ROUND if p.imag <= 0.01]
    half = sorted(half, key=lambda p: p.real)
    return [(width * p.real, height * p.imag) for p in half]


def chocolate_cake(pen, rng):
    """A wedge: its top, and the layers of its cut side."""
    cake = mix((66, 36, 24), (146, 88, 52), rng.random())
    cream = colour(rng, COCOA, CREAM, RED, (60, 34, 24), spread=10)
    icing = colour(rng, (74, 40, 26), (110, 66, 42), (44, 26, 20), spread=8)
    pen.polygon(((-1, 0.1), (0.9, -0.1), (0.9, 0.6), (-1, 0.8)), cake)
    for y in (0.24, 0.5):
        pen.line(((-0.97, 0.1 + y), (0.87, -0.1 + y)), 0.09, cream)
    pen.polygon(((-1, 0.1), (0.5, -0.75), (0.9, -0.1)), icing)
    pen.polygon(((0.5, -0.75), (0.9, -0.1), (0.9, 0.6), (0.72, 0.1)), shade(icing, 0.8))
    pen.line(((-0.97, 0.13), (0.88, -0.08)), 0.12, shade(icing, 0.85))
    for x, y in ((0.42, -0.5), (0.62, -0.22)):
        pen.disc(x, y, 0.14, colour(rng, RED, CREAM, COCOA, PINK))


DRAWINGS = {
    "donuts": donuts,
    "ice_cream": ice_cream,
    "waffles": waffles,
    "pancakes": pancakes,
    "cup_cakes": cup_cakes,
    "macarons": macarons,
    "chocolate_cake": chocolate_cake,
}
