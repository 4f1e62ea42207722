"""What the course's schematics are made of: boxes, tokens, labels, arrows, brackets."""

from helpers.plots.schematics import rendered
from helpers.plots.schematics.shapes import (
    GREY,
    HEAD,
    INK,
    LEADING,
    MARGIN,
    NORMAL,
    PADDING,
    PLAIN,
    SAID,
    SMALL,
    TITLE,
    WIDTH,
    DoesNotFit,
    Frame,
    Path,
    Style,
    Text,
    lowest,
    text_width,
    wrapped,
)


class Picture:
    """A schematic while it is drawn; what notebooks show once it is.

    Args:
      title: a sentence, drawn on top.
      alt: the picture in words; every label stands in it.
    """

    def __init__(self, title: str, alt: str):
        self.title, self.words = title, alt
        self.shapes: list[Frame | Text | Path] = []
        heading = self.label(
            MARGIN, MARGIN, title, WIDTH - 2 * MARGIN, size=TITLE, bold=True
        )
        self.top = heading.bottom + 10  # where drawing starts

    @property
    def alt(self) -> str:
        """Title and words, for readers who cannot see the picture."""
        return f"{self.title}. {self.words}"

    @property
    def height(self) -> float:
        """From the top to a margin below the lowest shape."""
        return max(lowest(shape) for shape in self.shapes) + MARGIN

    def _repr_html_(self) -> str:
        return rendered.element(self)

    def label(
        self,
        x: float,
        y: float,
        text: str,
        w: float | None = None,
        *,
        size: float = SMALL,
        bold: bool = False,
        mono: bool = False,
        anchor: str = "start",
        colour: str = INK,
    ) -> Frame:
        """Text without a box, wrapped to `w`; gives the rectangle that it takes.

        Args:
          x: its left end, middle or right end, as `anchor` says.
          y: its top.
        Raises:
          DoesNotFit: it leaves the picture, or a word is wider than `w`.
        """
        most = WIDTH - 2 * MARGIN if w is None else w
        lines = wrapped(text, most, size, bold, mono)
        widest = max(text_width(line, size, bold, mono) for line in lines)
        left = x - widest * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        if left < MARGIN / 2 or left + widest > WIDTH - MARGIN / 2:
            raise DoesNotFit(f"{text!r} leaves the picture: {left:.0f} to its right.")
        for i, line in enumerate(lines):
            baseline = y + (i + 0.85) * size * LEADING
            self.shapes.append(
                Text(x, baseline, line, size, bold, mono, anchor, colour)
            )
        return Frame(left, y, widest, len(lines) * size * LEADING)

    def box(
        self,
        x: float,
        y: float,
        w: float,
        head: str = "",
        text: str = "",
        style: Style = PLAIN,
        *,
        h: float | None = None,
        room: float = 0,
        pad: float = PADDING,
        mono: bool = False,
    ) -> Frame:
        """A box with a bold heading and text below it, both wrapped and centred.

        Args:
          h: its height; as high as its text needs unless given.
          room: height kept free below the text, for what is drawn inside.
          pad: kept free left and right of the text.
        Raises:
          DoesNotFit: the text is higher than `h`, or a word wider than the box.
        """
        parts = [(head, NORMAL, True, False), (text, SMALL, False, mono)]
        lines = [
            (line, size, bold, kind)
            for words, size, bold, kind in parts
            if words
            for line in wrapped(words, w - 2 * pad, size, bold, kind)
        ]
        needed = sum(size * LEADING for _, size, _, _ in lines)
        h = needed + 2 * PADDING + room if h is None else h
        if needed + room > h - 2:
            raise DoesNotFit(f"{head or text!r} is {needed:.0f} high, its box {h:.0f}.")
        frame = Frame(x, y, w, h, style)
        self.shapes.append(frame)
        top = y + (h - room - needed) / 2
        for line, size, bold, kind in lines:
            self.label(
                frame.cx, top, line, size=size, bold=bold, mono=kind, anchor="middle"
            )
            top += size * LEADING
        return frame

    def cell(
        self, x: float, y: float, w: float, h: float, text: str, style: Style
    ) -> Frame:
        """A small box of a given size, with at most a word in it."""
        return self.box(x, y, w, "", text, style, h=h, pad=3)

    def tokens(self, x: float, y: float, texts, style: Style = SAID) -> list[Frame]:
        """Tokens in a row, each as wide as its text."""
        frames = []
        for text in texts:
            w = max(text_width(text, SMALL, mono=True) + 9, 20)
            frame = Frame(x, y, w, 22, style)
            self.shapes.append(frame)
            self.label(frame.cx, y + 3.5, text, mono=True, anchor="middle")
            frames.append(frame)
            x = frame.right + 3
        return frames

    def arrow(self, *points, colour: str = INK, dashed: bool = False) -> None:
        """A line through points, with a head at the last one."""
        (x0, y0), (x1, y1) = points[-2:]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        neck = (x1 - HEAD * dx, y1 - HEAD * dy)
        self.line(*points[:-1], neck, colour=colour, dashed=dashed)
        side = HEAD * 0.55
        left = (neck[0] - side * dy, neck[1] + side * dx)
        right = (neck[0] + side * dy, neck[1] - side * dx)
        self.shapes.append(Path(((x1, y1), left, right), colour, filled=True))

    def line(self, *points, colour: str = INK, dashed: bool = False) -> None:
        """A line through points."""
        self.shapes.append(Path(tuple(points), colour, dashed))

    def bracket(self, x0: float, x1: float, y: float, text: str) -> Frame:
        """A bracket over x0 to x1, open downwards, its text above; y is its top."""
        words = self.label((x0 + x1) / 2, y, text, anchor="middle")
        high = words.bottom + 3
        self.line((x0, high + 5), (x0, high), (x1, high), (x1, high + 5), colour=GREY)
        return Frame(x0, y, x1 - x0, high + 5 - y)
