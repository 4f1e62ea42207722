"""Pictures, events and meals of the assistant as HTML and tables.

Much of it is text that a model, a server or a file has had a hand in, so everything
that becomes HTML is escaped.
"""

import html
import io

from PIL import Image

from helpers import runtime
from helpers.plots import markup
from helpers.tools.nutrition import DIGITS, NUTRIENTS

APP_PICTURE = runtime.ROOT / "docs" / "app.png"  # tests/browser/app_picture.py
APP_WIDTH = 390  # CSS pixels
LONGEST_SHOWN = 2_000  # characters of one event


def png(picture, side):
    """A picture, uint8 (H, W, 3), as the bytes of a PNG of at most `side` pixels."""
    image, file = Image.fromarray(picture), io.BytesIO()
    image.thumbnail((side, side))
    image.save(file, "PNG")
    return file.getvalue()


def picture_html(picture, alt, *, width=240):
    """A picture, uint8 (H, W, 3), as wide as the screen allows, `width` at most."""
    style = "max-width:100%;background:white"
    style += ";image-rendering:pixelated" * (picture.shape[1] < 100)
    return markup.image(png(picture, 2 * width), alt, width, style)


def app_picture():
    """The picture of the app that comes with the course: (HTML, what it shows)."""
    data = APP_PICTURE.read_bytes()
    alt = Image.open(io.BytesIO(data)).info["Description"]
    return markup.image(data, alt, APP_WIDTH), alt


def event_html(event):
    """One event of a conversation, as a line with a word on who did what."""
    who, text = {
        "text": ("The model says", event.text),
        "call": ("The model calls", call_text(event.call)),
        "result": ("The tool returns", result_text(event.result)),
        "answer": ("The model answers", event.text),
        "error": ("Error", event.text),
    }[event.kind]
    role = "alert" if event.kind == "error" else "status"
    return (
        f"<div class='food-event food-{event.kind}' role='{role}'>"
        f"<b>{who}</b> <span>{html.escape(shortened(text))}</span></div>"
    )


def words(food):
    """The name of a food as people write it: "apple_pie" is "apple pie"."""
    return food.replace("_", " ")


def shortened(text):
    """A text, cut off where it is longer than a page wants."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"


def call_text(call):
    """A call as Python code; "" for None."""
    if call is None:
        return ""
    given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({given})"


def result_text(result):
    """The result of a tool, or its error, on one line."""
    if result is None or "error" in result:
        return f"an error: {(result or {}).get('error', '')}"
    return ", ".join(f"{name} {value}" for name, value in result.items())


def table(columns):
    """A table of nutrients, in Markdown, of (title, {nutrient: amount})."""
    titles, amounts = zip(*columns, strict=True)
    lines = [["nutrient", *titles], ["---"] * (1 + len(titles))]
    for name in NUTRIENTS:
        digits, unit = DIGITS.get(name, 1) or 0, "kcal" if name == "kcal" else "g"
        lines.append([name, *(f"{each[name]:.{digits}f} {unit}" for each in amounts)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
