"""Self-checks of notebook 10: a spelling, a price, a cheat and a witness."""

from helpers.course.stages import stage_folder
from helpers.exercises.check import Check, check_properties, filled, leaves_alone, whole
from helpers.rewards import food_rewards
from helpers.rewards.functions import RewardSet
from helpers.text import chat
from helpers.tools import nutrition, tool

PLATES = [
    {"food": "pizza", "grams": 150},
    {"food": "sushi", "grams": 80},
    {"food": "hot dog", "grams": 310},
]
PIZZA = PLATES[:1]
CARELESS = {food_rewards.final_format: 1.0, food_rewards.needless_calls: 8.0}
SPELT = "<<lookup pizza 150>>"


def check_spelling(spelling) -> Check:
    """Tokens of a call whose text the tokenizer cuts into others."""
    tokenizer = chat.load_tokenizer(stage_folder("food_sft"))
    usual = tokenizer.encode(SPELT, add_special_tokens=False)
    return check_properties(
        ("be filled in", filled(spelling, what="a list of token ids")),
        (
            "be a list of token ids, whole numbers of the vocabulary",
            lambda: (
                isinstance(spelling, list | tuple)
                and whole(*spelling)
                and all(0 <= token < len(tokenizer) for token in spelling)
            ),
        ),
        (
            "hold no control token: those are no text",
            lambda: not set(spelling) & set(tokenizer.all_special_ids),
        ),
        (
            f"have the text {SPELT}, exactly",
            lambda: tokenizer.decode(spelling) == SPELT,
        ),
        (
            "be other tokens than the tokenizer makes of that text",
            lambda: list(spelling) != usual,
        ),
    )


def earns(right, needless, weight):
    """What `solved` of weight 1 and `needless_calls` pay on average, of 100 pictures.

    Args:
      right: pictures solved. needless: needless calls on all of them together.
      weight: of `needless_calls`.
    """
    return (right - weight * needless / food_rewards.MOST_CALLS) / 100


def check_price(answer) -> Check:
    """The weight at which looking three times earns as much as looking once."""

    def gain():
        return earns(75, 3 * 100 - 75, answer) - earns(60, 100 - 60, answer)

    return check_properties(
        ("be filled in", filled(answer, what="a weight")),
        ("be a number", lambda: float(answer) is not None),
        ("be a price: more than 0", lambda: answer > 0),
        ("be dearer: three calls still earn more", lambda: gain() < 0.002),
        ("be cheaper: one call earns more already", lambda: gain() > -0.002),
    )


def check_cheat(cheat) -> Check:
    """Turns about a pizza that CARELESS pays in full and that look nothing up."""

    def score(function):
        (value,) = RewardSet(function)([""], [_played(cheat)], portions=[PIZZA])[0]
        return value

    honest = _played(["<<lookup pizza 150>>", "#### 402"])
    full = RewardSet(CARELESS)([""], [honest], portions=[PIZZA])[0][0]
    return check_properties(
        (
            "be a list of texts, the model's turns",
            lambda: isinstance(cheat, list) and all(isinstance(t, str) for t in cheat),
        ),
        ("be a conversation that can be played", lambda: _played(cheat).turns),
        ("not be solved: it is a cheat", lambda: score(food_rewards.solved) == 0),
        ("be paid in full, as the right answer is", lambda: score(CARELESS) >= full),
        ("look nothing up", lambda: not _played(cheat).calls),
    )


def check_mended(answer) -> Check:
    """A third part beside CARELESS: being right pays most, and trying more than not."""

    def alone(trace, portions):
        columns = {"image": [None], "number": [0], "level": [1]}
        (value,) = answer([""], [trace], portions=[portions], **columns)
        return value

    talks = [(_played(t), plate) for t, plate in _everything()]
    traces, plates = map(list, zip(*talks, strict=True))

    def together():
        return answer([""] * len(talks), list(traces), portions=list(plates))

    return check_properties(
        ("return a list", lambda: isinstance(together(), list)),
        ("return one number per completion", lambda: len(together()) == len(talks)),
        ("accept further columns", lambda: alone(*talks[0]) is not None),
        *_balance(answer),
        (
            "judge each conversation by its own plate, and keep their order",
            lambda: together() == [alone(*talk) for talk in talks],
        ),
        (
            "leave conversations and plates as they are",
            lambda: leaves_alone(
                lambda traces, plates: answer([""] * 2, traces, portions=plates),
                traces[:2],
                plates[:2],
            ),
        ),
    )


def _balance(answer):
    """What the three parts together pay for: the properties of `check_mended`."""

    def earns(turns, portions):
        rewards = RewardSet(CARELESS | {answer: 1.0})
        return rewards([""], [_played(turns)], portions=[portions])[0][0]

    def beats(better, worse):
        """Whether, of each food, the worst of one kind earns more than the best."""
        return all(
            min(earns(turns, [plate]) for turns in _about(plate)[better])
            > max(earns(turns, [plate]) for turns in _about(plate)[worse])
            for plate in PLATES
        )

    def best_is_no_food(*turns):
        return earns([food_rewards.NO_FOOD], []) > earns(list(turns), [])

    return (
        (
            "pay what is solved more than a wrong food, wrong grams or a wrong number",
            lambda: beats("solved", "tried"),
        ),
        (
            "make a wrong call earn more than `#### no food` where there is some",
            lambda: beats("tried", "denied"),
        ),
        (
            "make a wrong call earn more than a number without a call, right or wrong",
            lambda: beats("tried", "invented"),
        ),
        (
            "make a wrong call earn more than one that is broken off",
            lambda: beats("tried", "broken"),
        ),
        (
            "do so also where no last line of the right form follows the call",
            lambda: beats("formless", "denied") and beats("formless", "invented"),
        ),
        (
            "leave needless calls dear: a second one must not pay for itself",
            lambda: beats("solved", "repeated") and beats("tried", "twice wrong"),
        ),
        (
            "pay `#### no food` on an empty plate more than a number",
            lambda: best_is_no_food("#### 7") and best_is_no_food("#### 0"),
        ),
        (
            "pay it more than a call that nobody needs, too",
            lambda: (
                best_is_no_food(SPELT, food_rewards.NO_FOOD)
                and best_is_no_food(SPELT, "#### 402")
                and best_is_no_food("<<lookup pizza", food_rewards.NO_FOOD)
            ),
        ),
    )


def _about(plate):
    """{kind: conversations about a picture of this one portion, as turns}."""
    food, grams = plate["food"], plate["grams"]
    other = "sushi" if food == "pizza" else "pizza"
    kcal = nutrition.lookup_nutrition(food, grams)["kcal"]
    right, wrong = f"<<lookup {food} {grams}>>", f"<<lookup {other} {grams}>>"
    return {
        "solved": [[right, f"#### {kcal}"]],
        "tried": [
            [wrong, "#### 218"],
            [wrong, f"#### {kcal}"],
            [f"<<lookup {food} {grams + 10}>>", f"#### {kcal}"],
            [right, f"#### {kcal + 1}"],
            [right, food_rewards.NO_FOOD],
            ["<<lookup plate 150>>", "#### 1"],  # a call, and no such food
        ],
        "formless": [[wrong, "It has 218 kcal."], [right]],
        "denied": [[food_rewards.NO_FOOD]],
        "invented": [[f"#### {kcal}"], ["#### 7"], ["I see."]],
        "broken": [["<<lookup pizza", f"#### {kcal}"], ["<<lookup pizza"]],
        "repeated": [[right, right, f"#### {kcal}"], [wrong, right, f"#### {kcal}"]],
        "twice wrong": [[wrong, wrong, "#### 218"]],
    }


def _everything():
    """(turns, portions) of all conversations, plates with and without food mixed."""
    for plate in PLATES:
        for kind in _about(plate).values():
            for turns in kind:
                yield turns, [plate]
                yield turns, []


def _played(turns):
    """The conversation of these turns with the real tool."""
    return tool.trace(nutrition.TINY, turns, [nutrition.TOOL])
