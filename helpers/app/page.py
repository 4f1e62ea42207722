"""The food-logging assistant as a page: show a plate, ask a model, log it.

Gradio serves it, and is imported when the page is made: only those who open it need it.
What one person asks is in the state of their session; the diary is everybody's. Text
from models, servers and people is escaped, for HTML and for the templates of Gradio.
"""

import contextlib
import html
import pathlib
import re

import numpy as np

from helpers import runtime
from helpers.app import meal_log, views
from helpers.app.chat import converse, portions
from helpers.app.models import DRAWINGS
from helpers.rewards import food_rewards
from helpers.tasks.food import food_pictures, food_traces, photos
from helpers.tools.nutrition import TOOL

LARGEST_FILE = 16_000_000  # bytes
CSS = pathlib.Path(__file__).with_name("page.css")
QUESTION = food_traces.ONE_FOOD[0].format(150)
MOST_SHOWN = 24  # parts of a chat, before the next
AT_ONCE = 32  # conversations; those of one local model take turns
TITLE = "What is on the plate?"
INTRO = "Ask about a plate, correct the grams, and log the meal."
NO_PICTURE = "Upload or take a photo first, or choose a drawing."
NO_PHOTOS = "This model has never seen a photo."
NOTICE = "{} can only guess here. {} Nothing is logged until you confirm it."
# As `food_rewards` reads an answer, and with what a model may say around it.
NUMBER = re.compile(r"####\s*(\d[\d,]*(?:\.\d+)?)(?: ?kcal)?\.?")


def app(choices, *, log=None):
    """The assistant as a page, to be shown by `launch`.

    Args:
      choices: {name: `models.Choice`}, the first of which is chosen at first.
      log: a `MealLog`, shared by all who open the page; None: that of the build folder.
    Returns:
      A gradio.Blocks.
    """
    drawings = [row["image"] for row in example_rows()]
    return Page(choices, log or meal_log.MealLog(), drawings).blocks


def launch(page, *, share=False, host="127.0.0.1", port=None, wait=False):
    """Serves a page to this machine; on Colab and Kaggle it is shown below the cell.

    Args:
      page: of `app`.
      share: whether anybody with a link may see page and diary, through Gradio's
        servers; Kaggle needs it.
      host, port: to listen at; None: a port that is free.
      wait: whether to go on until it is stopped.
    Returns:
      Its address.
    """
    import gradio

    fonts = ["system-ui", "sans-serif"]  # those of the reader: none is fetched
    look: dict = {"primary_hue": "emerald", "neutral_hue": "stone", "font": fonts}
    _, address, public = page.launch(
        share=share,
        server_name=host,
        server_port=port,
        prevent_thread_lock=not wait,
        theme=gradio.themes.Soft(**look),
        css_paths=CSS,
        max_file_size=LARGEST_FILE,
        footer_links=[],
        height=900,
        quiet=not wait,
        enable_monitoring=False,
        inline=runtime.where() != "laptop",
    )
    return public or address


def example_rows(count=8):
    """Test rows of `food_pictures`: of one food or none first, then of two."""
    rows = food_pictures.generate(
        count, seed=14, split="test", levels=(1, 1, 2), no_food=0.15
    )
    return sorted(rows, key=lambda row: row["level"])


class Page:
    """The page as `blocks`; see `app` for what it takes."""

    def __init__(self, choices, log, examples):
        import gradio as gr

        self.gr = gr
        self.choices, self.log, self.examples = choices, log, examples
        # Photos are stored for an hour.
        with gr.Blocks(
            title=TITLE, analytics_enabled=False, delete_cache=(600, 3600)
        ) as self.blocks:
            gr.HTML(f"<h1>{TITLE}</h1><p>{INTRO}</p>")
            past, meal, changed = gr.State([]), gr.State({}), gr.State(0)
            with gr.Row():
                with gr.Column(scale=2, min_width=320):
                    photo = self._plate()
                    pick = gr.Dropdown([*choices], label="Model")
                    status = gr.HTML()
                    question = gr.Textbox(QUESTION, label="Question", max_length=2000)
                    ask = gr.Button("Ask", variant="primary")
                with gr.Column(scale=3, min_width=320):
                    chat = gr.HTML(chat_html([]), autoscroll=True, max_height=460)
                    gr.render(meal)(lambda shown: self._meal(shown, changed))
            gr.render(changed)(lambda _: self._diary(changed))
            choosing = [self.blocks.load, pick.change]
            at_once = {"trigger_mode": "always_last", "show_progress": "hidden"}
            gr.on(choosing, self.describe, pick, status, **at_once)
            asking, given = [ask.click, question.submit], [past, photo, question, pick]
            limit = {"concurrency_limit": AT_ONCE}
            gr.on(asking, self.ask, given, [chat, past, meal], **limit)

    @contextlib.contextmanager
    def notes(self):
        """What goes wrong for a person to fix becomes a note on the page."""
        try:
            yield
        except (ValueError, KeyError, meal_log.MealLogError) as error:
            note = html.escape(str(error.args[0]))
            raise self.gr.Error(note, print_exception=False) from error

    def _plate(self):
        """The plate, and the drawings to choose from."""
        gr, drawings = self.gr, self.examples
        look: dict = {"format": "png", "buttons": []}
        photo = gr.Image(drawings[0], label="Your plate", elem_id="photo", **look)
        photo.alt_text = "The picture of the plate"  # Gradio 6.0 takes none
        # The file as it is: `photos.decode` checks it, and says what is wrong with it.
        photo.preprocess = lambda payload: payload and payload.path
        upload = gr.UploadButton("Upload or take a photo", file_types=["image"])
        upload.upload(lambda path: path, upload, photo)
        look |= {"allow_preview": False, "elem_id": "drawings"}
        gallery = gr.Gallery(drawings, label="Or choose a drawing", **look)

        def take(event: gr.SelectData):  # type: ignore[name-defined]
            return drawings[event.index]

        gallery.select(take, None, photo)
        return photo

    def describe(self, name):
        """Who answers, where, and what it has seen."""
        choice = self.choices[name]
        return f"<p>{escaped(f'{name}: {choice.runs}. {choice.seen}')}</p>"

    def ask(self, past, path, question, name):
        """The chat, its content, and the meal, as they grow, for one session."""
        with self.notes():
            if not path:
                raise ValueError(NO_PICTURE)
            picture = photos.decode(photos.uploaded(path), where="The picture")
        drawn = any(np.array_equal(picture, drawing) for drawing in self.examples)
        choice = self.choices[name]
        before = [*past[-MOST_SHOWN:], question_html(question, picture, name)]
        guess = "" if drawn or choice.seen != DRAWINGS else NO_PHOTOS
        if guess:
            before.append(alert(NOTICE.format(name, choice.seen)))
        for answer, looked_up in conversation(choice, question, picture):
            parts = [*before, answer]
            meal = {"portions": looked_up, "model": name, "why": guess}
            yield chat_html(parts), parts, meal

    def _meal(self, meal, changed):
        """What was looked up, with grams to correct, and a button that logs it."""
        gr, shown = self.gr, meal.get("portions")
        gr.HTML("<h2>This meal</h2>" + ("" if shown else "<p>No look-up yet.</p>"))
        if not shown:
            return
        table = gr.Markdown(meal_table(shown), elem_classes="food-table")
        with gr.Row():
            names = [f"Grams of {views.words(p['food'])}" for p in shown]
            look: dict = {"interactive": True}
            pairs = zip(shown, names, strict=True)
            fields = [gr.Number(p["grams"], label=n, **look) for p, n in pairs]
        check = f"{meal['why']} I checked the result myself. Log it."
        yes = gr.Checkbox(label=check, visible=bool(meal["why"]), interactive=True)
        save = gr.Button("Log this meal", variant="primary")

        def correct(*grams):
            with self.notes():
                return meal_table(list(map(meal_log.scaled, shown, grams)))

        def log(count, agreed, *grams):
            with self.notes():
                self.log_meal(meal, agreed, grams)
            return count + 1, gr.update(value="Logged", interactive=False)

        left = [event for field in fields for event in (field.submit, field.blur)]
        gr.on(left, correct, fields, table, show_progress="hidden")
        save.click(log, [changed, yes, *fields], [changed, save])

    def log_meal(self, meal, agreed, grams):
        """Logs the portions in these grams; ValueError if it is not confirmed."""
        if meal["why"] and not agreed:
            raise ValueError(f"Not logged. {meal['why']} Tick the box to confirm.")
        eaten = list(map(meal_log.scaled, meal["portions"], grams))
        self.log.add(eaten, meal["model"])

    def _diary(self, changed):
        """Today's meals, each with a button that deletes it, and their sum.

        Args:
          changed: a gradio.State, a count that goes up with every change of the log.
        """
        gr = self.gr
        with self.notes():
            meals = self.log.day()
        gr.HTML(f"<h2>Today</h2>{'' if meals else 'Nothing logged yet.'}")
        for meal in meals:
            food, grams = views.words(meal.portion["food"]), meal.portion["grams"]
            line = f"{meal.time[11:16]} {food}, {grams:g} g ({meal.model})"
            with gr.Row():
                gr.HTML(f"<p>{escaped(line)}</p>")
                delete = gr.Button(f"Delete {food}", size="sm", min_width=120, scale=0)

            def remove(count, meal=meal):
                with self.notes():
                    self.log.delete(meal.id)
                return count + 1

            delete.click(remove, changed, changed)
        sums = ("total today", meal_log.total([meal.portion for meal in meals]))
        look = {"elem_classes": "food-table", "visible": bool(meals)}
        gr.Markdown(views.table([sums]), **look)


def meal_table(shown):
    """The portions of a meal, and what they are together, in Markdown."""
    columns = [(f"{views.words(p['food'])}, {p['grams']:g} g", p) for p in shown]
    if len(shown) > 1:
        columns.append(("total", meal_log.total(shown)))
    return views.table(columns)


def conversation(choice, question, picture):
    """Asks a model.

    Args:
      choice: a `models.Choice`. question, picture: see `chat.converse`.
    Yields:
      Before and with each event: (what has happened so far, as HTML; the portions that
      were looked up).
    """
    events: list = []
    shown: list[str] = []
    yield "<p>Looking at the plate …</p>", []
    with choice.lock:
        backend = choice.make()
    steps = converse(backend, question, picture, [TOOL])
    while not events or events[-1].kind not in ("answer", "error"):
        with choice.lock:
            events.append(next(steps))
        if events[-1].kind == "result" and events[-1].call is not None:
            shown.pop()  # the call, which is shown with its result
        shown.append(message(events))
        yield "".join(shown), portions(events)


def message(events):
    """The last of the events of `chat.converse`: a step that folds, or the end."""
    event, looked_up = events[-1], _foods(events[-1:])
    if event.kind == "answer":
        return f"<p class='food-answer'>{escaped(sentence(events))}</p>"
    if event.kind == "error":
        return alert(f"That did not work. {event.text}")
    if event.kind == "text":
        return _step("The model's comment", event.text)
    call = views.call_text(event.call)
    if event.kind == "call":
        return _step("Looking it up …", call, "open")
    title = f"Looked up {looked_up}" if looked_up else "The look-up failed"
    return _step(title, f"{call}\n→ {views.result_text(event.result)}")


def escaped(text):
    """A text without a letter that HTML or a template of Gradio would act on."""
    return html.escape(views.shortened(text)).replace("{", "&#123;")


def alert(text):
    """What a person should know before going on."""
    return f"<p class='food-alert' role='alert'>{escaped(text)}</p>"


def question_html(question, picture, name):
    """A question, its picture, and the model it goes to."""
    shown = views.picture_html(picture, "Your plate", width=110)
    whom = f"<p class='food-whom'>to {escaped(name)}</p>"
    return f"<div class='food-question'>{shown}<p>{escaped(question)}</p>{whom}</div>"


def chat_html(parts):
    """A chat: questions and answers, the newest below."""
    text = "".join(parts) or "<p>The model's steps will appear here.</p>"
    return (
        f"<div class='food-chat' role='log' aria-label='Chat' tabindex=0>{text}</div>"
    )


def _step(title, text, is_open=""):
    head = f"<details class='food-step' {is_open}><summary>{escaped(title)}</summary>"
    return f"{head}<p>{escaped(text)}</p></details>"


def sentence(events):
    """The answer, the last of the events, as a person would say it.

    Where the model's number differs from the table's, it names both.
    """
    text, looked_up = events[-1].text.strip(), portions(events)
    if text == food_rewards.NO_FOOD:
        return "I see no food in this picture."
    if not (number := NUMBER.fullmatch(text.rpartition("\n")[2].strip())):
        return text
    if not looked_up:
        return f"My guess is {number[1]} kcal. I did not look it up."
    kcal, foods = meal_log.total(looked_up)["kcal"], _foods(events)
    if abs(float(number[1].replace(",", "")) - kcal) < 0.5:
        return f"There are {kcal:g} kcal in {foods}."
    wrote = f"I wrote {number[1]} kcal, but the table says"
    return f"{wrote} {kcal:g} kcal for {foods}."


def _foods(events):
    foods = [f"{p['grams']:g} g of {views.words(p['food'])}" for p in portions(events)]
    return " and ".join(foods)
