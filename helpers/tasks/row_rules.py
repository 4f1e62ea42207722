"""What the rows of one table must have in common, and what none may repeat.

A rule is a function (place, row) that says what is wrong, None if nothing is.
"""

import collections
import math
import numbers
from collections.abc import Mapping

from helpers.tasks.row_faults import COLUMNS, LONGEST_NAME, is_nothing, plain
from helpers.text import chat

REMEDY = "shorten it, or raise the limit"
SHOWN = 5  # places or columns that a report names
KINDS: dict[str, type | tuple[type, ...]] = {  # the first that holds: True is a number
    "text": str,
    "true or false": bool,
    "a number": numbers.Number,
    "an object": Mapping,
    "a list": (list, tuple),
}


def passing(rows, rule, faults):
    """The rows in which a rule finds no fault; the others are noted."""
    kept = []
    for place, row in rows:
        if what := rule(place, row):
            faults[what].append(place)
        else:
            kept.append((place, row))
    return kept


def new_question():
    """No question comes twice, or would fall on both sides of a split."""
    seen, alike = set(), set()

    def rule(place, row):
        question = row["question"]
        key = plain(question)
        is_known, is_like = question in seen, key in alike
        seen.add(question)
        alike.add(key)
        if is_known:
            return "a question that came before"
        if is_like:
            return "a question that came before, but for capitals, blanks or codes"
        return None

    return rule


def same_columns(rows):
    """Most rows decide which columns there are."""
    sets = collections.Counter(frozenset(row) for _, row in rows)
    usual = sets.most_common(1)[0][0] if sets else frozenset()

    def rule(place, row):
        if other := usual ^ row.keys():
            return f"other columns than most rows: {shown(other)}"
        return None

    return rule


def sparse_columns(rows) -> dict[str, int]:
    """{name: filled cells} of columns that some rows fill, and fewer than half."""
    filled = collections.Counter(
        name for _, row in rows for name, value in row.items() if not is_nothing(value)
    )
    return {name: n for name, n in filled.items() if 2 * n < len(rows)}


def filled_columns(rows):
    """A column is filled in every row, or in none: a reward cannot pay for a gap."""
    filled = {name for _, row in rows for name, x in row.items() if not is_nothing(x)}

    def rule(place, row):
        for name, value in row.items():
            if name in filled and is_nothing(value):
                return (
                    f'nothing in the column "{shown([name])}": fill it, or leave the '
                    "column out of all rows"
                )
        return None

    return rule


def same_kinds(rows):
    """Most rows decide what kind of value a column has."""
    counts: dict[str, collections.Counter] = collections.defaultdict(
        collections.Counter
    )
    for _, row in rows:
        for name, value in row.items():
            counts[name][_kind(value)] += 1
    usual = {name: kinds.most_common(1)[0][0] for name, kinds in counts.items()}

    def rule(place, row):
        for name, value in row.items():
            if (kind := _kind(value)) != usual[name]:
                return (
                    f'{kind} in the column "{shown([name])}", where most rows have '
                    f"{usual[name]}: write all alike"
                )
        return None

    return rule


def _kind(value):
    if is_nothing(value):
        return "nothing"
    found = (kind for kind, types in KINDS.items() if isinstance(value, types))
    return next(found, "something else")


def shown(names):
    """Names that a file chose: some of them, cut short, no control characters."""
    short = sorted(
        n if len(n) <= LONGEST_NAME else n[:LONGEST_NAME] + "…" for n in map(str, names)
    )
    shown = [n if n.isprintable() else ascii(n) for n in short[:SHOWN]]
    return ", ".join(shown + ["…"] * (len(short) > SHOWN))


def short_enough(rows, tokenizer, prompt_tokens: int | None, completion_tokens):
    """A text may have more after its answer's end."""
    prompt_most, completion_most = (
        math.inf if limit is None else limit
        for limit in (prompt_tokens, completion_tokens)
    )
    questions, answers = ([row[name] for _, row in rows] for name in COLUMNS)
    prompts = chat.prompts_tokens(tokenizer, questions)
    examples = chat.examples_tokens(tokenizer, questions, answers)
    counted = {
        place: (len(prompt), sum(mask), len(tokens))
        for (place, _), prompt, (tokens, mask) in zip(
            rows, prompts, examples, strict=True
        )
    }
    both = prompt_most + completion_most

    def rule(place, row):
        asked, answered, together = counted[place]
        if asked > prompt_most:
            return f"a prompt of more than {prompt_most} tokens: {REMEDY}"
        if answered > completion_most:
            return (
                f"an answer of more than {completion_most} tokens, its end included: "
                f"{REMEDY}"
            )
        if together > both:
            return f"more than {both} tokens with its chat template: {REMEDY}"
        return None

    return rule
