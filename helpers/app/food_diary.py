"""The diary on the page of the food app: today's meals, their sum, and the week."""

import datetime

from helpers.app import food_chat, meal_log, meal_view
from helpers.plots import plotting
from helpers.tools.nutrition import NUTRIENTS


class Diary:
    """Shows a log, and lets each meal be corrected or deleted.

    Args:
      gradio: the package.
      log: a `meal_log.MealLog`.
      changed: a gradio.State, a count that goes up with every change of the log.
    """

    def __init__(self, gradio, log, changed):
        self.gr, self.log, self.changed = gradio, log, changed

    def show(self, _):
        """Today's meals, each to be corrected or deleted, their sum, and the week."""
        gr, today = self.gr, datetime.date.today()
        week = [today - datetime.timedelta(days) for days in reversed(range(7))]
        try:
            meals = self.log.day()
            energy = {str(day): self.log.totals(str(day))["kcal"] for day in week}
        except meal_log.MealLogError as error:
            gr.HTML(food_chat.alert(error))
            return
        with gr.Row():
            with gr.Column(scale=3, min_width=320):
                gr.HTML(f"<h2>Today</h2>{_totals(meals)}")
                told = gr.HTML()
                for meal in meals:
                    self._logged(meal, told)
            with gr.Column(scale=2, min_width=320):
                shown = plotting.image(*meal_view.week(energy))
                gr.HTML("<h2>The week</h2>" + (shown if any(energy.values()) else ""))

    def _logged(self, meal, told):
        gr, food = self.gr, meal_view.words(meal.portion["food"])
        with gr.Row(elem_classes="logged"):
            label = f"{meal.time[11:16]} {food}, grams ({meal.model})"
            grams = gr.Number(
                meal.portion["grams"],
                label=label,
                key=f"grams {meal.id}",
                interactive=True,
                scale=3,
            )
            delete = gr.Button(f"Delete {food}", size="sm", scale=1, min_width=120)

        def change(changed, do, *values):
            try:
                do(meal.id, *values)
            except (ValueError, KeyError, meal_log.MealLogError) as error:
                return gr.skip(), food_chat.alert(error.args[0])
            return changed + 1, ""

        def correct(changed, grams):
            if grams == meal.portion["grams"]:
                return gr.skip(), ""
            return change(changed, self.log.edit, grams)

        after = [self.changed, told]
        gr.on([grams.submit, grams.blur], correct, [self.changed, grams], after)
        delete.click(lambda n: change(n, self.log.delete), self.changed, after)


def _totals(meals):
    if not meals:
        return "<p>Nothing is logged yet.</p>"
    sums = meal_log.total([meal.portion for meal in meals])
    parts = [f"{name} {meal_view.amount(name, sums[name])}" for name in NUTRIENTS[1:]]
    return (
        f"<p><b>{meal_view.amount('kcal', sums['kcal'])}</b> in all: "
        f"{', '.join(parts)}.</p>"
    )
