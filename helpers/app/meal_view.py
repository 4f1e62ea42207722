"""What the food-logging assistant shows: pictures, events, tables and plots, as HTML.

All of it is text that a model, a server or a file has had a hand in, so all is escaped.
"""

import base64
import datetime
import html
import io

from PIL import Image

from helpers import runtime
from helpers.app import meal_log
from helpers.plots import plotting
from helpers.tools.nutrition import DIGITS, NUTRIENTS

LONGEST_SHOWN = 2_000  # characters of one event
APP_PICTURE = runtime.ROOT / "docs" / "app.png"  # `python -m scripts.app_picture`
APP_WIDTH = 390  # CSS pixels
MACROS = {"carbohydrate": 4, "fat": 9, "protein": 4}  # kcal per gram (Atwater)


def words(food):
    """The name of a food as people write it: "apple_pie" is "apple pie"."""
    return food.replace("_", " ")


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
    encoded = base64.b64encode(data).decode()
    return (
        f'<img alt="{html.escape(alt, quote=True)}" width="{APP_WIDTH}" '
        'style="max-width:100%;background:white" '
        f'src="data:image/png;base64,{encoded}">',
        alt,
    )


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


def shortened(text):
    """A text as it is, or cut where it is longer than a page wants."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"


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


def call_text(call):
    """A call as one writes it in Python; "" for None."""
    if call is None:
        return ""
    given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({given})"


def result_text(result):
    """What a tool gave, or its error, on one line."""
    if not result or "error" in result:
        return f"an error: {(result or {}).get('error', 'nothing')}"
    return ", ".join(f"{name} {value}" for name, value in result.items())


def amount(name, value):
    """A nutrient with as many digits as the tool gives, and its unit."""
    digits = DIGITS.get(name, 1)
    return f"{value:.{digits or 0}f} {'kcal' if name == 'kcal' else 'g'}"


def table_html(portions, caption):
    """Nutrients of portions, one column each, and of all together if they are several.

    Args:
      portions: dicts with "food", "grams" and NUTRIENTS.
      caption: of the table.
    """
    columns = [
        (f"{words(portion['food'])}, {portion['grams']:g} g", portion)
        for portion in portions
    ]
    if len(portions) > 1:
        columns.append(("together", meal_log.total(portions)))
    head = "".join(f"<th scope='col'>{html.escape(title)}</th>" for title, _ in columns)
    rows = "".join(
        f"<tr><th scope='row'>{name}</th>"
        + "".join(f"<td>{amount(name, column[name])}</td>" for _, column in columns)
        + "</tr>"
        for name in NUTRIENTS
    )
    return (
        "<div style='overflow-x:auto'><table class='food-table'>"
        f"<caption>{html.escape(caption)}</caption><tr><td></td>{head}</tr>{rows}"
        "</table></div>"
    )


def macros(portions):
    """Where the energy of a meal comes from.

    Args:
      portions: dicts with "food", "grams" and NUTRIENTS.
    Returns:
      (figure, what it shows in words): grams and share of energy of carbohydrate, fat
      and protein.
    """
    sums = meal_log.total(portions)
    energy = {name: sums[name] * per_gram for name, per_gram in MACROS.items()}
    whole = sum(energy.values()) or 1.0
    most = max(energy, key=lambda name: energy[name])
    title = f"{most.capitalize()} gives the most energy: {energy[most] / whole:.0%}"
    fig, axes = plotting.figure(title, x="energy, kcal", y="", width=5.4, height=2.4)
    axes.grid(axis="y", visible=False)
    for i, (name, kcal) in enumerate(energy.items()):
        axes.barh(i, kcal, height=0.62, color=plotting.COLOURS[i], alpha=0.85)
        label = f" {sums[name]:.0f} g, {kcal / whole:.0%}"
        axes.text(kcal, i, label, va="center", fontsize=10)
    axes.set_xlim(0, 1.35 * max(energy.values()) or 1.0)
    axes.set_yticks(range(len(energy)), list(energy), fontsize=10)
    axes.invert_yaxis()
    parts = ", ".join(
        f"{name} {sums[name]:.0f} g ({kcal / whole:.0%} of the energy)"
        for name, kcal in energy.items()
    )
    return fig, f"Bars of the energy in this meal: {parts}."


def week(kcal):
    """The energy of some days beside each other.

    Args:
      kcal: {date, "2026-11-21": kcal}, in order.
    Returns:
      (figure, what it shows in words).
    """
    days = [datetime.date.fromisoformat(date).strftime("%a %d") for date in kcal]
    eaten = [value for value in kcal.values() if value]
    mean = f"{sum(eaten) / len(eaten):.0f} kcal a day" if eaten else "nothing yet"
    title = f"This week: {mean}" + (" on days with meals" if eaten else "")
    fig, axes = plotting.figure(title, x="", y="kcal", width=5.4, height=2.6)
    axes.bar(days, list(kcal.values()), color=plotting.GREEN, width=0.62)
    for i, value in enumerate(kcal.values()):
        if value:
            axes.text(i, value, f"{value:.0f}", ha="center", va="bottom", fontsize=9)
    axes.set_ylim(0, 1.2 * max(kcal.values(), default=0) or 1.0)
    told = ", ".join(f"{d} {v:.0f}" for d, v in zip(days, kcal.values(), strict=True))
    return fig, f"Bars of kcal a day: {told}."


def _img(data, alt, style):
    encoded = base64.b64encode(data).decode()
    return (
        f'<img alt="{html.escape(alt, quote=True)}" style="max-width:100%;'
        f'background:white;{style}" src="data:image/png;base64,{encoded}">'
    )
