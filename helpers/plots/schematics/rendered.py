"""A schematic as SVG, as PNG, and as the element that a notebook shows.

The card is white in dark mode too. Colours that follow the reader's theme would need a
style sheet, which GitHub, Colab and Kaggle take out, and which follows the system's
theme where a notebook has one of its own; all figures of the course are white cards.

GitHub takes inline SVG out of a notebook's outputs and does not show every SVG image
either. A notebook therefore gets `<picture>`: the SVG where it is supported, and inside
an ordinary `<img>` with a PNG and the alt text, which is what remains elsewhere.
"""

import base64
import html
import io
import re

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon
from PIL import Image

from helpers.plots.schematics.shapes import WIDTH, Frame, Text

SHOWN = 468  # pixels wide, where there is room
FONTS = {
    False: "Helvetica, Arial, 'DejaVu Sans', sans-serif",
    True: "Menlo, Consolas, 'DejaVu Sans Mono', monospace",
}
DASH = (4, 3)
CORNER = 4
SHARPNESS = 2  # pixels of the PNG to a unit
SHADES = 48  # colours of the PNG, so that it stays small


def element(picture) -> str:
    """HTML for a notebook's output: SVG, else PNG, with the alt text."""
    drawn, pixels = (
        base64.b64encode(data).decode()
        for data in (svg(picture).encode(), png(picture))
    )
    alt = html.escape(picture.alt, quote=True)
    return (
        f'<picture><source type="image/svg+xml" '
        f'srcset="data:image/svg+xml;base64,{drawn}">'
        f'<img alt="{alt}" width="{SHOWN}" style="max-width:100%;background:white" '
        f'src="data:image/png;base64,{pixels}"></picture>'
    )


def svg(picture) -> str:
    """The drawing with real text, which stands alone in a file or inline in a page.

    It has attributes only, no style sheet and no script; `<title>` and `<desc>` are its
    alternative text.
    """
    name = re.sub(r"\W+", "-", picture.title.lower()).strip("-")
    size = f'width="{SHOWN}" height="{SHOWN * picture.height / WIDTH:.0f}"'
    box = f"0 0 {WIDTH} {picture.height:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="{box}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" '
        'style="max-width:100%;height:auto">'
        f'<title id="{name}-title">{html.escape(picture.title)}</title>'
        f'<desc id="{name}-desc">{html.escape(picture.words)}</desc>'
        f'<rect width="{WIDTH}" height="{picture.height:g}" fill="#FFFFFF"/>'
        f"{''.join(map(_tag, picture.shapes))}</svg>"
    )


def _tag(shape):
    if isinstance(shape, Frame):
        dash = ' stroke-dasharray="4 3"' if shape.style.dashed else ""
        return (
            f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.w:g}" '
            f'height="{shape.h:g}" rx="{_corner(shape):g}" fill="{shape.style.fill}" '
            f'stroke="{shape.style.edge}"{dash}/>'
        )
    if isinstance(shape, Text):
        bold = ' font-weight="bold"' if shape.bold else ""
        return (
            f'<text x="{shape.x:g}" y="{shape.y:g}" font-size="{shape.size:g}" '
            f'text-anchor="{shape.anchor}" fill="{shape.colour}" '
            f'font-family="{FONTS[shape.mono]}"{bold}>{html.escape(shape.text)}</text>'
        )
    points = " ".join(f"{x:g},{y:g}" for x, y in shape.points)
    if shape.filled:
        return f'<polygon points="{points}" fill="{shape.colour}"/>'
    dash = ' stroke-dasharray="4 3"' if shape.dashed else ""
    return (
        f'<polyline points="{points}" fill="none" stroke="{shape.colour}" '
        f'stroke-width="1.5" stroke-linejoin="round"{dash}/>'
    )


def _corner(frame):
    return min(CORNER, frame.w / 4, frame.h / 4)


def png(picture) -> bytes:
    """The same shapes as a PNG file, opaque, twice as fine as a screen of old."""
    fig = Figure(figsize=(WIDTH / 72, picture.height / 72), facecolor="white")
    axes = fig.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(picture.height, 0))
    axes.set_axis_off()
    for layer, shape in enumerate(picture.shapes):
        _draw(axes, shape, layer)
    raw, file = io.BytesIO(), io.BytesIO()
    fig.savefig(raw, format="png", dpi=72 * SHARPNESS)
    image = Image.open(raw).convert("RGB").quantize(SHADES)
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _draw(axes, shape, layer):
    dashes = (0, DASH) if getattr(shape, "dashed", False) else "-"
    if isinstance(shape, Frame):
        dashes = (0, DASH) if shape.style.dashed else "-"
        corners = f"round,pad=0,rounding_size={_corner(shape)}"
        axes.add_patch(
            FancyBboxPatch(
                (shape.x, shape.y),
                shape.w,
                shape.h,
                boxstyle=corners,
                facecolor=shape.style.fill,
                edgecolor=shape.style.edge,
                linestyle=dashes,
                linewidth=1,
                zorder=layer,
            )
        )
    elif isinstance(shape, Text):
        axes.text(
            shape.x,
            shape.y,
            shape.text,
            size=shape.size,
            weight="bold" if shape.bold else "normal",
            family="DejaVu Sans Mono" if shape.mono else "DejaVu Sans",
            ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
            va="baseline",
            color=shape.colour,
            parse_math=False,
            zorder=layer,
        )
    elif shape.filled:
        axes.add_patch(Polygon(shape.points, color=shape.colour, lw=0, zorder=layer))
    else:
        axes.plot(
            *zip(*shape.points, strict=True),
            color=shape.colour,
            linestyle=dashes,
            linewidth=1.5,
            zorder=layer,
        )
