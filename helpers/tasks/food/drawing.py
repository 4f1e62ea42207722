"""A pen for small pictures, and what stands around the food: tables, dishes, cutlery.

A frame's own coordinates run from about -1 to 1, x to the right, y down. Points are
(x, y). Inside they are complex numbers, so that turning and scaling is one product.
Tables and dishes are drawn in the frame of the whole picture.
"""

import cmath
import math

CREAM, YOLK, RED = (250, 244, 226), (248, 186, 40), (206, 48, 40)
GREEN, LEAF, BROWN = (88, 150, 58), (140, 196, 76), (98, 58, 34)
PINK, LILAC, BLUE = (242, 150, 178), (186, 150, 220), (128, 186, 232)
MINT, LEMON, COCOA = (160, 220, 186), (246, 222, 110), (112, 66, 42)
SWEETS = (PINK, LILAC, BLUE, MINT, LEMON, COCOA, CREAM, RED)
TOPPINGS = (RED, GREEN, BROWN, CREAM, YOLK, (60, 50, 56))

ROUND = tuple(cmath.rect(1, 2 * math.pi * i / 22) for i in range(22))


def colour(rng, *choices, spread=14):
    """One of several (r, g, b) colours, a little off, so that none is ever the same."""
    return jitter(rng, rng.choice(choices), spread)


def jitter(rng, rgb, spread=14):
    """A colour near `rgb`: each channel up to `spread` away."""
    return tuple(min(255, max(0, c + rng.randint(-spread, spread))) for c in rgb)


def shade(rgb, light):
    """The same colour darker (light below 1) or lighter (above 1)."""
    return tuple(min(255, int(c * light)) for c in rgb)


def mix(one, other, share):
    """A colour between two: `share` 0 gives the first, 1 the other."""
    return tuple(int(a + (b - a) * share) for a, b in zip(one, other, strict=True))


def baked(rng):
    """A colour from pale dough to dark crust."""
    return jitter(rng, mix((240, 206, 140), (146, 86, 42), rng.random()), 10)


def specks(pen, rng, count, radius, size, choices):
    """Round specks of the pen at random places in the disc of a radius."""
    for _ in range(count):
        speck = pen.at(0, 0, angle=rng.uniform(0, 360))
        speck.disc(radius * rng.random() ** 0.5, 0, size, colour(rng, *choices))


class Pen:
    """Draws filled shapes into an image, in a frame of its own.

    Args:
      draw: a PIL `ImageDraw` of an RGB image.
      centre: where the frame's (0, 0) is, in pixels, a complex number.
      turn: complex factor from the frame to pixels: its size scales, its angle turns.
    """

    def __init__(self, draw, centre, turn):
        self._draw, self._centre, self._turn = draw, centre, turn

    def at(self, x, y, size=1.0, angle=0.0):
        """A pen whose frame is centred at (x, y); `angle` in degrees, clockwise."""
        centre = self._centre + complex(x, y) * self._turn
        turn = self._turn * cmath.rect(size, math.radians(angle))
        return Pen(self._draw, centre, turn)

    def polygon(self, points, rgb):
        """A filled polygon of (x, y) points."""
        self._fill([complex(x, y) for x, y in points], rgb)

    def box(self, x, y, width, height, rgb):
        """A filled rectangle around (x, y)."""
        w, h = width / 2, height / 2
        corners = ((x - w, y - h), (x + w, y - h), (x + w, y + h), (x - w, y + h))
        self.polygon(corners, rgb)

    def oval(self, x, y, width, height, rgb):
        """A filled ellipse around (x, y)."""
        w, h = width / 2, height / 2
        self._fill([complex(x + w * p.real, y + h * p.imag) for p in ROUND], rgb)

    def disc(self, x, y, radius, rgb):
        """A filled circle around (x, y)."""
        middle = self._centre + complex(x, y) * self._turn
        r = radius * abs(self._turn)
        corners = (middle.real - r, middle.imag - r, middle.real + r, middle.imag + r)
        self._draw.ellipse(corners, fill=rgb)

    def sector(self, radius, start, end, rgb, hole=0.0):
        """A piece of a disc around (0, 0), from `start` to `end` degrees, clockwise.

        Args:
          hole: radius of what is left out in the middle: a ring for 0 to 360 degrees.
        """
        steps = max(2, round(abs(end - start) / 14))
        angles = [start + (end - start) * i / steps for i in range(steps + 1)]
        outer = [cmath.rect(radius, math.radians(angle)) for angle in angles]
        inner = [p * hole / radius for p in reversed(outer)] if hole else [0j]
        self._fill(outer + inner, rgb)

    def line(self, points, width, rgb):
        """A line through (x, y) points with round ends, `width` in the frame's unit."""
        to = [self._centre + complex(x, y) * self._turn for x, y in points]
        thick = max(1, round(width * abs(self._turn)))
        flat = [c for p in to for c in (p.real, p.imag)]
        self._draw.line(flat, fill=rgb, width=thick, joint="curve")
        if thick > 3:
            for p in (to[0], to[-1]):
                r = thick / 2 - 0.5
                self._draw.ellipse(
                    (p.real - r, p.imag - r, p.real + r, p.imag + r), fill=rgb
                )

    def _fill(self, points, rgb):
        to = [self._centre + p * self._turn for p in points]
        self._draw.polygon([c for p in to for c in (p.real, p.imag)], fill=rgb)


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
