"""A pen for small pictures: shapes in a frame that can be moved, turned and scaled.

A frame's own coordinates run from about -1 to 1, x to the right, y down. Points are
(x, y); inside, they are complex numbers, so that to turn and scale is one product.
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
