r"""Markdown and LaTeX around the number of an answer line: **18**, $\boxed{18}$, \$18.

Instruct models decorate. What they are known to write around a number is taken off
here, pair by pair from the inside; whatever is left over, a pair that is not closed or
a command that is not known, makes the line unreadable. Nothing that is taken off joins
what stands on its two sides: 1**8** is two numbers, not 18.
"""

import re

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


def undecorated(line):
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
