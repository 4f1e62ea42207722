"""Self-checks of notebook 10: another spelling of a call, and a mended reward."""

import itertools

from helpers.course.stages import stage_folder
from helpers.exercises.check import Check, check_properties, filled, texts, whole
from helpers.rewards import food_rewards
from helpers.rewards.functions import RewardSet
from helpers.text import chat
from helpers.tools import nutrition, tool

SPELT = "<<lookup pizza 150>>"


def check_spelling(spelling) -> Check:
    """Exercise 1: tokens of a call whose text the tokenizer cuts into others."""
    tokenizer = chat.load_tokenizer(stage_folder("food_sft"))
    ordinary = {*range(len(tokenizer))} - {*tokenizer.all_special_ids}
    usual = tokenizer.encode(SPELT, add_special_tokens=False)
    properties = {
        "be filled in": filled(spelling, what="a list of token ids"),
        "be whole numbers of the vocabulary, and no control tokens": lambda: (
            whole(*spelling) and {*spelling} <= ordinary
        ),
        f"have the text {SPELT}, exactly": lambda: tokenizer.decode(spelling) == SPELT,
        "be other tokens than the tokenizer's": lambda: list(spelling) != usual,
    }
    return check_properties(properties)


CARELESS = {food_rewards.final_format: 1.0, food_rewards.needless_calls: 8.0}
PLATES = [
    {"food": "pizza", "grams": 150},
    {"food": "sushi", "grams": 80},
    {"food": "hot dog", "grams": 310},
]


def check_mended(answer) -> Check:
    """Exercise 2: a third part, with which being right pays most, and then trying."""

    def earned(kinds, plate, empty):
        """What the conversations of these kinds earn, with the two parts."""
        traces = [trace for kind in kinds for trace in _talks(plate)[kind]]
        columns = {"portions": [[] if empty else [plate]] * len(traces)}
        pay = RewardSet(CARELESS | {answer: 1.0})
        return pay([""] * len(traces), traces, **columns)[0]

    def beats(better, *worse, empty=False):
        """Whether the worst of one kind earns more than the best of the others."""
        return all(
            min(earned([better], plate, empty)) > max(earned(worse, plate, empty))
            for plate in PLATES
        )

    def rewards(traces, portions):
        columns = {"portions": portions, "level": [1] * len(traces)}
        return list(answer([""] * len(traces), traces, **columns))

    def one_by_one(traces, portions):
        pairs = zip(traces, portions, strict=True)
        return [rewards([trace], [plate])[0] for trace, plate in pairs]

    talks = itertools.chain(*_talks(PLATES[0]).values())
    pairs = list(itertools.product(talks, ([PLATES[0]], [])))
    properties = {
        "judge each conversation by its own plate, and keep their order": [
            tuple(map(list, zip(*pairs, strict=True)))
        ],
        "pay a solved conversation more than a wrong one, or one that looks up again": (
            lambda: beats("solved", "wrong", "formless", "repeated")
        ),
        "pay a wrong call more than none where there is food": lambda: (
            beats("wrong", "denied", "silent") and beats("formless", "denied", "silent")
        ),
        "keep a second wrong call expensive": lambda: beats("wrong", "twice wrong"),
        "pay `#### no food` most where the plate is empty": lambda: beats(
            "denied", "silent", "wrong", "formless", empty=True
        ),
    }
    return check_properties(properties, rewards, one_by_one, 1e-6)


def _talks(plate):
    """{kind: traces of conversations about a picture of this one portion}."""
    words = {
        **plate,
        "other": "sushi" if plate["food"] == "pizza" else "pizza",
        "kcal": nutrition.lookup_nutrition(**plate)["kcal"],
    }

    def trace(turns):
        replies = [turn.format(**words) for turn in turns]
        return tool.trace(nutrition.TINY, replies, [nutrition.TOOL])

    return {kind: [*map(trace, talks)] for kind, talks in texts("mended").items()}
