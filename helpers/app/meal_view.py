"""What the food-logging assistant shows: pictures, events, tables and a plot, as HTML.

All of it is text that a model, a server or a file has had a hand in, so all is escaped.
"""

import base64
import html
import io

from PIL import Image

from helpers import runtime
from helpers.app import meal_log
from helpers.app.assistant import Event
from helpers.plots import plotting
from helpers.tools.nutrition import DIGITS, NUTRIENTS

LONGEST_SHOWN = 2_000  # characters of one event
APP_PICTURE = runtime.ROOT / "docs" / "app.png"  # `python -m scripts.app_picture`
APP_WIDTH = 390  # CSS pixels
MACROS = {"carbohydrate": 4, "fat": 9, "protein": 4}  # kcal per gram (Atwater)


def words(food):
    """The name of a food as people write it: "apple_pie" is "apple pie"."""
    return food.replace("_", " ")


def picture_html(picture, alt):
    """A picture, uint8 (H, W, 3), as wide as the screen allows, 240 pixels at most."""
    image, file = Image.fromarray(picture), io.BytesIO()
    image.thumbnail((480, 480))
    image.save(file, "PNG")
    drawn = "image-rendering:pixelated" if image.width < 100 else ""
    return _img(file.getvalue(), alt, f"width:240px;{drawn}")


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
        "call": ("The model calls", _call_text(event.call)),
        "result": ("The tool gives", _result_text(event.result)),
        "answer": ("The model answers", event.text),
        "error": ("This failed", event.text),
    }[event.kind]
    text = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"
    role = "alert" if event.kind == "error" else "status"
    return (
        f"<div class='food-event food-{event.kind}' role='{role}'>"
        f"<b>{who}</b> <span>{html.escape(text)}</span></div>"
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


def failure_html(text):
    """What went wrong, and what to do."""
    return event_html(Event("error", text))


def _call_text(call):
    if call is None:
        return ""
    given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({given})"


def _result_text(result):
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
    return _table(caption, f"<tr><td></td>{head}</tr>{rows}")


def day_html(logged, date):
    """The meals of a day and their sum, as a table."""
    if not logged:
        return f"<p>Nothing is logged on {date} yet.</p>"
    heads = ("time", "food", "grams", "kcal", "by")
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    rows = ""
    for meal in logged:
        portion = meal.portion
        cells = (
            meal.time[11:16],
            words(portion["food"]),
            f"{portion['grams']:g}",
            f"{portion['kcal']:.0f}",
            meal.model,
        )
        rows += "".join(f"<td>{html.escape(cell)}</td>" for cell in cells).join(
            ("<tr>", "</tr>")
        )
    sums = meal_log.total([meal.portion for meal in logged])
    said = ", ".join(f"{name} {amount(name, sums[name])}" for name in NUTRIENTS[1:])
    return (
        _table(f"Meals of {date}", f"<tr>{head}</tr>{rows}")
        + f"<p><b>The day's total: {amount('kcal', sums['kcal'])}</b>, {said}.</p>"
    )


def _table(caption, rows):
    return (
        "<div style='overflow-x:auto'><table class='food-table'>"
        f"<caption>{html.escape(caption)}</caption>{rows}</table></div>"
    )


def macros_html(portions):
    """Where the energy comes from, as a figure with alt text and its words below."""
    fig, alt = macros(portions)
    return _img(plotting.png(fig), alt, "width:520px") + f"<p>{html.escape(alt)}</p>"


def macros(portions):
    """The figure of `macros_html`, and what it shows in words.

    Returns:
      (figure, text): grams and share of energy of carbohydrate, fat and protein.
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


def _img(data, alt, style):
    encoded = base64.b64encode(data).decode()
    return (
        f'<img alt="{html.escape(alt, quote=True)}" style="max-width:100%;'
        f'background:white;{style}" src="data:image/png;base64,{encoded}">'
    )
