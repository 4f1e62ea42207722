"""What the food app says: steps that fold, answers as sentences, no text as HTML."""

import contextlib
import html.parser
import re
import threading
import time

import numpy as np
import pytest

from helpers.app import food_chat
from helpers.app.assistant import BackendError, Event
from helpers.app.food_models import Choice
from helpers.tools.calls import Call, Verdict
from helpers.tools.nutrition import lookup_nutrition

PIZZA, RAMEN = lookup_nutrition("pizza", 150), lookup_nutrition("ramen", 100)


def looked_up(*results):
    events = []
    for result in results:
        given = {"food": result["food"], "grams": result["grams"]}
        call = Call("lookup_nutrition", given)
        events += [Event("call", call=call), Event("result", call=call, result=result)]
    return events


@pytest.mark.parametrize(
    "results, answer, said",
    [
        ([PIZZA], "#### 402", "There are 402 kcal in 150 g of pizza."),
        (
            [PIZZA],
            "#### 1,402",
            "I wrote 1,402 kcal, which is wrong: the table has 402",
        ),
        ([PIZZA], "#### 40", "I wrote 40 kcal, which is wrong"),
        ([], "#### 402", "I say 402 kcal, but I looked nothing up"),
        ([], "#### no food", "I see no food in this picture."),
        ([PIZZA], "It is pizza, 402 kcal.", "It is pizza, 402 kcal."),
    ],
)
def test_an_answer_is_a_sentence(results, answer, said):
    sentence = food_chat.sentence([*looked_up(*results), Event("answer", answer)])
    assert sentence.startswith(said) and "####" not in sentence


def test_two_foods_are_counted_together():
    both = PIZZA["kcal"] + RAMEN["kcal"]
    events = [*looked_up(PIZZA, RAMEN), Event("answer", f"#### {both}")]
    expected = f"There are {both} kcal in 150 g of pizza and 100 g of ramen."
    assert food_chat.sentence(events) == expected


class Seen(html.parser.HTMLParser):
    """The elements of a piece of HTML, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_a_step_is_open_until_its_result_is_there():
    events = [Event("said", "Pizza."), *looked_up(PIZZA), Event("answer", "#### 402")]
    said, call, result, answer = (
        Seen(food_chat.message(events[: count + 1])) for count in range(4)
    )
    folds = [
        [attrs for tag, attrs in seen.tags if tag == "details"]
        for seen in (said, call, result, answer)
    ]
    assert [len(fold) for fold in folds] == [1, 1, 1, 0]
    assert ["open" in fold[0] for fold in folds[:3]] == [False, True, False]
    assert "lookup_nutrition(food='pizza', grams=150)" in call.text
    assert "Looked up 150 g of pizza" in result.text and "kcal 402" in result.text
    assert "402 kcal in" in answer.text and "Pizza." in said.text


@pytest.mark.parametrize(
    "form", ["#### {}", "#### {} kcal", "#### {}kcal", "#### {}.", "A pizza.\n#### {}"]
)
def test_a_wrong_number_is_told_in_whatever_words_it_stands(form):
    wrong, right = (
        food_chat.sentence([*looked_up(PIZZA), Event("answer", form.format(number))])
        for number in (999, 402)
    )
    assert "I wrote 999 kcal, which is wrong: the table has 402 kcal" in wrong
    assert right == "There are 402 kcal in 150 g of pizza."
    alone = food_chat.sentence([Event("answer", form.format(402))])
    assert "I looked nothing up" in alone


def test_a_look_up_that_failed_says_so():
    call, error = Call("lookup_nutrition", {"food": "snow"}), {"error": "No such food."}
    for event in (Event("result", call=call, result=error), Event("result", "", None)):
        seen = Seen(food_chat.message([event]))
        assert "The look-up failed" in seen.text and "Looked up" not in seen.text
    assert "No such food." in food_chat.message(
        [Event("result", call=call, result=error)]
    )


def test_doubt_time_and_tokens_stand_with_the_answer():
    events = [*looked_up(PIZZA), Event("answer", "#### 402")]
    seen = Seen(food_chat.message(events, unsure=True, spent="0.8 s, 19 tokens"))
    assert "I am not sure. There are 402 kcal" in seen.text
    assert seen.text.endswith("0.8 s, 19 tokens")
    assert "not sure" not in food_chat.message(events)


NASTY = "</p><script>alert(1)</script>{{#each value}}${alert(2)}"


@pytest.mark.parametrize("kind", ["said", "answer", "error", "call", "result"])
def test_what_models_write_is_text(kind):
    call = Call(NASTY, {NASTY: NASTY})
    shown = food_chat.message([Event(kind, NASTY, call, {"error": NASTY})])
    shown += food_chat.asked(NASTY, np.zeros((4, 4, 3), np.uint8), NASTY)
    shown += food_chat.alert(NASTY)
    seen = Seen(food_chat.log([shown]))
    assert {tag for tag, _ in seen.tags} <= {"details", "summary", "p", "div", "img"}
    assert NASTY in seen.text
    assert "${" not in shown and "{{" not in shown, "Gradio has templates, too"


def test_a_long_text_is_cut():
    assert len(food_chat.message([Event("said", "x" * 10_000)])) < 2_300


def test_a_chat_can_be_reached_by_keyboard_and_says_what_it_is():
    ((tag, attrs),) = Seen(food_chat.log(["later"])).tags
    assert attrs["role"] == "log" and attrs["tabindex"] == "0" and attrs["aria-label"]
    assert "will stand here" in food_chat.log([])
    assert "will stand here" not in food_chat.log(["later"])


class Slow:
    """A model that takes its time in each turn, and looks up a pizza first."""

    name = "slow"

    def __init__(self, **known):
        self.told, self.known = [], known

    def begin(self, question, picture):
        for name, value in self.known.items():
            setattr(self, name, value)
        return self

    def next_turn(self):
        time.sleep(0.05)
        asked = {"food": "pizza", "grams": 150}
        if self.told:
            return Verdict(text="#### 402")
        return Verdict(calls=(Call("lookup_nutrition", asked),))

    def append_results(self, verdict, results):
        self.told += results


def talk(model, sure=0.0, lock=None):
    lock = lock or contextlib.nullcontext()
    choice = Choice(lambda: model, "here", sure=sure, lock=lock)
    return list(food_chat.conversation(choice, "?", np.zeros((4, 4, 3), np.uint8)))


def test_a_conversation_grows_and_ends_with_what_was_found():
    told = talk(Slow(tokens=7))
    assert [found for _, found, _ in told] == [[], [], [PIZZA], [PIZZA]]
    assert [html.count("<details") for html, *_ in told] == [0, 1, 1, 1]
    spent = re.search(r"(\d+\.\d) s, 7 tokens", told[-1][0])
    assert float(spent[1]) >= 0.1
    assert "unknown tokens" in talk(Slow())[-1][0]


def test_doubt_is_below_the_threshold_and_not_at_it():
    assert talk(Slow(certainty=0.4), sure=0.5)[-1][2] == "It is not sure."
    assert talk(Slow(certainty=0.4), sure=0.4)[-1][2] == ""
    assert talk(Slow(), sure=1.0)[-1][2] == "", "nothing is known of a server's"


def test_the_clock_stands_while_others_are_waited_for():
    class Busy(contextlib.AbstractContextManager):
        def __enter__(self):
            time.sleep(0.3)

        def __exit__(self, *_):
            pass

    spent = re.search(r"(\d+\.\d) s,", talk(Slow(), lock=Busy())[-1][0])
    assert 0.1 <= float(spent[1]) < 0.6, "three waits are 0.9 s"


def test_one_model_works_for_one_person_at_a_time():
    lock, at_once, most = threading.Lock(), [], []

    class Watched(Slow):
        def next_turn(self):
            at_once.append(self)
            most.append(len(at_once))
            verdict = super().next_turn()
            at_once.remove(self)
            return verdict

    threads = [
        threading.Thread(target=talk, args=(Watched(),), kwargs={"lock": lock})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8 and set(most) == {1}


def test_a_model_that_cannot_be_made_is_an_error_of_the_conversation():
    def missing():
        raise BackendError("Run notebook 10 first.")

    choice = Choice(missing, "nowhere")
    *_, (html, found, why) = food_chat.conversation(choice, "?", None)
    assert "Run notebook 10 first." in html and (found, why) == ([], "")


@pytest.mark.parametrize("error", [ValueError("<b>"), KeyError("<b>")])
def test_what_a_person_can_mend_becomes_a_note(error):
    gradio = pytest.importorskip("gradio")
    with pytest.raises(gradio.Error) as noted, food_chat.noted(gradio):
        raise error
    assert noted.value.message == "&lt;b&gt;"
    with pytest.raises(ZeroDivisionError), food_chat.noted(gradio):
        raise ZeroDivisionError
