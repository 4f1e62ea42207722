"""Pictures, events and meals of the assistant as HTML, tables and plots.

Much of it is text that a model, a server or a file has had a hand in, so everything
that becomes HTML is escaped.
"""

import base64
import html
import io

from PIL import Image

from helpers import runtime
from helpers.app import meal_log
from helpers.plots import plotting
from helpers.tools.nutrition import DIGITS, NUTRIENTS

APP_PICTURE = runtime.ROOT / "docs" / "app.png"  # `python -m scripts.app_picture`
APP_WIDTH = 390  # CSS pixels
LONGEST_SHOWN = 2_000  # characters of one event
MACROS = {"carbohydrate": 4, "fat": 9, "protein": 4}  # kcal per gram (Atwater)


def png_url(picture, side):
    """A picture, uint8 (H, W, 3), as the URL of a PNG of at most `side` pixels."""
    image, file = Image.fromarray(picture), io.BytesIO()
    image.thumbnail((side, side))
    image.save(file, "PNG")
    return _url(file.getvalue())


def picture_html(picture, alt, *, width=240):
    """A picture, uint8 (H, W, 3), as wide as the screen allows, `width` at most."""
    drawn = "image-rendering:pixelated" if picture.shape[1] < 100 else ""
    return _img(png_url(picture, 2 * width), alt, f"width:{width}px;{drawn}")


def app_picture():
    """The picture of the app that comes with the course: (HTML, what it shows)."""
    data = APP_PICTURE.read_bytes()
    alt = Image.open(io.BytesIO(data)).info["Description"]
    return _img(_url(data), alt, f"width:{APP_WIDTH}px"), alt


def event_html(event):
    """One event of a conversation, as a line with a word on who did what."""
    who, text = {
        "text": ("The model says", event.text),
        "call": ("The model calls", call_text(event.call)),
        "result": ("The tool gives", result_text(event.result)),
        "answer": ("The model answers", event.text),
        "error": ("This failed", event.text),
    }[event.kind]
    role = "alert" if event.kind == "error" else "status"
    return (
        f"<div class='food-event food-{event.kind}' role='{role}'>"
        f"<b>{who}</b> <span>{html.escape(shortened(text))}</span></div>"
    )


def _url(png):
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _img(url, alt, style):
    style = f"max-width:100%;background:white;{style}"
    return f'<img alt="{html.escape(alt, quote=True)}" style="{style}" src="{url}">'


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


def macros(portions):
    """Where the energy of a meal comes from: (figure, what it shows in words).

    Args:
      portions: dicts with "food", "grams" and NUTRIENTS.
    """
    sums = meal_log.total(portions)
    energy = {name: sums[name] * per_gram for name, per_gram in MACROS.items()}
    whole = sum(energy.values()) or 1.0
    most = max(energy, key=lambda name: energy[name])
    title = f"{most.capitalize()} gives the most energy: {energy[most] / whole:.0%}"
    labels = [f"{sums[name]:.0f} g, {energy[name] / whole:.0%}" for name in MACROS]
    shares = "; ".join(map(" ".join, zip(MACROS, labels, strict=True)))
    figure = plotting.standing_bars(energy, labels, title=title, ylabel="energy, kcal")
    return figure, f"Bars of the energy in this meal: {shares} of the energy."
