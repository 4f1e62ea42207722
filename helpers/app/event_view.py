"""Pictures and events of a conversation, as HTML: in notebook 14, and for the page.

All of it is text that a model, a server or a file has had a hand in, so all is escaped.
"""

import base64
import html
import io

from PIL import Image

from helpers import runtime
from helpers.app.meal_view import call_text, result_text, shortened

APP_PICTURE = runtime.ROOT / "docs" / "app.png"  # `python -m scripts.app_picture`
APP_WIDTH = 390  # CSS pixels


def picture_html(picture, alt, *, width=240):
    """A picture, uint8 (H, W, 3), as wide as the screen allows, `width` at most."""
    image, file = Image.fromarray(picture), io.BytesIO()
    image.thumbnail((2 * width, 2 * width))
    image.save(file, "PNG")
    drawn = "image-rendering:pixelated" if image.width < 100 else ""
    return _img(file.getvalue(), alt, f"width:{width}px;{drawn}")


def app_picture():
    """The picture of the app that comes with the course.

    Returns:
      (HTML, what it shows in words).
    """
    data = APP_PICTURE.read_bytes()
    alt = Image.open(io.BytesIO(data)).info["Description"]
    return _img(data, alt, f"width:{APP_WIDTH}px"), alt


def event_html(event):
    """One event of a conversation, as a line with a word on who did what."""
    who, text = {
        "said": ("The model says", event.text),
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


def beside_html(picture, alt, told):
    """One picture, and below it what several models do with it, a column each.

    Args:
      picture, alt: see `picture_html`.
      told: {name of a model: its events}.
    """
    heads = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in told)
    cells = "".join(
        f"<td style='vertical-align:top;text-align:left;overflow-wrap:anywhere'>"
        f"{''.join(map(event_html, events))}</td>"
        for events in told.values()
    )
    return (
        f"{picture_html(picture, alt)}<table style='color:black;background:white;"
        "table-layout:fixed;width:100%;max-width:640px;white-space:normal'>"
        f"<tr>{heads}</tr><tr>{cells}</tr></table>"
    )


def _img(data, alt, style):
    encoded = base64.b64encode(data).decode()
    return (
        f'<img alt="{html.escape(alt, quote=True)}" style="max-width:100%;'
        f'background:white;{style}" src="data:image/png;base64,{encoded}">'
    )
