"""Reads a worked answer: the number it ends in, and the calculations that it shows.

    She sold 48/2 = <<48/2=24>>24 clips in May.
    #### 24

Numbers become exact fractions, so that 0.1 + 0.2 is 0.3. A number is read as a whole or
not at all, never as its first digits: 5x, 2π, 5 squared, 3 million, 5:30 and 10^3 are
nothing. Digits may be those of any script. Where a notation is ambiguous, this is how
it is read:

    1,080  1 080  1'080  1_080    1080, for groups of three digits are thousands
    1.080                         1.08; several points group: 1.080.000 is 1080000
    18,50  0,125                  18.5 and 0.125: the comma is decimal before one or two
                                  digits, behind a zero, and behind other groups
    1.080,50  1,080.50            1080.5
    5m                            nothing, for it may be algebra; but 5 m is 5 metres
    5%                            5: a percent sign is a unit
    12،5                          12.5: the Arabic comma is a comma

The text may come from a model that has learned to cheat its checker, or from one that
has collapsed. So only the end of a long text is read, endless digits are not a number,
and nothing is ever run as code.
"""

import re
import unicodedata
from fractions import Fraction

from helpers.text.encoding import THOUGHT_MARKS
from helpers.tools.calculator import calculate, written

MARK = "####"
LONGEST_TEXT = 20_000  # characters; of a longer text only the end is read
LONGEST_NUMBER = 40

# Full-width digits and signs, the dashes that are used as a minus, other slashes and
# apostrophes and dots, and the signs of Arabic numbers.
_PLAIN: dict[int, int | str] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_PLAIN |= dict.fromkeys(map(ord, "−﹣‐‑–"), "-") | dict.fromkeys(map(ord, "⁄∕"), "/")
_PLAIN |= dict.fromkeys(map(ord, "’ʼ′"), "'") | dict.fromkeys(map(ord, "⋅∙∗"), "·")
_PLAIN |= {0x66A: "%", 0x66B: ".", 0x66C: ",", 0x60C: ","}

_NUMBER = re.compile(
    r"""
    (?P<minus> (?<![\w)%]) -[$€£¥]? )?      # a minus, but not that of 10-3
    (?P<digits>
        (?<![\wÀ-ÖØ-öø-ɏͰ-ԯ]) (?<! [(\[{] (?= \d+,\d\d?[)\]}] ) )  # (5,6) is a pair
        (?: [1-9]\d{0,2} (?: [ ]\d{3} )+ (?!\d) | \d++ )  # 1 000 000 as in France
        (?: [.,:'_]\d++ | [ ]0\d++ )*+     # all that belongs to it, right or wrong
      | (?<![\w.]) \.\d++ )                # .5
    (?: [ ] (?P<numerator> \d++ ) (?= /\d++ (?!/\d) )  # 1 1/2, not 3 4/5/2020
      | (?: e (?P<exponent> [+-]?\d++ ) (?!\w) )?
    )
    (?P<divisors> (?: /\d++ )* )            # 1/2; a date has two
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_WHOLE_AND_DECIMALS = (
    r"(\d*)(?:\.(\d+))?",
    r"([1-9]\d{0,2}(?:,\d{3})+)(?:\.(\d+))?",  # 1,000,000.5
    r"([1-9]\d?(?:,\d\d)+,\d{3})(?:\.(\d+))?",  # 10,00,000 as in India
    r"([1-9]\d{0,2}(?:(?: \d{3})+|(?:'\d{3})+|(?:_\d{3})+))(?:[.,](\d+))?",
    r"([1-9]\d{0,2}(?:\.\d{3}){2,})()",  # 1.000.000 as in Germany
    r"([1-9]\d{0,2}(?:\.\d{3})+),(\d+)",
    r"(\d+(?=,\d\d?\Z)|0),(\d+)",
)
_LIST = re.compile(r"\d\d?(?:,\d\d?){2,}", re.ASCII)

# What stands beside a number and makes another of it, or none. A variable is a letter
# alone, but not an article, an initial or the s of "John's".
_LETTER = r"A-Za-zͰ-Ͽ"
_VARIABLE = rf"(?:(?![aAI]\s+[a-z]{{2}})[{_LETTER}](?![\w'°]|\.\w))"
_FUNCTION = r"(?:sqrt|sin|cos|tan|log|ln|pi|choose|mod|power|power\ of)\b"
_UNKNOWN = r"(?!boxed|text|math|mbox|quad|circ)[a-z]+"  # commands of LaTeX
_AFTER = re.compile(
    rf"""
    \s*[!^√∛∞²⁻⁺ⁿˣ] | _ | \s*\.?\\{_UNKNOWN} | [({{]\s*(?:\d|{_VARIABLE})  # 5(x + 1)
  | \)*(?:[{_LETTER}]|[abcnpqrtuvwxyzͰ-Ͽ]{{2,3}}|[a-z][xy])(?![{_LETTER}])  # 5x
  | [ \t]+(?![mgshlL]\b){_VARIABLE}             # 5 x, but not 5 m
  | \s*(?:[-—+*/·×÷≤≥]+|[<>]\s)[\s({{]*(?:{_VARIABLE}|{_FUNCTION}|\d*√)  # 12 - x
  | \s+(?:[a-z]+\s+)?(?:times|plus|minus|over|by|than)\s+{_VARIABLE}
  | \s*-?(?:squared|cubed|factorial|to\ the\ power|{_FUNCTION})
  | \s*(?:[kK]|[bBtT][nN]|[mM](?:ln|io|rd)|MM?|B)(?![A-Za-z])  # 5k, $5 M and 3MM
  | \s*-?(?i:dozen|hundred|thousand|lakh|crore|(?:[mb]|tr|quadr)ill(?:i?on|iard)|тыс|мил
    |mil(?:le|a)?\b|mil(?:h|[jy][ao])|мл[нр]|लाख|करोड़|हज़ार|हजार|লাখ|কোটি|হাজার|ألف|آلاف
    |مليون|ملايين|مليار|هزار|میلیون|میلیارد|พัน|หมื่น|แสน|ล้าน|[백천만억조](?=[\s원명개.]|\Z)
    |tausend|duizend|tusen\b|tys\b|tisíc|nghìn|triệu|ribu\b|juta\b|χιλιάδ|halves
    |(?:doz|gross|score|bin)\b|(?:third|fifth|sixth|seventh|eighth|ninth|tenth)s)
  | \s+and\s+(?:an?|one)\s+(?:half|third|quarter) | \s*,\s*{_VARIABLE}\s*[)\]}}]
    """,
    re.VERBOSE,
)
_BEFORE = re.compile(
    rf"""
    (?: (?:[√∛^±²]|{_FUNCTION})\s*[({{]?\s* | \\{_UNKNOWN}\{{ | [}})]\{{
      | \d[$€£¥°] | (?<!\S), | \d\*\* | [\d)]\.?\(  # 18€50, ,5, 2**3, 2(3)
      | [(\[{{](?:\s*-?[\d.]+\s*,)+\s*  # (2, 3)
      | (?<![{_LETTER}'.])(?![aAI])[{_LETTER}]  # x + 5
        [\d\s()^.²ⁿ]*[-+*/·×÷](?:[-+*/·×÷^\s(){{}}\d]|\.\d)* )\Z
    """,
    re.VERBOSE,
)
_WINDOW = 60  # characters that are looked at before a number
_SIGNS_BEFORE = re.compile(r"[-+$€£¥\s]*")  # with or without spaces: "- $ 5"
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
        (r"\^(?:\\circ|\{\\circ\})", "°"),
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
        r"(?<!\w)(?P<run>_{1,3})(?P<inside>[^*_`]+)(?P=run)(?!\w)",
        r"(?<!`)(?P<run>`{1,2})(?P<inside>[^*_`]+)(?P=run)(?!`)",
    )
)
_BOXED = re.compile(
    r"(?P<minus>(?<![\w)])-)?\\boxed\{(?P<inside>(?:[^{}]|\{[^{}]*\})*+)\}"
)
_LEFT = re.compile(r"[\\{}*`]|\$\$|(?<!\w)_|_(?!\w)")  # but a_b is a word


def without_thoughts(text):
    """The text without what a model thinks, between <think> and </think>.

    Qwen3 thinks first, then answers. Some templates end their prompt in <think>, and
    rollouts put that before the answer. A thought that never ends gives no answer.
    """
    for begin, end in THOUGHT_MARKS:
        text = text.rpartition(end)[2].partition(begin)[0]
    return text


def extract_strict(text):
    r"""The number directly after the last `####`, or None.

    Where there is no `####`, the last `\boxed{}` holds the answer, as in MATH.

    Signs may stand before it, with or without spaces ("#### - $3"), and words after it
    ("#### $18 a day"), but no other digit on the line: an answer that names two numbers
    has not decided. "1 000" and "1 1/2" are one number; "2⁵", "3!", "5k", "5x" and "5
    million" are none. If there are several `####`, the last one counts. Markdown and
    LaTeX around the number are taken off (`_undecorated`), if every pair is closed.

    Args:
      text: a completion; only what is `without_thoughts` counts.

    Returns:
      The number as a Fraction, or None.
    """
    rest = _undecorated_rest(_plain(without_thoughts(text)))
    if rest is None:
        return None
    rest = _SIGNS_BEFORE.sub(lambda signs: "".join(signs[0].split()), rest, count=1)
    start = _START.match(rest)
    match = _NUMBER.match(rest, start.end() if start else 0)
    if match is None or re.search(r"[\d²]", rest[match.end() :]):
        return None
    return None if _AFTER.match(rest, match.end()) else _value(match)


def extract_lenient(text):
    """The last number on the last `####` line, else the last number of the text.

    Whatever `extract_strict` finds, this finds too, and first. It forgives a missing
    mark, words before the number, and chatter after it. Markup is taken off line by
    line where it can be read. Where the last number is part of something else, such as
    "12 - x", there is none: an earlier one is not the answer.

    Args:
      text: a completion.

    Returns:
      The number as a Fraction, or None where there is none.
    """
    if (value := extract_strict(text)) is not None:
        return value
    text = _plain(without_thoughts(text))
    _, mark, rest = text.rpartition(MARK)
    for part in (rest.partition("\n")[0] if mark else "", text):
        for value in _numbers(part):
            return value
    return None


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
    """The end of a text in ASCII digits, with plain spaces, signs and fractions."""
    text = text[-LONGEST_TEXT:].translate(_PLAIN)
    if text.isascii():
        return text
    return re.sub(r"([- ]?)([^\x00-\x7f])", _plain_character, text)


def _plain_character(match):
    before, character = match.groups()
    if "⁄" in (fraction := unicodedata.normalize("NFKD", character)):
        return (before or " ") + fraction.replace("⁄", "/")  # 3½ is 3 1/2
    if character.isdecimal():
        return before + str(unicodedata.decimal(character))
    if unicodedata.numeric(character, None) is None:
        kinds = {"Zs": " ", "Cf": "", "Sc": "€"}  # spaces, directions, currencies
        return before + kinds.get(unicodedata.category(character), character)
    return before + "²"  # stands for all that name numbers: Ⅷ, 万


def _undecorated_rest(text):
    """What follows the last mark, without markup; None where that is not balanced.

    The pair may stand around the mark as well: **#### 18**.
    """
    before, mark, rest = text.rpartition(MARK)
    if not mark:
        *_, box = [None, *_BOXED.finditer(text)]
        is_whole = box and not _AFTER.match(text, box.end())  # not \boxed{5} million
        return _undecorated((box["minus"] or "") + box["inside"]) if is_whole else None
    rest = rest.partition("\n")[0]
    if (plain := _undecorated(rest)) is not None:
        return plain
    line = _undecorated(before.rpartition("\n")[2] + mark + rest)
    return None if line is None else line.rpartition(MARK)[2]


def _numbers(text):
    """All that are named, from the last one on; None for one that is not read.

    Each line is read without its markup where that is balanced and known. A date is not
    looked at.
    """
    for line in reversed(text.splitlines()):
        plain = _undecorated(line)
        # What is taken off leaves a gap, also in -\$5 and -**5**.
        line = line if plain is None else _SIGN_APART.sub("-", plain)
        for match in reversed([*_NUMBER.finditer(line)]):
            if match["divisors"].count("/") > 1:
                continue
            before = line[max(0, match.start() - _WINDOW) : match.start()]
            if _LIST.fullmatch(match[0]):
                yield Fraction(match[0].rpartition(",")[2])
            elif _AFTER.match(line, match.end()) or _BEFORE.search(before):
                yield None
            else:
                yield _value(match)


def _value(match):
    """The matched number as a Fraction; None for dates, x/0, 1 3/2 and monsters."""
    exponent, divisors = match["exponent"] or "0", match["divisors"].split("/")[1:]
    if len(match[0]) > LONGEST_NUMBER or len(exponent) > 4 or len(divisors) > 1:
        return None
    forms = (re.fullmatch(x, match["digits"], re.A) for x in _WHOLE_AND_DECIMALS)
    if (form := next(filter(None, forms), None)) is None:
        return None
    whole = re.sub(r"\D", "", form[1]) or "0"
    value = Fraction(f"{whole}.{form[2] or 0}") * Fraction(10) ** int(exponent)
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
