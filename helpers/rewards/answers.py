"""Reads a worked answer: the number it ends in, and the calculations that it shows.

    She sold 48/2 = <<48/2=24>>24 clips in May.
    #### 24

Numbers become exact fractions, so that 0.1 + 0.2 is 0.3. The text may come from a model
that has learned to cheat its checker, or from one that has collapsed. So only the end
of a long text is read, endless digits are not a number, and nothing is ever run as
code.
"""

import re
import unicodedata
from fractions import Fraction

from helpers.text.encoding import THOUGHT_MARKS
from helpers.tools.calculator import calculate, written

MARK = "####"
LONGEST_TEXT = 20_000  # characters; of a longer text only the end is read
LONGEST_NUMBER = 40

# Full-width digits and signs, and the dashes that are used as a minus.
_PLAIN: dict[int, int | str] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_PLAIN |= dict.fromkeys(map(ord, "−﹣‐‑–"), "-")
_SPACES = dict.fromkeys(map(ord, "\u00a0\u2009\u202f"), " ")  # that group digits

_NUMBER = re.compile(
    r"""
    (?P<minus> (?<![\w)%]) -[$€£¥]? )?      # a minus, but not that of 10-3
    (?P<whole> (?<!\w) (?:
          \d{1,3} (?: ,\d{3} )+ (?!\d)      # 1,000,000
        | \d{1,2} (?: ,\d{2} ){1,12} ,\d{3} (?!\d)  # 10,00,000 as in India
        | \d{1,3} (?: \.\d{3} ){2,} (?!\d)  # 1.000.000 as in Germany
        | [1-9]\d{0,2} (?: [ ]\d{3} )+ (?!\d)  # 1 000 000 as in France
        | \d++ )
      | (?<![\w.]) (?= \.\d ) )             # .5
    (?: [ ] (?P<numerator> \d++ ) (?= /\d++ (?!/\d) )    # 1 1/2, not 3 4/5/2020
      | (?P<decimals> \.\d++ )?
        (?: e (?P<exponent> [+-]?\d++ ) (?!\w) )?
    )
    (?P<divisors> (?: /\d++ )* )            # 1/2; a date has two
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_SCALE = re.compile(
    # 5k, $5 M and 3MM, but not 5 km, 5 m and 5 mm
    r"(?i)!|\s*(?:k|[bt]n|mln|mio|mrd|(?-i:MM?|B))(?![a-z])"
    r"|\s*-?(?:dozen|hundred|thousand|lakh|crore|[mb]illion|trillion)"
    r"|\s+and\s+(?:an?|one)\s+(?:half|third|quarter)"
)
_BEFORE = re.compile(r"[-+$€£¥\s]*")  # signs, with or without spaces: "- $ 5"
_SIGN_APART = re.compile(r"-\t+")
_START = re.compile(r"[$€£¥]?\+?")


# Markdown and LaTeX around the number: **18**, $\boxed{18}$, \$18. What instruct models
# are known to write is taken off pair by pair, from the inside. A pair that is not
# closed or an unknown command makes the line unreadable. Nothing that is taken off
# joins what stands on its two sides: 1**8** is two numbers, not 18.
LONGEST_LINE = 300  # characters; a longer line with markup in it is a sentence

_MARKUP = re.compile(r"[\\{}*_`]|\$[^$]*\$")
_GAP = "\t"  # not a space, which groups digits: 1 000
_SIGNS = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"-\\[dt]?frac\{(\d{1,20})\}\{(\d{1,20})\}", rf"-\1/\2{_GAP}"),
        (r" ?\\[dt]?frac\{(\d{1,20})\}\{(\d{1,20})\}", rf" \1/\2{_GAP}"),
        (r"\^(?:\\circ|\{\\circ\})", _GAP),
        (r"\{,\}|,\\!", ","),  # 1{,}000
        (r"\\[, ]", " "),  # 1\,000
        (r"\\%", "%"),
        (r"\\(?:[$;:]|q?quad\b)", _GAP),
    )
)
_PAIRS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\\(?:boxed|text|textbf|mathbf|mathrm|mbox)\{(?P<inside>[^{}]*)\}",
        r"\\\((?P<inside>[^\\$]*)\\\)",
        r"\\\[(?P<inside>[^\\$]*)\\\]",
        r"(?<!\$)(?P<run>\${1,2})(?P<inside>[^$]*[0-9][^$]*)(?P=run)(?!\$)",
        r"(?<!\*)(?P<run>\*{1,3})(?P<inside>[^*_`]+)(?P=run)(?!\*)",
        r"(?<!_)(?P<run>_{1,3})(?P<inside>[^*_`]+)(?P=run)(?!_)",
        r"(?<!`)(?P<run>`{1,2})(?P<inside>[^*_`]+)(?P=run)(?!`)",
    )
)
_LEFT = re.compile(r"[\\{}*`]|\$\$|(?<![^\W\d_])_|_(?![^\W\d_])")  # but a_b is a word


def without_thoughts(text):
    """The text without what a model thinks, between <think> and </think>.

    Qwen3 thinks first, then answers. Some templates end their prompt in <think>, and
    rollouts put that before the answer. A thought that never ends gives no answer.
    """
    for begin, end in THOUGHT_MARKS:
        text = text.rpartition(end)[2].partition(begin)[0]
    return text


def extract_strict(text):
    """The number directly after the last `####`, or None.

    Signs may stand before it, with or without spaces ("#### - $3"), and words after it
    ("#### $18 a day"), but no other digit on the line: an answer that names two numbers
    has not decided. "1 000" and "1 1/2" are one number; "5½", "2⁵", "3!", "5k" and "5
    million" are not read as 5, 2, 3, 5 and 5. A percent sign is a unit: 5% is 5. If
    there are several `####`, the last one counts. Markdown and LaTeX around the number
    are taken off (`_undecorated`), if every pair is closed.

    Args:
      text: a completion; only what is `without_thoughts` counts.

    Returns:
      The number as a Fraction, or None.
    """
    rest = _undecorated_rest(_plain(without_thoughts(text)))
    if rest is None:
        return None
    rest = _BEFORE.sub(lambda before: "".join(before[0].split()), rest, count=1)
    start = _START.match(rest)
    match = _NUMBER.match(rest, start.end() if start else 0)
    if match is None or _changes(rest[match.end() :]):
        return None
    return _value(match)


def _changes(rest):
    """Whether what follows a number names another, or makes another of it: ½, ², !."""
    numeric = any(unicodedata.numeric(letter, None) is not None for letter in rest)
    return numeric or _SCALE.match(rest) is not None


def extract_lenient(text):
    """The last number on the last `####` line, else the last number of the text.

    Whatever `extract_strict` finds, this finds too, and first. It forgives a missing
    mark, words before the number, and chatter after it. Markup is taken off line by
    line where it can be read.

    Args:
      text: a completion.

    Returns:
      The number as a Fraction, or None where there is none.
    """
    if (value := extract_strict(text)) is not None:
        return value
    text = _plain(without_thoughts(text)).translate(_SPACES)
    _, mark, rest = text.rpartition(MARK)
    after_mark = _numbers(rest.partition("\n")[0]) if mark else []
    numbers = after_mark or _numbers(text)
    return numbers[-1] if numbers else None


def ends_in_answer_line(text):
    """Whether a text has exactly one `####` and ends in a line "#### number"."""
    text = without_thoughts(text)
    last = _plain(text.rstrip()).rpartition("\n")[2]
    match = _NUMBER.fullmatch(last, len(MARK) + 1)
    in_place = last.startswith(MARK + " ") and text.count(MARK) == 1
    return bool(in_place and match and _value(match) is not None)


def annotations(text):
    """Whether each calculation between `<<` and `>>` holds, in order.

    `<<48/2=24>>` holds; `<<48/2=23>>`, `<<48/2>>`, `<<two=2>>`, `<<1/0=0>>` and a `<<`
    that is never closed do not. A value may be rounded as `helpers.tools.calculator`
    rounds it, and not otherwise: `<<100/3=33.3333>>` holds, `<<100/3=33.3>>` does not.

    Args:
      text: a completion.

    Returns:
      A list of bools, one for each `<<`.
    """
    return [_holds(rest) for rest in _plain(text).split("<<")[1:]]


def _holds(rest):
    """Whether a text begins with "a+b=c>>", and the sum is right."""
    inside, closed, _ = rest.partition(">>")
    left, equals, right = inside.partition("=")
    value = calculate(left)
    if not (closed and equals) or value is None:
        return False
    return value == calculate(right) or right == written(value)


def _plain(text):
    return text[-LONGEST_TEXT:].translate(_PLAIN)


def _undecorated_rest(text):
    """What follows the last mark, without markup; None where that is not balanced.

    The pair may stand around the mark as well: **#### 18**.
    """
    before, mark, rest = text.rpartition(MARK)
    if not mark:
        return None
    rest = rest.partition("\n")[0]
    if (plain := _undecorated(rest)) is not None:
        return plain
    line = _undecorated(before.rpartition("\n")[2] + mark + rest)
    return None if line is None else line.rpartition(MARK)[2]


def _numbers(text):
    """All that are named, read without markup where a line's is balanced and known."""
    values = []
    for line in text.splitlines():
        plain = _undecorated(line)
        # What is taken off leaves a gap, also in -\$5 and -**5**.
        line = line if plain is None else _SIGN_APART.sub("-", plain)
        values += [_value(match) for match in _NUMBER.finditer(line)]
    return [value for value in values if value is not None]


def _value(match):
    """The matched number as a Fraction; None for dates, x/0, 1 3/2 and monsters."""
    exponent, divisors = match["exponent"] or "0", match["divisors"].split("/")[1:]
    if len(match[0]) > LONGEST_NUMBER or len(exponent) > 4 or len(divisors) > 1:
        return None
    digits = re.sub(r"\D", "", match["whole"]) or "0"
    value = Fraction(digits + (match["decimals"] or "")) * Fraction(10) ** int(exponent)
    if divisors:
        below, above = int(divisors[0]), match["numerator"]
        if below == 0 or (above and int(above) >= below):
            return None
        value = value + Fraction(int(above), below) if above else value / below
    return -value if match["minus"] else value


def _undecorated(line):
    """The line without markup, or None where the markup is not balanced or not known.

    A line without any is returned as it is, and so is one dollar sign: $18 is money.
    """
    if not _MARKUP.search(line):
        return line
    if len(line) > LONGEST_LINE:
        return None
    for pattern, plain in _SIGNS:
        line = pattern.sub(plain, line)
    before = None
    while line != before:
        before = line
        for pattern in _PAIRS:
            line = pattern.sub(rf"{_GAP}\g<inside>{_GAP}", line)
    return None if _LEFT.search(line) else line
