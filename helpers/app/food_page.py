"""The page of the food app: its parts, and what each of them does.

What one person asks is kept in the state of their session; the diary is everybody's.
"""

import numpy as np

from helpers.app import food_chat, food_diary, meal_log, meal_view
from helpers.app.food_models import DRAWINGS
from helpers.app.meal_view import words
from helpers.plots import plotting
from helpers.tasks.food import food_traces, photos

QUESTION = food_traces.ONE_FOOD[0].format(150)
MOST_SHOWN = 24  # parts of a chat, before the next
AT_ONCE = 32  # conversations; those of one local model take turns
NOBODY = "nobody else"
TITLE = "What is on the plate?"
TO_CHATS = "() => document.getElementById('chats').scrollIntoView({block: 'nearest'})"
NO_PICTURE = "Show a plate first: upload a photo, take one, or choose a drawing."
NOTICE = "Please note: {} can only guess here. {} Nothing is logged unless you say yes."


class Page:
    """The page as `blocks`; see `food_app.app` for what it takes."""

    def __init__(self, gradio, models, log, examples):
        self.gr, self.models, self.log, self.examples = gradio, models, log, examples
        gr, names = gradio, list(models)
        with gr.Blocks(
            title=TITLE,
            analytics_enabled=False,
            delete_cache=(600, 3600),  # photos are kept for an hour
        ) as self.blocks:
            gr.HTML(f"<h1>{TITLE}</h1><p>Show it, ask, correct the grams, log it.</p>")
            past, meal, changed = gr.State([[], []]), gr.State({}), gr.State(0)
            with gr.Row():
                with gr.Column(scale=2, min_width=320):
                    photo, others = self._plate(), [NOBODY, *names]
                    with gr.Row():
                        pick = gr.Dropdown(names, label="Model", min_width=220)
                        other = gr.Dropdown(others, label="Beside it", min_width=220)
                    status = gr.HTML()
                    question = gr.Textbox(QUESTION, label="Question", max_length=2000)
                    ask = gr.Button("Ask", variant="primary")
                with gr.Column(scale=3, min_width=320):
                    with gr.Row(elem_id="chats"):
                        look = {"min_width": 280, "max_height": 460, "autoscroll": True}
                        chats = [gr.HTML(food_chat.log([]), **look) for _ in range(2)]
                    gr.render(meal)(lambda found: self._meal(found, changed))
            gr.render(changed)(lambda _: food_diary.show(gr, log, changed))
            who, shown = [pick, other], [chats[1], status]
            choosing = [self.blocks.load, pick.change, other.change]
            at_once = {"trigger_mode": "always_last", "show_progress": "hidden"}
            gr.on(choosing, self.choose, who, shown, **at_once)
            asking, given = [ask.click, question.submit], [past, photo, question, *who]
            told = [*chats, past, meal]
            gr.on(asking, self.ask, given, told, concurrency_limit=AT_ONCE)
            ask.click(js=TO_CHATS)

    def _plate(self):
        """The picture that is asked about, and the drawings to choose from."""
        gr, drawings = self.gr, self.examples
        photo = gr.Image(
            drawings[0], label="Your plate", format="png", buttons=[], elem_id="photo"
        )
        photo.alt_text = "The picture that is asked about"  # Gradio 6.0 takes none
        # The file as it is: `photos.decode` checks it, and says what is wrong with it.
        photo.preprocess = lambda payload: payload and payload.path
        upload = gr.UploadButton("Upload a photo, or take one", file_types=["image"])
        upload.upload(lambda path: path, upload, photo)
        gallery = gr.Gallery(
            drawings,
            label="Or a drawing",
            format="png",
            allow_preview=False,
            buttons=[],
            elem_id="drawings",
        )

        def take(event: gr.SelectData):  # type: ignore[name-defined]
            return drawings[event.index]

        gallery.select(take, None, photo)
        return photo

    def choose(self, *who):
        """Whether there is a second chat; who answers, where, and what it has seen."""
        lines = [f"{n}: {c.runs}. {c.seen}" for n, c in self.models.items() if n in who]
        told = "".join(f"<p>{food_chat.escaped(line)}</p>" for line in lines)
        return self.gr.update(visible=who[1] in self.models), told

    def ask(self, past, path, question, *who):
        """Both chats, what they hold, and the meal, as it grows, for one session."""
        with food_chat.noted(self.gr):
            if not path:
                raise ValueError(NO_PICTURE)
            sent = photos.uploaded(path)
            picture = photos.decode(sent, where="The picture")
        drawn = any(np.array_equal(picture, seen) for seen in self.examples)
        chats, meal = list(past), {}
        for turn, name in enumerate(who):
            if name not in self.models:
                continue
            asked = food_chat.asked(question, picture, name)
            choice, before = self.models[name], [*past[turn][-MOST_SHOWN:], asked]
            guess = "" if drawn or choice.seen != DRAWINGS else "It has seen no photo."
            if guess:
                before.append(food_chat.alert(NOTICE.format(name, choice.seen)))
            talk = food_chat.conversation(choice, question, picture)
            for told, found, doubt in talk:
                chats[turn] = [*before, told]
                if turn == 0:
                    meal = {"found": found, "model": name, "why": guess or doubt}
                yield *map(food_chat.log, chats), chats, meal

    def _meal(self, meal, changed):
        """What was found, with grams to correct, and a button that logs it."""
        gr, found = self.gr, meal.get("found")
        gr.HTML("<h2>This meal</h2>" + ("" if found else "<p>Not looked up yet.</p>"))
        if not found:
            return
        table, plot = _drawn(found)
        with gr.Row():
            table, plot = gr.Markdown(table, elem_classes="food-table"), gr.HTML(plot)
        with gr.Row():
            grams = [(p["grams"], f"Grams of {words(p['food'])}") for p in found]
            fields = [gr.Number(n, label=of, interactive=True) for n, of in grams]
        check = f"{meal['why']} I have looked at it myself: log it."
        yes = gr.Checkbox(label=check, visible=bool(meal["why"]), interactive=True)
        save = gr.Button("Log this meal", variant="primary")

        def correct(*grams):
            with food_chat.noted(gr):
                return _drawn(list(map(meal_log.scaled, found, grams)))

        def log(count, agreed, *grams):
            with food_chat.noted(gr):
                self.keep(meal, agreed, grams)
            return count + 1, gr.update(value="Logged", interactive=False)

        left = [event for field in fields for event in (field.submit, field.blur)]
        gr.on(left, correct, fields, [table, plot], show_progress="hidden")
        save.click(log, [changed, yes, *fields], [changed, save])

    def keep(self, meal, agreed, grams):
        """Logs what was found in these grams; ValueError where a yes is missing."""
        if meal["why"] and not agreed:
            raise ValueError(f"Not logged: {meal['why']} Say yes above, or ask anew.")
        self.log.add_all(zip(meal["found"], grams, strict=True), meal["model"])


def _drawn(found):
    """Table and plot of a meal."""
    columns = [(f"{words(p['food'])}, {p['grams']:g} g", p) for p in found]
    if len(found) > 1:
        columns.append(("together", meal_log.total(found)))
    return meal_view.table(columns), plotting.image(*meal_view.macros(found))
