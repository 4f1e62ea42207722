"""Sums as they are written, (16-3-4)*2, and their exact values.

They come from a model: nothing is run as code, nothing is deep or endless.
"""

import operator
import re
from fractions import Fraction

LONGEST_SUM = 120  # characters
LONGEST_VALUE = 15
DECIMALS = 4  # of a value that is written down; GSM8K's own have at most three

_SUM_TOKEN = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+|//|[-+*/()]")
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_OPERATORS |= {"/": operator.truediv, "//": operator.floordiv}
_SIGNS = {"+": "plus", "-": "minus"}  # before a number
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "plus": 3, "minus": 3}


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
    values, waiting, wants_number = [], [], True
    for token in tokens:
        if wants_number and (token == "(" or token in _SIGNS):
            waiting.append(_SIGNS.get(token, token))
        elif wants_number:
            if token[0] not in ".0123456789":
                return None
            values.append(Fraction(token))
            wants_number = False
        elif token == ")":
            while waiting[-1] != "(":
                _apply(waiting.pop(), values)
            waiting.pop()
        elif token in _OPERATORS:
            while waiting and _BINDS.get(waiting[-1], 0) >= _BINDS[token]:
                _apply(waiting.pop(), values)
            waiting.append(token)
            wants_number = True
        else:
            return None
    while waiting:
        _apply(waiting.pop(), values)
    return None if wants_number else values[0]


def _apply(operation, values):
    right = values.pop()
    if operation in _SIGNS.values():
        values.append(right if operation == _SIGNS["+"] else -right)
    else:
        # // gives an int, and an int divided by an int is a rounded float.
        values.append(Fraction(_OPERATORS[operation](values.pop(), right)))
