"""A calculator in the middle of an answer: `<<48/2=` is a call, `24>>` its result.

GSM8K's worked solutions (Cobbe et al. 2021, 2110.14168) mark their sums so, and their
authors let the model write up to the `=` and the machine write on from there:

    She sold 48/2 = <<48/2=24>>24 clips in May.

What is between `<<` and `=` comes from a model, so it may be anything. What is no plain
sum (`$5*2`, `20%*50`, `1,000+1`, `1/0`, `x*2`) is refused with `?>>`, not with an error
in words, for the answer goes on in the same line.
"""

import operator
import re
from fractions import Fraction

from helpers.tools.tool import Tool, schema_of

LONGEST_SUM = 120  # characters
LONGEST_VALUE = 15
DECIMALS = 4  # of a value that is written down; GSM8K's own have at most three

_SUM_TOKEN = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+|//|[-+*/()]")
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_OPERATORS |= {"/": operator.truediv, "//": operator.floordiv}
_SIGNS = {"+": "plus", "-": "minus"}  # before a number
_BINDS = {")": 0, "+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "plus": 3, "minus": 3}


def calculate(expression):
    """The value of numbers joined by + - * / // and parentheses, by a small parser.

    Args:
      expression: such as "(16-3-4)*2".

    Returns:
      A Fraction; None for anything else, division by zero included.
    """
    if len(expression) > LONGEST_SUM:
        return None
    tokens = _SUM_TOKEN.findall(expression)
    if "".join(tokens) != "".join(expression.split()):
        return None
    try:
        return _sum(tokens)
    except (IndexError, KeyError, ZeroDivisionError):
        return None


def written(value):
    """A value in decimals, as a calculator shows it: "24", "0.5", "33.3333".

    Args:
      value: a Fraction.

    Returns:
      str, rounded to DECIMALS, without zeros at its end; None where that says nothing
      (1/100000 would be 0) or takes more than LONGEST_VALUE characters.
    """
    units = round(value * 10**DECIMALS)
    whole, rest = divmod(abs(units), 10**DECIMALS)
    text = f"{'-' * (units < 0)}{whole}.{rest:0{DECIMALS}}".rstrip("0").rstrip(".")
    return None if (value and not units) or len(text) > LONGEST_VALUE else text


def _sum(tokens):
    """Their value; None, an IndexError or a KeyError where they are no sum.

    Dijkstra's two stacks in place of recursion: whether parentheses are too many must
    not hang on the stack that the caller has left.
    """
    values, waiting, wants_number = [], ["("], True
    for token in [*tokens, ")"]:
        if wants_number and (token == "(" or token in _SIGNS):
            waiting.append(_SIGNS.get(token, token))
        elif wants_number:
            if token[0] not in ".0123456789":
                return None
            values.append(Fraction(token))
            wants_number = False
        else:
            binds = _BINDS[token]  # a KeyError for what is no operator
            while waiting[-1] != "(" and _BINDS[waiting[-1]] >= binds:
                _apply(waiting.pop(), values)
            if token == ")":
                waiting.pop()
            else:
                waiting.append(token)
                wants_number = True
    return None if waiting or wants_number else values[0]


def _apply(operation, values):
    right = values.pop()
    if operation in _SIGNS.values():
        values.append(right if operation == _SIGNS["+"] else -right)
    else:
        # // gives an int, and an int divided by an int is a rounded float.
        values.append(Fraction(_OPERATORS[operation](values.pop(), right)))


OPEN, STOP, CLOSE = "<<", "=", ">>"
REFUSED = "?"
LONGEST_RESULT = LONGEST_VALUE + len(CLOSE)  # characters

SCHEMA = schema_of(
    "calculate",
    "The value of a sum: numbers joined by + - * / // and ().",
    expression={
        "type": "string",
        "description": "Such as (16-3-4)*2.",
        "minLength": 1,
        "maxLength": LONGEST_SUM,
    },
)


def _run(expression):
    value = calculate(expression)
    text = None if value is None else written(value)
    if text is None:
        return {"error": "this is no sum of plain numbers, or its value is not short"}
    return {"value": text}


TOOL = Tool(SCHEMA, _run)


def opened(text):
    """What the text asks the calculator at its end; None if it asks nothing.

    Args:
      text: an answer so far, what the machine wrote in it included.

    Returns:
      str, all from the last `<<` to an `=` that ends the text, if no `>>` and no end of
      a line is between them; it need not be a sum.
    """
    _, mark, call = text.rpartition(OPEN)
    is_open = mark and call.endswith(STOP) and CLOSE not in call
    return call[: -len(STOP)] if is_open and "\n" not in call else None


def reply(result):
    """What the machine writes after the `=`: "24>>", or "?>>" for an error.

    Args:
      result: of a call of TOOL.
    """
    return result.get("value", REFUSED) + CLOSE


def split(text, most):
    """Cut a worked solution where the machine would write.

    Args:
      text: a solution with annotations.
      most: calls that are answered; further ones are the author's own.

    Returns:
      (pieces, rest): pieces are (before, result) in order, `before` what the author
      wrote up to an `=`, `result` that of the call; `rest` is what follows the last.
      The result that the author wrote, up to `>>`, is in neither: the machine's takes
      its place.
    """
    pieces: list[tuple[str, dict]] = []
    while len(pieces) < most and (end := _first_call(text)):
        before, text = text[:end], _WRITTEN_RESULT.sub("", text[end:], count=1)
        pieces.append((before, TOOL.call({"expression": opened(before)})))
    return pieces, text


_WRITTEN_RESULT = re.compile(r"\A(?:(?!<<)[^\n])*?>>")


def _first_call(text):
    """How many characters of the text end in its first open call; None if none do."""
    ends = (match.end() for match in re.finditer(STOP, text))
    return next((end for end in ends if opened(text[:end]) is not None), None)
