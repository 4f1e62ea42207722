"""Self-checks of notebook 14: events, a hostile call, another weight, another model."""

from helpers.app.assistant import converse
from helpers.exercises.check import Check, filled, judge, leaves_alone, whole
from helpers.tools import nutrition
from helpers.tools.tool import Tool

PIZZA = {"food": "pizza", "grams": 150}
_PORTIONS = (("sushi", 80), ("ramen", 412), ("apple pie", 95.5))


def check_events(guess) -> Check:
    """A prediction: how many events one conversation with one call has, without words
    before the call: call, result, answer."""
    return judge(
        ("be filled in", filled(guess, what="your guess")),
        ("be a whole number", lambda: whole(guess)),
        ("count what the tool gives, too", lambda: guess >= 3),
        ("count one event per thing that happens", lambda: guess == 3),
    )


def check_hostile(arguments) -> Check:
    """Breaking it: a call that is valid JSON, and that the tool refuses with advice."""

    def result():
        return nutrition.TOOL.call(arguments)

    return judge(
        ("be filled in", filled(arguments, what="a dict of arguments")),
        ("be a dict", lambda: isinstance(arguments, dict)),
        ("name exactly food and grams", lambda: set(arguments) == {"food", "grams"}),
        ("have a number of grams that is allowed", lambda: _good_grams(arguments)),
        ("be refused by the tool", lambda: "error" in result()),
        (
            "be near enough to a food to get suggestions",
            lambda: result()["suggestions"],
        ),
    )


def _good_grams(arguments):
    known = nutrition.TOOL.call({**arguments, "food": "pizza"})
    return "error" not in known


def check_scaled(answer) -> Check:
    """The same food in another weight; an edit can be undone."""
    portion = nutrition.TOOL.call(PIZZA)

    def made(grams):
        return answer(dict(portion), grams)

    def there_and_back():
        back = answer(made(7), 150)
        return all(abs(back[n] - portion[n]) < 1e-9 for n in nutrition.NUTRIENTS)

    others = [nutrition.TOOL.call({"food": f, "grams": g}) for f, g in _PORTIONS]

    def right(portion, grams):
        scaled = answer(dict(portion), grams)
        amounts = {
            n: portion[n] / portion["grams"] * grams for n in nutrition.NUTRIENTS
        }
        return set(scaled) == set(portion) and all(
            abs(scaled[n] - amount) < 1e-9 * max(amount, 1)
            for n, amount in amounts.items()
        )

    return judge(
        ("have the new grams", lambda: made(300)["grams"] == 300),
        ("keep the food's name", lambda: made(300)["food"] == "pizza"),
        (
            "have twice the kcal for twice the grams",
            lambda: made(300)["kcal"] == 2 * portion["kcal"],
        ),
        (
            "scale every nutrient",
            lambda: all(
                abs(made(75)[n] - portion[n] / 2) < 1e-9 for n in nutrition.NUTRIENTS
            ),
        ),
        ("not round: back in 150 g it is what it was", there_and_back),
        (
            "leave the portion that it was given alone",
            lambda: (
                leaves_alone(answer, portion, 300)
                and answer(portion, 150) is not portion
            ),
        ),
        (
            "be right for any food, from any weight to any other",
            lambda: all(right(other, g) for other in others for g in (1, 33, 250.5)),
        ),
    )


def check_backend(answer) -> Check:
    """Another model behind the assistant: it asks for pizza, then repeats the kcal."""

    def talk(backend, tool=nutrition.TOOL):
        question = "How many kcal are in 150 g of this?"
        return list(converse(backend, question, None, [tool]))

    def events():
        return talk(answer())

    def kinds():
        return [event.kind for event in events()]

    def repeats(kcal):
        tool = Tool(nutrition.SCHEMA, lambda food, grams: {"food": food, "kcal": kcal})
        return talk(answer(), tool)[-1].text == f"#### {kcal}"

    def begins_afresh():
        backend = answer()
        return talk(backend) == talk(backend)

    return judge(
        ("begin a conversation", lambda: answer().begin("?", None) is not None),
        ("make a call in its first turn", lambda: kinds()[0] == "call"),
        ("call the nutrition tool", lambda: "kcal" in events()[1].result),
        (
            "look up 150 g of pizza",
            lambda: events()[0].call.arguments == PIZZA,
        ),
        ("then answer", lambda: kinds() == ["call", "result", "answer"]),
        (
            "answer with the tool's number, in the form #### 402",
            lambda: events()[-1].text == f"#### {events()[1].result['kcal']}",
        ),
        (
            "repeat whatever number the tool gives, not one that you know",
            lambda: repeats(77) and repeats(1234),
        ),
        ("begin every conversation afresh, with a call", begins_afresh),
    )
