"""Rewards for conversations with the nutrition tool, one for each desired behaviour.

Each is `(prompts, completions, **columns) -> list[float]`, as in `helpers.rewards`; a
completion is a `tool.Trace`. The column `portions` has, per row, what is on the
picture and how much of it is asked for: [{"food": "pizza", "grams": 150}], or [] where
there is no food. The last line of an answer reads `#### 402` (kcal, the sum of all
portions) or `#### no food`.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable

from helpers.rewards.answers import MARK
from helpers.tools import nutrition

NO_FOOD = f"{MARK} no food"
LONGEST_THOUGHT = 200  # characters
MOST_CALLS = 8  # further calls are not looked at, and cost no more
_NUMBER = re.compile(rf"{MARK} ([0-9]{{1,6}})(?: kcal)?")


def solved(prompts, completions, portions, **_):
    """1.0 where the right foods and grams were looked up, and their sum was answered.

    A right sum that was not looked up earns 0.0. Without food on the picture, only an
    answer that declines earns 1.0.
    """

    def score(trace, wanted):
        if not wanted:
            return _declines(trace)
        calls, gold = Counter(_uses(trace, answered=True)), Counter(_gold(wanted))
        kcal = sum(nutrition.lookup_nutrition(*p)["kcal"] for p in gold.elements())
        return (calls & gold) == gold and _number(trace) == kcal

    return _each(score, completions, portions)


def well_formed(prompts, completions, portions, **_):
    """1.0 where there are calls, all of a known tool and none malformed."""

    def score(trace, wanted):
        known = all(call.name == nutrition.TOOL.name for call, _ in trace.calls)
        return bool(wanted and trace.calls) and known and not _malformed(trace)

    return _each(score, completions, portions)


def right_food(prompts, completions, portions, **_):
    """The share of foods looked up, or of calls if there are more calls than foods."""

    def score(trace, wanted):
        gold = [food for food, _ in _gold(wanted)]
        return _share([food for food, _ in _uses(trace)], gold, trace)

    return _each(score, completions, portions)


def right_grams(prompts, completions, portions, **_):
    """As `right_food`, but food and grams must both be right."""

    def score(trace, wanted):
        return _share(_uses(trace), _gold(wanted), trace)

    return _each(score, completions, portions)


def tools_numbers(prompts, completions, **_):
    """1.0 where the answer is a number of kcal from the tool, or a sum of such numbers.

    It does not check that the right food was looked up, only that nothing is invented.
    """
    return [float(_number(trace) in _sums(trace)) for trace in completions]


def final_format(prompts, completions, **_):
    """1.0 where there is one `####`, in a well-formed last line."""
    return [
        float(_number(trace) is not None or _last_line(trace) == NO_FOOD)
        for trace in completions
    ]


def thinks(prompts, completions, **_):
    """1.0 where the first turn has a thought, and none is longer than LONGEST_THOUGHT.

    Text before a call, or before the last line, counts as a thought.
    """
    lengths = [[len(t) for t in _thoughts(trace)] for trace in completions]
    return [float(any(row[:1]) and max(row) <= LONGEST_THOUGHT) for row in lengths]


def needless_calls(prompts, completions, portions, **_):
    """-1/8 for each call of a food that is not there, or a repeated one; at least -1.

    Foods are counted, not grams: a wrong weight is not a needless call.
    """

    def score(trace, wanted):
        gold = Counter(food for food, _ in _gold(wanted))
        needed = (Counter(food for food, _ in _uses(trace)) & gold).total()
        return -min(len(trace.calls) - needed, MOST_CALLS) / MOST_CALLS

    return _each(score, completions, portions)


def declined(prompts, completions, portions, **_):
    """1.0 where there is no food, and the answer says so without a call; else 0.0."""
    return _each(lambda t, wanted: not wanted and _declines(t), completions, portions)


# For `rewards.RewardSet`. A solved conversation outweighs all the parts together, so
# that no part is worth having alone.
WEIGHTS: dict[Callable[..., list[float]], float] = {
    solved: 1.0,
    well_formed: 0.1,
    right_food: 0.2,
    right_grams: 0.1,
    tools_numbers: 0.1,
    final_format: 0.1,
    thinks: 0.05,
    needless_calls: 0.4,
    declined: 0.2,
}


def _each(score, completions, portions):
    return [float(score(*pair)) for pair in zip(completions, portions, strict=True)]


def _malformed(trace):
    return any(turn.error for turn in trace.turns)


def _declines(trace):
    decides = _last_line(trace) == NO_FOOD
    return decides and not trace.calls and not _malformed(trace)


def _gold(wanted):
    """(Food-101 class, grams) of each portion.

    Raises:
      ValueError: the tool does not know it; else a call of nothing it knows were right.
    """
    gold = [(nutrition.canonical(p["food"]), p["grams"]) for p in wanted]
    for food, grams in gold:
        if "error" in nutrition.lookup_nutrition(food, grams):
            raise ValueError(
                f"portions are {wanted}, of which the tool knows no {grams} g of this "
                "food: use names of Food-101, and grams above 0 and up to 5000."
            )
    return gold


def _uses(trace, answered=False):
    """(Food-101 class or None, grams or None) of each call of the right tool.

    Args:
      answered: leave out those of which the result is an error.
    """
    uses = []
    for call, result in trace.calls:
        if call.name != nutrition.TOOL.name or (answered and "error" in result):
            continue
        grams = call.arguments.get("grams")
        is_number = isinstance(grams, int | float) and not isinstance(grams, bool)
        food = nutrition.canonical(call.arguments.get("food"))
        uses.append((food, grams if is_number else None))
    return uses


def _share(calls, gold, trace):
    """The share of `gold` among the calls, or of the calls if those are more."""
    most = max(len(gold), len(trace.calls))
    return (Counter(calls) & Counter(gold)).total() / most if gold else 0.0


def _sums(trace):
    """All sums of kcal that the tool gave: of each result, of two, and so on."""
    looked_up = (r for call, r in trace.calls if call.name == nutrition.TOOL.name)
    kcal = [result["kcal"] for result in looked_up if "kcal" in result][:MOST_CALLS]
    sizes = range(1, len(kcal) + 1)
    return {sum(c) for size in sizes for c in itertools.combinations(kcal, size)}


def _last_line(trace):
    """The last line of the answer; "" where there is not one `####` in all."""
    if trace.spoken.count(MARK) != 1:
        return ""
    return trace.answer.rpartition("\n")[2].strip()


def _number(trace):
    """The number on the last line; None: there is none, or another unit than kcal."""
    match = _NUMBER.fullmatch(_last_line(trace))
    return int(match[1]) if match else None


def _thoughts(trace):
    """The thought of each turn, else its text before a `####`."""
    return [
        turn.thought or turn.text.partition(MARK)[0].strip() for turn in trace.turns
    ]
