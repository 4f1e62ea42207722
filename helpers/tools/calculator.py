"""A calculator in the middle of an answer: `<<48/2=` is a call, `24>>` its result.

GSM8K's worked solutions (Cobbe et al. 2021, 2110.14168) mark their sums so, and their
authors let the model write up to the `=` and the machine write on from there:

    She sold 48/2 = <<48/2=24>>24 clips in May.

What is between `<<` and `=` comes from a model, so it may be anything. What is no plain
sum (`$5*2`, `20%*50`, `1,000+1`, `1/0`, `x*2`) is refused with `?>>`, not with an error
in words, for the answer goes on in the same line.
"""

import ast
import itertools
import operator
import re
from collections.abc import Callable
from fractions import Fraction

LONGEST_SUM = 120  # characters
LONGEST_VALUE = 15
DECIMALS = 4  # of a value that is written down; those of GSM8K have at most three

_SUM = re.compile(r"[0-9.+*/() -]+")
_LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")  # Python reads no 007
_OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def calculate(expression):
    """The value of numbers joined by + - * / // and parentheses.

    Python's parser gives the tree, and nothing of it is run.

    Args:
      expression: such as "(16-3-4)*2".

    Returns:
      A Fraction; None for anything else, division by zero included.
    """
    text = _LEADING_ZEROS.sub("", " ".join(expression.split()))
    if len(expression) > LONGEST_SUM or not _SUM.fullmatch(text):
        return None
    try:
        return _value(ast.parse(text, mode="eval").body, text)
    except (SyntaxError, KeyError, ZeroDivisionError):
        return None


def _value(node, text):
    """The value of a parsed sum; a KeyError for what is none, such as 2**3 or 1(2)."""
    if isinstance(node, ast.Constant):  # from its digits, for a float is not exact
        return Fraction(text[node.col_offset : node.end_col_offset])
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, text))
    if not isinstance(node, ast.BinOp):
        raise KeyError(type(node))
    left, right = _value(node.left, text), _value(node.right, text)
    # // gives an int, and an int divided by an int is a rounded float.
    return Fraction(_OPERATORS[type(node.op)](left, right))


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


OPEN, STOP, CLOSE = "<<", "=", ">>"
REFUSED = "?" + CLOSE
# A call, and the result that an author wrote behind it, if any.
_WRITTEN_CALL = re.compile(r"<<(?!<)((?:(?!<<|>>)[^\n])*?)=(?:(?:(?!<<)[^\n])*?>>)?")


def reply(expression):
    """What the machine writes behind `<<expression=`: "24>>", or REFUSED."""
    value = calculate(expression)
    text = None if value is None else written(value)
    return REFUSED if text is None else text + CLOSE


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


def split(text, most):
    """Cut a worked solution where the machine would write.

    Args:
      text: a solution with annotations.
      most: calls that are answered; further ones stay as the author wrote them.

    Returns:
      (pieces, rest): pieces are (before, reply) in order, `before` what the author
      wrote up to an `=`; `rest` is what follows the last. The result that the author
      wrote, up to `>>`, is in neither: the machine's reply takes its place.
    """
    pieces: list[tuple[str, str]] = []
    end = 0
    for match in itertools.islice(_WRITTEN_CALL.finditer(text), most):
        before, end = text[end : match.end(1) + len(STOP)], match.end()
        pieces.append((before, reply(match[1])))
    return pieces, text[end:]
