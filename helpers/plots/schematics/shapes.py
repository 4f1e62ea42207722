"""Rectangles, lines of text and paths, how they look, and how wide a text is.

Every picture is 360 units wide and as tall as it gets, so that a phone of 375 pixels
shows it 343 wide and its smallest text 11.4 pixels high. Texts are measured in DejaVu
Sans, the widest of the fonts a browser may take; one that does not fit is an error.

Colours say who: blue the model that is trained, grey what is only read or frozen, green
what is judged, orange another party. Words say it too.
"""

import functools
from typing import NamedTuple

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

WIDTH, MARGIN = 360, 12
SMALL, NORMAL, TITLE = 12.5, 13.5, 15  # sizes of text
LEADING = 1.25  # height of a line over the size of its text
PADDING = 6  # between the edge of a box and its text
INK, GREY, WHITE = "#1A1A1A", "#595959", "#FFFFFF"
HEAD = 7  # length of an arrow's head


class Style(NamedTuple):
    """How a box looks: its inside, its edge, and whether the edge is dashed."""

    fill: str
    edge: str
    dashed: bool = False


SAID = Style("#D6E8F5", "#0072B2")
HEARD = Style("#EBEBEB", "#595959")
JUDGED = Style("#D5EFE6", "#00795A")
OTHER = Style("#FBE2D2", "#C25400")
PLAIN = Style(WHITE, INK)
EMPTY = Style(WHITE, "#767676", dashed=True)


class DoesNotFit(ValueError):
    """A text is larger than its box, or leaves the picture."""


class Frame(NamedTuple):
    """A rectangle, drawn or not: its corner, its size, its style."""

    x: float
    y: float
    w: float
    h: float
    style: Style | None = None

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h

    @property
    def cx(self) -> float:
        return self.x + self.w / 2

    @property
    def cy(self) -> float:
        return self.y + self.h / 2


class Text(NamedTuple):
    """One line of text; y is its baseline, anchor is start, middle or end."""

    x: float
    y: float
    text: str
    size: float
    bold: bool
    mono: bool
    anchor: str
    colour: str


class Path(NamedTuple):
    """A line through points; filled where it is an arrow's head."""

    points: tuple
    colour: str
    dashed: bool = False
    filled: bool = False


@functools.cache
def text_width(text: str, size: float, bold: bool = False, mono: bool = False) -> float:
    """How wide a line of text is, in units."""
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    font = FontProperties(family=family, weight="bold" if bold else "normal", size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def wrapped(text: str, most: float, size: float, bold=False, mono=False) -> list[str]:
    """The lines of a text when none may be wider than `most`; "\\n" ends a line.

    There are as few lines as possible, and they are of about the same width.

    Raises:
      DoesNotFit: a single word is wider.
    """
    font = (size, bold, mono)
    lines = []
    for paragraph in text.split("\n"):
        words = paragraph.split(" ")
        widest = max(text_width(word, *font) for word in words)
        if widest > most:
            raise DoesNotFit(
                f"A word of {paragraph!r} is {widest:.0f} wide, there is room for "
                f"{most:.0f}: shorten it or widen its box."
            )
        fewest = len(_filled(words, most, font))
        narrow = most
        while narrow - 4 > widest and len(_filled(words, narrow - 4, font)) == fewest:
            narrow -= 4
        lines += _filled(words, narrow, font)
    return lines


def _filled(words, most, font):
    """Lines that take as many words as fit."""
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} {word}"
        if text_width(longer, *font) > most:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def lowest(shape) -> float:
    """The y of the lowest point of a shape."""
    if isinstance(shape, Frame):
        return shape.bottom
    if isinstance(shape, Text):
        return shape.y + 0.25 * shape.size
    return max(y for _, y in shape.points)
