"""A calculator in the middle of an answer: `<<48/2=` is a call, `24>>` its result.

GSM8K's worked solutions (Cobbe et al. 2021, 2110.14168) mark their sums so, and their
authors let the model write up to the `=` and the machine write on from there:

    She sold 48/2 = <<48/2=24>>24 clips in May.

What is between `<<` and `=` comes from a model, so it may be anything. What is no plain
sum (`$5*2`, `20%*50`, `1,000+1`, `1/0`, `x*2`) is refused with `?>>`, not with an error
in words, for the answer goes on in the same line.
"""

import re

from helpers.tools.sums import LONGEST_SUM, LONGEST_VALUE, calculate, written
from helpers.tools.tool import Tool

OPEN, STOP, CLOSE = "<<", "=", ">>"
REFUSED = "?"
LONGEST_RESULT = LONGEST_VALUE + len(CLOSE)  # characters

SCHEMA = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "The value of a sum: numbers joined by + - * / // and ().",
        "parameters": {
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "Such as (16-3-4)*2.",
                    "minLength": 1,
                    "maxLength": LONGEST_SUM,
                },
            },
            "required": ["expression"],
            "additionalProperties": False,
        },
    },
}


def _run(expression):
    value = calculate(expression)
    if value is None:
        return {"error": "this is no sum of plain numbers, or it has no value"}
    if (text := written(value)) is None:
        return {"error": "the value is too large or too small to be written down"}
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
    _, mark, asked = text.rpartition(OPEN)
    is_open = mark and asked.endswith(STOP) and CLOSE not in asked
    return asked[: -len(STOP)] if is_open and "\n" not in asked else None


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
      (pieces, rest): pieces are (own, result) in order, `own` what the author wrote up
      to an `=`, `result` that of the call; `rest` is what follows the last. What the
      author wrote as the result, up to `>>`, is in neither: the machine's takes its
      place.
    """
    pieces: list[tuple[str, dict]] = []
    while len(pieces) < most and (end := _first_call(text)):
        own, text = text[:end], _OWN_RESULT.sub("", text[end:], count=1)
        pieces.append((own, TOOL.call({"expression": opened(own)})))
    return pieces, text


_OWN_RESULT = re.compile(r"\A(?:(?!<<)[^\n])*?>>")


def _first_call(text):
    """How many characters of the text end in its first open call; None if none do."""
    ends = (match.end() for match in re.finditer(STOP, text))
    return next((end for end in ends if opened(text[:end]) is not None), None)
