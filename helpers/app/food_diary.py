"""The diary on the page of the food app: today's meals, their sum, and the week."""

import datetime

from helpers.app import meal_log, meal_view
from helpers.app.food_chat import noted
from helpers.plots import plotting


def show(gradio, log, changed):
    """Today's meals, each to be corrected or deleted, their sum, and the week.

    Args:
      gradio: the package.
      log: a `meal_log.MealLog`.
      changed: a gradio.State, a count that goes up with every change of the log.
    """
    gr, today = gradio, datetime.date.today()
    week = [str(today - datetime.timedelta(days)) for days in reversed(range(7))]
    with noted(gr):
        meals = log.day()
        energy = {day: log.totals(day)["kcal"] for day in week}
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            gr.HTML(f"<h2>Today</h2>{'' if meals else 'Nothing is logged yet.'}")
            for meal in meals:
                _logged(gr, log, changed, meal)
            together = ("in all today", meal_log.total([m.portion for m in meals]))
            sums = meal_view.table([together])
            gr.Markdown(sums, elem_classes="food-table", visible=bool(meals))
        with gr.Column(scale=2, min_width=320, visible=any(energy.values())):
            gr.HTML(f"<h2>The week</h2>{plotting.image(*meal_view.week(energy))}")


def _logged(gr, log, changed, meal):
    food, logged = meal_view.words(meal.portion["food"]), meal.portion["grams"]
    label = f"{meal.time[11:16]} {food}, grams ({meal.model})"
    with gr.Row():  # with a key, a control keeps the focus when the day is shown anew
        grams = gr.Number(logged, label=label, key=meal.id, scale=3, interactive=True)
        delete = gr.Button(f"Delete {food}", size="sm", key=-meal.id, min_width=120)

    def correct(count, grams):
        if grams == logged:
            return count
        with noted(gr):
            log.edit(meal.id, grams)
        return count + 1

    def remove(count):
        with noted(gr):
            log.delete(meal.id)
        return count + 1

    gr.on([grams.submit, grams.blur], correct, [changed, grams], changed)
    delete.click(remove, changed, changed)
