"""What the food app shows of calls and meals: words, a table, two plots.

What stands here is text, and who puts it into HTML escapes it.
"""

import datetime

from helpers.app import meal_log
from helpers.plots import plotting
from helpers.tools.nutrition import DIGITS, NUTRIENTS

LONGEST_SHOWN = 2_000  # characters of one event
MACROS = {"carbohydrate": 4, "fat": 9, "protein": 4}  # kcal per gram (Atwater)


def words(food):
    """The name of a food as people write it: "apple_pie" is "apple pie"."""
    return food.replace("_", " ")


def shortened(text):
    """A text as it is, or cut where it is longer than a page wants."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + " …"


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


def table(columns):
    """A table of nutrients, in Markdown.

    Args:
      columns: list of (title, {nutrient: amount}).
    """
    titles, amounts = zip(*columns, strict=True)
    rows = [
        [name, *(_amount(name, each[name]) for each in amounts)] for name in NUTRIENTS
    ]
    lines = [["nutrient", *titles], ["---"] * (1 + len(titles)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _amount(name, value):
    """A nutrient with as many digits as the tool gives, and its unit."""
    return f"{value:.{DIGITS.get(name, 1) or 0}f} {'kcal' if name == 'kcal' else 'g'}"


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
    labels = [f"{sums[name]:.0f} g, {energy[name] / whole:.0%}" for name in MACROS]
    told = "; ".join(map(" ".join, zip(MACROS, labels, strict=True)))
    figure = plotting.standing_bars(energy, labels, title=title, ylabel="energy, kcal")
    return figure, f"Bars of the energy in this meal: {told} of the energy."


def week(kcal):
    """The energy of some days beside each other.

    Args:
      kcal: {date, "2026-11-21": kcal}, in order.
    Returns:
      (figure, what it shows in words).
    """
    days = [datetime.date.fromisoformat(date).strftime("%a %d") for date in kcal]
    energy = dict(zip(days, kcal.values(), strict=True))
    eaten = [value for value in kcal.values() if value]
    mean = sum(eaten) / max(len(eaten), 1)
    title = f"This week: {mean:.0f} kcal a day on days with meals"
    labels = [f"{value:.0f}" if value else "" for value in kcal.values()]
    told = ", ".join(f"{day} {value:.0f}" for day, value in energy.items())
    figure = plotting.standing_bars(energy, labels, title=title, ylabel="kcal")
    return figure, f"Bars of kcal a day: {told}."
