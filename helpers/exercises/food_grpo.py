"""Self-checks of notebook 10: a spelling, a price, a cheat and a mended reward."""

from helpers.course.stages import stage_folder
from helpers.exercises.check import Check, check_properties, filled, texts, whole
from helpers.rewards import food_rewards
from helpers.rewards.functions import RewardSet
from helpers.text import chat
from helpers.tools import nutrition, tool

PLATES = [
    {"food": "pizza", "grams": 150},
    {"food": "sushi", "grams": 80},
    {"food": "hot dog", "grams": 310},
]
CARELESS = {food_rewards.final_format: 1.0, food_rewards.needless_calls: 8.0}
SPELT = "<<lookup pizza 150>>"


def check_spelling(spelling) -> Check:
    """Tokens of a call whose text the tokenizer cuts into others."""
    tokenizer = chat.load_tokenizer(stage_folder("food_sft"))
    usual = tokenizer.encode(SPELT, add_special_tokens=False)
    properties = {
        "be filled in": filled(spelling, what="a list of token ids"),
        "be whole numbers of the vocabulary, and no control tokens": lambda: (
            whole(*spelling)
            and {*spelling} <= {*range(len(tokenizer))} - {*tokenizer.all_special_ids}
        ),
        f"have the text {SPELT}, exactly": lambda: tokenizer.decode(spelling) == SPELT,
        "be other tokens than the tokenizer's": lambda: list(spelling) != usual,
    }
    return check_properties(properties)


def check_price(answer) -> Check:
    """The weight at which looking three times earns as much as looking once.

    Of 100 pictures, one look solves 60 and three looks solve 75. `solved` has weight 1.
    """

    def earns(solved, calls):
        needless = calls - solved
        return (solved - answer * needless / food_rewards.MOST_CALLS) / 100

    def gain():
        return earns(75, 300) - earns(60, 100)

    properties = {
        "be filled in": filled(answer, what="a weight"),
        "be dearer: three calls still earn more": lambda: gain() < 0.002,
        "be cheaper: one call earns more already": lambda: gain() > -0.002,
    }
    return check_properties(properties)


def _trace(turns):
    """The conversation of these turns of the model with the real tool."""
    return tool.trace(nutrition.TINY, turns, [nutrition.TOOL])


def _pay(rewards, turns, portions):
    (value,) = RewardSet(rewards)([""], [_trace(turns)], portions=[portions])[0]
    return value


def check_cheat(cheat) -> Check:
    """Turns about a pizza that CARELESS pays in full and that look nothing up."""
    pizza = PLATES[:1]
    full = _pay(CARELESS, ["<<lookup pizza 150>>", "#### 402"], pizza)
    properties = {
        "be a list of texts, the model's turns": lambda: (
            isinstance(cheat, list) and _trace(cheat).turns
        ),
        "not be solved: it is a cheat": lambda: (
            _pay(food_rewards.solved, cheat, pizza) == 0
        ),
        "be paid like the right answer": lambda: _pay(CARELESS, cheat, pizza) >= full,
        "look nothing up": lambda: not _trace(cheat).calls,
    }
    return check_properties(properties)


def check_mended(answer) -> Check:
    """A third part beside CARELESS: being right pays most, and trying more than not."""
    talks = [
        (_trace(turns), portions)
        for plate in PLATES
        for kind in _conversations(plate).values()
        for turns in kind
        for portions in ([plate], [])
    ]

    def rewards(traces, portions):
        columns = {"image": [None] * len(traces), "level": [1] * len(traces)}
        return list(answer([""] * len(traces), traces, portions=portions, **columns))

    def one_by_one(traces, portions):
        pairs = zip(traces, portions, strict=True)
        return [rewards([trace], [plate])[0] for trace, plate in pairs]

    def earns(turns, portions):
        return _pay(CARELESS | {answer: 1.0}, turns, portions)

    def beats(better, *worse):
        """Whether, of each food, the worst of one kind earns more than the others."""
        return all(
            min(earns(turns, [plate]) for turns in talks[better])
            > max(earns(turns, [plate]) for kind in worse for turns in talks[kind])
            for plate, talks in ((plate, _conversations(plate)) for plate in PLATES)
        )

    def best_is_no_food():
        others = [["#### 7"], ["#### 0"], [SPELT, food_rewards.NO_FOOD]]
        others += [[SPELT, "#### 402"], ["<<lookup pizza", food_rewards.NO_FOOD]]
        no_food = earns([food_rewards.NO_FOOD], [])
        return all(no_food > earns(turns, []) for turns in others)

    properties = {
        "judge each conversation by its own plate, and keep their order": [
            tuple(map(list, zip(*talks, strict=True)))
        ],
        "pay a solved one more than a wrong one": lambda: beats("solved", "tried"),
        "make a wrong call earn more than `#### no food` or a number without a call, "
        "where there is some": lambda: (
            beats("tried", "denied", "invented")
            and beats("formless", "denied", "invented")
        ),
        "pay a wrong call more than a broken one": lambda: beats("tried", "broken"),
        "leave needless calls dear: a second one must not pay for itself": lambda: (
            beats("solved", "repeated") and beats("tried", "twice wrong")
        ),
        "pay `#### no food` on an empty plate more than a number or a call": (
            best_is_no_food
        ),
    }
    return check_properties(properties, rewards, one_by_one, 1e-6)


def _conversations(plate):
    """{kind: conversations about a picture of this one portion, as turns}."""
    words = {
        **plate,
        "other": "sushi" if plate["food"] == "pizza" else "pizza",
        "kcal": nutrition.lookup_nutrition(**plate)["kcal"],
    }
    return {
        kind: [[turn.format(**words) for turn in turns] for turns in talks]
        for kind, talks in texts("mended").items()
    }
