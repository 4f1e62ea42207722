"""The parts of the food-logging assistant: picture, model, meal and day, as widgets.

Only what ipywidgets 7.7 (Colab) and 8 share is used. Every control has a visible label
that belongs to it, and they come in the order in which one needs them, which is also
the order of the Tab key.
"""

import ipywidgets

from helpers.app import meal_log, meal_view
from helpers.app.openai_server import OpenAIServer
from helpers.tasks.food import photos
from helpers.tools.nutrition import MOST_GRAMS, TOOL

LARGEST_FILE = 8_000_000  # bytes; a notebook's connection breaks above 10 MiB
LONGEST_LABEL = {"description_width": "initial"}
UPLOADED = "my upload"
SERVER = "a teacher: a larger model on a server"


def wide():
    """A layout as wide as the screen allows, and no wider than text is read well."""
    return ipywidgets.Layout(width="auto", max_width="40em")


def row(*children):
    """Children side by side, wrapping where the screen is narrow."""
    layout = ipywidgets.Layout(flex_flow="row wrap", max_width="100%")
    return ipywidgets.HBox(children, layout=layout)


def thumb():
    """The layout of a button: with room for a thumb."""
    return ipywidgets.Layout(
        width="auto", height="44px", min_width="9em", align_self="flex-start"
    )


def button(text):
    """A button with this text."""
    return ipywidgets.Button(description=text, layout=thumb())


def grams_box(text, value):
    """A field for grams, which tells its changes when the number is entered."""
    return ipywidgets.BoundedFloatText(
        value, min=0.1, max=MOST_GRAMS, description=text, style=LONGEST_LABEL
    )


class PicturePanel:
    """Upload a photo or pick an example; `picture` is uint8 (H, W, 3).

    Args:
      examples: {name: picture}.
    """

    def __init__(self, examples):
        self.pictures = dict(examples)
        self.pick = ipywidgets.Dropdown(
            options=list(self.pictures),
            description="Picture",
            style=LONGEST_LABEL,
            layout=wide(),
        )
        self.upload = ipywidgets.FileUpload(
            accept="image/*",
            multiple=False,
            description="Upload a photo",
            layout=thumb(),
        )
        limit = ipywidgets.HTML(
            f"<p>JPEG or PNG, up to {LARGEST_FILE // 10**6} MB.</p>"
        )
        self.shown, self.said = ipywidgets.HTML(), ipywidgets.HTML()
        self.pick.observe(self._show, "value")
        self.upload.observe(self._take, "value")
        self._show()
        self.box = ipywidgets.VBox(
            [self.pick, self.upload, limit, self.said, self.shown]
        )

    @property
    def picture(self):
        return self.pictures[self.pick.value]

    def _show(self, _=None):
        self.shown.value = meal_view.picture_html(
            self.picture, f"The picture that is asked about: {self.pick.value}"
        )

    def _take(self, change):
        if not change["new"]:
            return
        try:
            picture = photos.decode(_content(change["new"]), where="The photo")
        except photos.PhotoError as error:
            self.said.value = meal_view.failure_html(str(error))
            return
        self.said.value = ""
        self.pictures[UPLOADED] = picture
        self.pick.options = list(self.pictures)
        self.pick.value = UPLOADED
        self._show()  # also where an upload was shown before


def _content(value):
    """The bytes of the file that was uploaded last.

    ipywidgets 7 gives {name: {"content": bytes}}, ipywidgets 8 a tuple of dicts.
    """
    files = list(value.values() if isinstance(value, dict) else value)
    content = files[-1]["content"]
    if len(content) > LARGEST_FILE:
        raise photos.PhotoError(
            f"The photo has {len(content) / 1e6:.1f} MB, more than "
            f"{LARGEST_FILE / 1e6:.0f}. Send a smaller copy of it."
        )
    return bytes(content)


class ModelPanel:
    """Choose who is asked; `backend` is made when it is asked for.

    Args:
      backends: {name: function without arguments that gives a backend}; a server can
        be chosen besides.
    """

    def __init__(self, backends):
        self.backends, self.made = dict(backends), {}
        self.pick = ipywidgets.Dropdown(
            options=[*self.backends, SERVER],
            description="Model",
            style=LONGEST_LABEL,
            layout=wide(),
        )
        fields = {"style": LONGEST_LABEL, "layout": wide()}
        self.address = ipywidgets.Text(
            "http://localhost:8000/v1", description="Address", **fields
        )
        self.model = ipywidgets.Text(description="Its name of the model", **fields)
        self.key = ipywidgets.Password(description="Key, if it wants one", **fields)
        self.server = ipywidgets.VBox([self.address, self.model, self.key])
        self.pick.observe(self._show, "value")
        self._show()
        self.box = ipywidgets.VBox([self.pick, self.server])

    @property
    def backend(self):
        """Raises BackendError where the model cannot be had."""
        name = self.pick.value
        if name == SERVER:
            key = self.key.value or None
            return OpenAIServer(
                self.address.value, self.model.value, key=key, tools=[TOOL]
            )
        if name not in self.made:
            self.made[name] = self.backends[name]()
        return self.made[name]

    def _show(self, _=None):
        self.server.layout.display = "" if self.pick.value == SERVER else "none"


class MealPanel:
    """What was found, with grams to correct, and a button that logs it.

    Args:
      log: a `meal_log.MealLog`.
      logged: called without arguments when the meal has been logged.
    """

    def __init__(self, log, logged):
        self.log, self.logged, self.found, self.model = log, logged, [], ""
        self.table, self.plot, self.said = (ipywidgets.HTML() for _ in range(3))
        self.grams = ipywidgets.VBox()
        self.save = button("Log this meal")
        self.save.on_click(self._save)
        self.box = ipywidgets.VBox([])

    def show(self, found, model):
        """Show these portions, which `model` looked up; [] hides the panel."""
        self.found, self.model, self.said.value = found, model, ""
        fields = [
            grams_box(f"Grams of {meal_view.words(portion['food'])}", portion["grams"])
            for portion in found
        ]
        self.grams.children = fields
        for field in fields:
            field.observe(self._draw, "value")
        self.save.disabled = not found
        parts = [self.table, self.plot, self.grams, self.save, self.said]
        self.box.children = parts if found else []
        if found:
            self._draw()

    @property
    def portions(self):
        """What was found, in the grams that are entered."""
        return [
            meal_log.scaled(portion, field.value)
            for portion, field in zip(self.found, self.grams.children, strict=True)
        ]

    def _draw(self, _=None):
        portions = self.portions
        self.table.value = meal_view.table_html(portions, "Nutrition of this meal")
        self.plot.value = meal_view.macros_html(portions)

    def _save(self, _):
        if self.save.disabled:  # the second click of a double one
            return
        self.save.disabled = True
        try:
            grams = [portion["grams"] for portion in self.portions]
            self.log.add_all(zip(self.found, grams, strict=True), self.model)
        except meal_log.MealLogError as error:
            self.save.disabled = False
            self.said.value = meal_view.failure_html(str(error))
            return
        self.said.value = "<p role='status'>Logged.</p>"
        self.logged()


class DayPanel:
    """The meals of today with their sum; each can be corrected or deleted.

    Args:
      log: a `meal_log.MealLog`.
    """

    def __init__(self, log):
        self.log = log
        self.table, self.said = ipywidgets.HTML(), ipywidgets.HTML()
        self.pick = ipywidgets.Dropdown(
            description="Meal", style=LONGEST_LABEL, layout=wide()
        )
        self.grams = grams_box("Its grams", 100)
        self.correct, self.delete = button("Correct grams"), button("Delete meal")
        self.pick.observe(self._fill, "value")
        self.correct.on_click(
            lambda _: self._change(self.log.edit, self.pick.value, self.grams.value)
        )
        self.delete.on_click(lambda _: self._change(self.log.delete, self.pick.value))
        self.controls = ipywidgets.VBox(
            [self.pick, self.grams, row(self.correct, self.delete)]
        )
        self.box = ipywidgets.VBox([self.table, self.controls, self.said])
        self.show()

    def show(self, chosen=None):
        """Read the log again; chosen is the meal with this id, else the newest."""
        date = meal_log.today()
        try:
            logged = self.log.day(date)
        except meal_log.MealLogError as error:
            self.said.value = meal_view.failure_html(str(error))
            return
        self.weights = {meal.id: meal.portion["grams"] for meal in logged}
        self.table.value = meal_view.day_html(logged, date)
        newest = max(self.weights, default=None)
        self.pick.options = [(_label(meal), meal.id) for meal in logged]
        self.pick.value = chosen if chosen in self.weights else newest
        self.controls.layout.display = "" if logged else "none"
        self._fill()

    def _fill(self, _=None):
        self.grams.value = self.weights.get(self.pick.value, self.grams.value)

    def _change(self, change, *values):
        self.said.value = ""
        try:
            change(*values)
        except (meal_log.MealLogError, KeyError) as error:
            self.said.value = meal_view.failure_html(error.args[0])
        self.show(self.pick.value)


def _label(meal):
    food, grams = meal_view.words(meal.portion["food"]), meal.portion["grams"]
    return f"{meal.time[11:16]} {food}, {grams:g} g"
