"""The page of the food app: its parts, and what each of them does.

What one person asks is kept in the state of their session; the diary is everybody's.
"""

import contextlib
import pathlib
import threading

import numpy as np

from helpers.app import food_chat, food_diary, food_models, meal_log, meal_view
from helpers.app.assistant import BackendError, converse, portions
from helpers.plots import plotting
from helpers.tasks.food import food_questions, photos
from helpers.tools.nutrition import TOOL

GRAMS = 150
TURNS_SHOWN = 8  # of a chat
AT_ONCE = 32  # conversations; those of one local model take turns
SERVER = "a teacher on a server"
NOBODY = "nobody else"
EMPTY: dict = {"found": [], "model": "", "why": ""}
TOP = "<h1>What is on the plate?</h1><p>Show it, ask, correct the grams, log it.</p>"
NO_PICTURE = "Show a plate first: upload a photo, take one, or choose a drawing."
DOWN = """() => document.querySelectorAll('.food-chat .html-container').forEach(
  e => {e.tabIndex = 0; e.scrollTop = 1e6})"""
SCROLL = "() => document.getElementById('chats').scrollIntoView({block: 'nearest'})"


class Page:
    """The page as `blocks`; see `food_app.app` for what it takes."""

    def __init__(self, gradio, models, log, examples):
        self.gr, self.models, self.log, self.examples = gradio, models, log, examples
        self.made, self.making = {}, threading.Lock()
        self.locks = {name: threading.Lock() for name in models}
        with gradio.Blocks(
            title="What is on the plate?",
            analytics_enabled=False,
            delete_cache=(600, 3600),  # photos are kept for an hour
        ) as self.blocks:
            gradio.HTML(TOP)
            self.meal, self.changed = gradio.State(EMPTY), gradio.State(0)
            self.past = gradio.State([])
            with gradio.Row():
                with gradio.Column(scale=2, min_width=320):
                    self._plate()
                with gradio.Column(scale=3, min_width=320):
                    with gradio.Row(elem_id="chats"):
                        self.chats = [self._chat("chat"), self._chat("beside", False)]
                    gradio.render(self.meal, [self.meal.change])(self._meal)
            again = [self.blocks.load, self.changed.change]
            diary = food_diary.Diary(gradio, log, self.changed)
            gradio.render(self.changed, again)(diary.show)
            self._wire()

    def _plate(self):
        gr, names = self.gr, [*self.models, SERVER]
        self.photo = gr.Image(
            next(iter(self.examples.values())),
            label="Your plate",
            sources=["upload", "webcam", "clipboard"],
            type="filepath",
            format="png",
            buttons=[],
            elem_id="photo",
            alt_text="The picture that is asked about",
        )
        self.upload = gr.UploadButton(
            "Upload a photo, or take one", file_types=["image"]
        )
        # The file as it is: `photos.decode` checks it, and says what is wrong with it.
        self.photo.preprocess = lambda payload: payload and payload.path
        self.gallery = gr.Gallery(
            [(picture, name) for name, picture in self.examples.items()],
            label="Or a drawing",
            columns=4,
            height="auto",
            format="png",
            allow_preview=False,
            buttons=[],
            elem_id="drawings",
        )
        with gr.Row():
            others = [NOBODY, *names]
            self.pick = gr.Dropdown(names, value=names[0], label="Model", min_width=220)
            self.other = gr.Dropdown(
                others, value=NOBODY, label="Beside it", min_width=220
            )
        with gr.Group(visible=False) as self.server:
            self.fields = [
                gr.Textbox("http://localhost:8000/v1", label="Address of the server"),
                gr.Textbox(label="Its name of the model"),
                gr.Textbox(label="Key, if it wants one", type="password"),
            ]
        self.status = gr.HTML(self._status(names[0], NOBODY, "", ""), elem_id="who")
        asked = food_questions.ONE_FOOD[0].format(GRAMS)
        self.question = gr.Textbox(asked, label="Question", max_length=2000)
        self.ask = gr.Button("Ask", variant="primary")

    def _chat(self, name, visible=True):
        return self.gr.HTML(
            "<p>Every step of the model will stand here.</p>",
            visible=visible,
            elem_id=name,
            elem_classes="food-chat",
            min_width=280,
            max_height=460,
        )

    def _wire(self):
        gr, names = self.gr, [self.pick, self.other]

        def chosen(*values):
            pick, other = values[:2]
            server = gr.update(visible=SERVER in (pick, other))
            return server, gr.update(visible=other != NOBODY), self._status(*values)

        def take(event: gr.SelectData):  # type: ignore[name-defined]
            return list(self.examples.values())[event.index]

        asked = [*names, *self.fields[:2]]
        shown = [self.server, self.chats[1], self.status]
        changes = [field.change for field in asked]
        gr.on(changes, chosen, asked, shown, show_progress="hidden")
        self.gallery.select(take, None, self.photo, show_progress="hidden")
        self.upload.upload(lambda path: path, self.upload, self.photo)
        self.ask.click(js=SCROLL)
        gr.on([chat.change for chat in self.chats], js=DOWN)
        gr.on(
            [self.ask.click, self.question.submit],
            self._ask,
            [self.past, self.photo, self.question, *names, *self.fields],
            [*self.chats, self.past, self.meal],
            concurrency_limit=AT_ONCE,
            show_progress="hidden",
            api_name="ask",
        )

    def _status(self, pick, other, address, model):
        """Who answers: where it runs, which weights it has, what it has seen."""
        lines = [
            f"{name}: {choice.runs}. It has seen {choice.seen}."
            for name in dict.fromkeys((pick, other))
            if (choice := self._choice(name, address, model))
        ]
        return "".join(f"<p>{food_chat.escaped(line)}</p>" for line in lines)

    def _choice(self, name, address, model, key=""):
        if name == SERVER:
            return food_models.on_server(address or "", model or "", key or "")
        return self.models.get(name)  # None: nobody

    def _backend(self, name, choice):
        """The backend with a clock; what is loaded here is loaded once."""
        if name == SERVER:
            return food_chat.Watched(choice.make(), contextlib.nullcontext())
        with self.making:
            if name not in self.made:
                self.made[name] = choice.make()
        return food_chat.Watched(self.made[name], self.locks[name])

    def _ask(self, past, path, question, pick, other, *server):
        """Both chats, what they hold, and the meal, as it grows, for one session."""
        now, meal, question = ["", ""], EMPTY, (question or "").strip()
        try:
            picture = _picture(path)
        except photos.PhotoError as error:
            now[0] = food_chat.asked(question, None, pick) + food_chat.alert(error)
            yield *_chats(past, now), past, meal
            return
        drawn = any(np.array_equal(picture, seen) for seen in self.examples.values())
        for turn, name in enumerate((pick, other)):
            choice = self._choice(name, *server)
            if choice is None:
                continue
            head, guess = food_chat.asked(question, picture, name), ""
            if choice.draws and not drawn:
                guess = "It has seen no photo."
                head += food_chat.alert(food_chat.NOTICE.format(name, choice.seen))
            for told, found in self._talk(name, choice, question, picture):
                now[turn] = head + told
                if found and turn == 0:
                    meal = found | {"why": guess or found["why"]}
                yield *_chats(past, now), past, meal
        past = [*past, now][-TURNS_SHOWN:]
        yield *_chats(past, ["", ""]), past, meal

    def _talk(self, name, choice, question, picture):
        """A conversation as HTML while it grows, at last with what it found."""
        events: list = []
        yield "<p>Looks at the plate …</p>", None
        try:
            backend = self._backend(name, choice)
        except BackendError as error:
            yield food_chat.alert(error), None
            return
        for event in converse(backend, question, picture, [TOOL]):
            events.append(event)
            unsure, spent, found = backend.unsure(choice.sure), "", None
            if event.kind in ("answer", "error"):
                why, spent = "It is not sure." if unsure else "", backend.spent()
                found = {"found": portions(events), "model": name, "why": why}
            yield food_chat.told(events, unsure, spent), found

    def _meal(self, meal):
        """What was found, with grams to correct, and a button that logs it."""
        gr, found = self.gr, meal["found"]
        gr.HTML("<h2>This meal</h2>" + ("" if found else "<p>Not looked up yet.</p>"))
        if not found:
            return
        with gr.Row():
            parts = []
            for part in _drawn(found):
                with gr.Column(min_width=260):
                    parts.append(gr.HTML(part))
        with gr.Row():
            fields = [
                gr.Number(portion["grams"], label=f"Grams of {food}", interactive=True)
                for portion in found
                for food in [meal_view.words(portion["food"])]
            ]
        check = f"{meal['why']} I have looked at it myself: log it."
        yes = gr.Checkbox(label=check, visible=bool(meal["why"]), interactive=True)
        save, told = gr.Button("Log this meal", variant="primary"), gr.HTML()

        def correct(*grams):
            try:
                scaled = map(meal_log.scaled, found, grams)
                return *_drawn(list(scaled)), ""
            except ValueError as error:
                return gr.skip(), gr.skip(), food_chat.alert(error)

        def log(changed, agreed, *grams):
            try:
                self.keep(meal, agreed, grams)
            except (ValueError, meal_log.MealLogError) as error:
                return gr.skip(), gr.skip(), food_chat.alert(error)
            done = gr.update(value="Logged", interactive=False)
            return changed + 1, done, "<p role='status'>It is in the diary below.</p>"

        for field in fields:
            field.change(correct, fields, [*parts, told], show_progress="hidden")
        kept = [self.changed, save, told]
        save.click(log, [self.changed, yes, *fields], kept, show_progress="hidden")

    def keep(self, meal, agreed, grams):
        """Logs what was found in these grams; ValueError where a yes is missing."""
        if meal["why"] and not agreed:
            raise ValueError(f"Not logged: {meal['why']} Say yes above, or ask anew.")
        self.log.add_all(zip(meal["found"], grams, strict=True), meal["model"])


def _chats(past, now):
    """What stands in each of the two chats: all that was asked, the newest below."""
    return ["".join(turns) for turns in zip(*past, now, strict=True)]


def _picture(path):
    """The pixels of a file that somebody sent; PhotoError where it is no photo."""
    if not path:
        raise photos.PhotoError(NO_PICTURE)
    return photos.decode(pathlib.Path(path).read_bytes(), where="The picture")


def _drawn(found):
    """Table and plot of a meal."""
    plot = plotting.image(*meal_view.macros(found))
    return meal_view.table_html(found, "Nutrition of this meal"), plot
