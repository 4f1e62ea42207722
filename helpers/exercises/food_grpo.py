"""Self-checks of notebook 10: a spelling, a price, a cheat and a witness."""

from helpers.course.stages import stage_folder
from helpers.exercises.check import Check, filled, judge, leaves_alone, whole
from helpers.rewards import food_rewards
from helpers.rewards.functions import RewardSet
from helpers.text import chat
from helpers.tools import nutrition, traces

PIZZA = [{"food": "pizza", "grams": 150}]
CARELESS = {food_rewards.final_format: 1.0, food_rewards.needless_calls: 8.0}
SPELT = "<<lookup pizza 150>>"


def check_spelling(spelling) -> Check:
    """Tokens of a call whose text the tokenizer cuts into others."""
    tokenizer = chat.load_tokenizer(stage_folder("food_sft"))
    usual = tokenizer.encode(SPELT, add_special_tokens=False)
    return judge(
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
    """The weight at which looking twice earns as much as looking once."""

    def gain():
        return earns(70, 2 * 100 - 70, answer) - earns(60, 100 - 60, answer)

    return judge(
        ("be filled in", filled(answer, what="a weight")),
        ("be a number", lambda: float(answer) is not None),
        ("be a price: more than 0", lambda: answer > 0),
        ("be dearer: looking twice still earns more", lambda: gain() < 0.002),
        ("be cheaper: looking once earns more already", lambda: gain() > -0.002),
    )


def check_cheat(cheat) -> Check:
    """Turns about a pizza that CARELESS pays in full and that look nothing up."""

    def score(function):
        (value,) = RewardSet(function)([""], [_played(cheat)], portions=[PIZZA])[0]
        return value

    honest = _played(["<<lookup pizza 150>>", "#### 402"])
    full = RewardSet(CARELESS)([""], [honest], portions=[PIZZA])[0][0]
    return judge(
        (
            "be a list of texts, the model's turns",
            lambda: isinstance(cheat, list) and all(isinstance(t, str) for t in cheat),
        ),
        ("be a conversation that can be played", lambda: _played(cheat).turns),
        ("not be solved: it is a cheat", lambda: score(food_rewards.solved) == 0),
        ("be paid in full, as the right answer is", lambda: score(CARELESS) >= full),
        ("look nothing up", lambda: not _played(cheat).calls),
    )


def check_silence(answer) -> Check:
    """A reward function that prices saying nothing about food that is there."""
    called, quiet = _played(["<<lookup pizza 150>>", "#### 402"]), _played(["#### 402"])
    declined = _played([food_rewards.NO_FOOD])

    def score(trace, portions):
        columns = {"image": [None], "number": [0], "level": [1]}
        (value,) = answer([""], [trace], portions=[portions], **columns)
        return value

    def all_scores():
        return answer([""] * 3, [called, quiet, declined], portions=[PIZZA, PIZZA, []])

    return judge(
        ("return a list", lambda: isinstance(all_scores(), list)),
        ("return one number per completion", lambda: len(all_scores()) == 3),
        ("accept further columns", lambda: score(called, PIZZA) is not None),
        ("cost nothing where the tool was called", lambda: score(called, PIZZA) == 0),
        ("cost a point where food is denied", lambda: score(declined, PIZZA) == -1),
        ("cost a point where a number is invented", lambda: score(quiet, PIZZA) == -1),
        (
            "cost nothing where there is no food to look up",
            lambda: score(declined, []) == 0,
        ),
        ("keep the order of the completions", lambda: all_scores() == [0, -1, 0]),
        ("be right for every mixture of conversations", lambda: _priced(answer)),
        (
            "leave conversations and plates as they are",
            lambda: leaves_alone(
                lambda talks, plates: answer([""] * 2, talks, portions=plates),
                [called, quiet],
                [PIZZA, []],
            ),
        ),
    )


def _priced(answer):
    """Whether a reward prices silence rightly in batches of everything there is."""
    turns = ["<<lookup pizza 150>>", "<<lookup sushi 80>>", "#### 402"]
    twice, sushi = _played(turns), _played(turns[1:])
    broken = _played(["<<lookup pizza", "#### 1"])
    nothing = _played(["<<lookup plate 150>>", "#### 1"])  # a call, and no such food
    unmarked = _played(["<<lookup pizza 150>>", "It has 402 kcal."])
    traces = [
        twice,
        broken,
        nothing,
        unmarked,
        sushi,
        _played(["#### 7"]),
        _played(["I see."]),
        broken,
    ]
    plates = [PIZZA, [], PIZZA * 2, [{"food": "sushi", "grams": 80}]]
    batch = [(trace, plate) for plate in plates for trace in traces]
    completions, portions = map(list, zip(*batch, strict=True))
    paid = answer([""] * len(batch), completions, portions=portions)
    return list(paid) == [-float(bool(p) and not t.calls) for t, p in batch]


def _played(turns):
    """The conversation of these turns with the real tool."""
    return traces.trace(nutrition.TINY, turns, [nutrition.TOOL])
