"""The food-logging assistant: look at a picture, ask a model, log what it found.

`app` puts the panels together; `course_models` gives the models of this course.
"""

import functools

import ipywidgets

from helpers.app import food_panels, local_model, meal_view
from helpers.app.assistant import BackendError, converse, portions
from helpers.app.meal_log import MealLog
from helpers.tasks.food import food_pictures, food_questions
from helpers.tools import nutrition

GRAMS = 150
STUDENTS = {  # name: stage of the course
    "the student, after rewards (GRPO)": "food_grpo",
    "the student, before them (SFT)": "food_sft",
}
# Black on white, whatever the theme; blue and white of the buttons differ by 5.2 to 1.
STYLE = """<style>
.food-app {color:#000;background:#fff;padding:8px;overflow-x:hidden}
.food-app label, .food-app .widget-label, .food-app td, .food-app th, .food-app p,
.food-app caption, .food-app div {color:#000}
.food-app input, .food-app select {min-height:36px;color:#000;background-color:#fff;
  border:1px solid #595959!important;max-width:100%}
.food-app .widget-inline-hbox {height:auto;flex-wrap:wrap;max-width:100%}
.food-app .widget-inline-hbox > input, .food-app .widget-inline-hbox > select
  {min-width:9em}
.food-app .widget-html-content {line-height:1.4}
.food-app button {background:#0072B2;color:#fff;font-size:1rem;margin:4px 4px 4px 0}
.food-app button:disabled {background:#595959;color:#fff;opacity:1!important}
.food-app button:focus-visible, .food-app input:focus-visible,
.food-app select:focus-visible {outline:3px solid #D55E00!important;outline-offset:2px}
.food-event {border-left:4px solid #595959;margin:4px 0;padding:2px 8px;
  overflow-wrap:anywhere;white-space:pre-wrap}
.food-call, .food-result {border-color:#0072B2;background:#EEF5FA}
.food-answer {border-color:#009E73}
.food-error {border-color:#D55E00;background:#FDF1EA}
.food-table {border-collapse:collapse}
.food-table caption {text-align:left;font-weight:bold;padding:4px 0}
.food-table td, .food-table th {padding:2px 10px 2px 0;text-align:left;
  background:#fff;border-bottom:1px solid #ccc}
</style>"""


def app(backends, *, log=None, examples=None):
    """The assistant as one widget.

    Args:
      backends: {name: function without arguments that gives a backend of
        `helpers.app.assistant`}.
      log: a `meals.MealLog`; None: that of the build folder.
      examples: {name: picture, uint8 (H, W, 3)}; None: drawn ones.
    Returns:
      An ipywidgets box.
    """
    return _Assistant(backends, log or MealLog(), examples or drawn_examples()).box


def course_models():
    """The models of the food lessons, for `app`; each is loaded when first asked."""
    return {
        name: functools.partial(local_model.load, stage, name)
        for name, stage in STUDENTS.items()
    }


def example_rows(count=8):
    """Test rows of `food_pictures`: of one food or none first, then of two."""
    rows = food_pictures.generate(
        count, seed=14, split="test", levels=(1, 1, 2), no_food=0.15
    )
    rows.sort(key=lambda row: row["level"])  # the question that stands there is of one
    return rows


def drawn_examples(count=8):
    """The pictures of `example_rows`, by name."""
    rows = example_rows(count)
    return {f"example {i + 1}": row["image"] for i, row in enumerate(rows)}


class _Assistant:
    def __init__(self, backends, log, examples):
        self.day = food_panels.DayPanel(log)
        self.picture = food_panels.PicturePanel(examples)
        self.model = food_panels.ModelPanel(backends)
        self.meal = food_panels.MealPanel(log, self.day.show)
        self.question = ipywidgets.Text(
            food_questions.ONE_FOOD[0].format(GRAMS),
            description="Question",
            style=food_panels.LONGEST_LABEL,
            layout=food_panels.wide(),
        )
        self.ask = food_panels.button("Ask")
        self.ask.on_click(self._ask)
        self.events = ipywidgets.HTML()
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(STYLE + "<h2>What is on the plate?</h2>"),
                self.picture.box,
                self.question,
                self.model.box,
                self.ask,
                self.events,
                self.meal.box,
                ipywidgets.HTML("<h2>Today</h2>"),
                self.day.box,
            ],
            layout=ipywidgets.Layout(width="100%", max_width="44em"),
        )
        self.box.add_class("food-app")

    def _ask(self, _):
        self.ask.disabled = True
        self.meal.show([], "")
        self.events.value = "<p role='status'>The model is looking …</p>"
        try:
            self._converse()
        finally:  # whatever went wrong, one can ask again
            self.ask.disabled = False

    def _converse(self):
        try:
            backend = self.model.backend
        except BackendError as error:
            self.events.value = meal_view.failure_html(str(error))
        else:
            happened = []
            question = self.question.value.strip()
            shown, tools = self.picture.picture, [nutrition.TOOL]
            for event in converse(backend, question, shown, tools):
                happened.append(event)
                self.events.value = "".join(map(meal_view.event_html, happened))
            self.meal.show(portions(happened), backend.name)
