"""Speculation: a drafter guesses some tokens, one pass of the target checks them."""

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import EMPTY, HEARD, JUDGED, OTHER, SAID

KNOWN = ("48", "/", "2", "=")
GUESSES = ("24", "+", "48", "=")
TARGETS = ("24", "+", "24", "=", "48")  # its likeliest token after each place
COLUMN = 67


def speculation() -> Picture:
    """One greedy pass: what is drafted, what the target says, what comes out."""
    agreed = [g == t for g, t in zip(GUESSES, TARGETS, strict=False)]
    kept = agreed.index(False)
    verdicts = ["kept"] * kept + ["refused"] + ["unread"] * (len(GUESSES) - kept - 1)
    out = (*GUESSES[:kept], TARGETS[kept])
    heads = {
        "so far": f"The text so far: {' '.join(KNOWN)}",
        "drafter": f"The drafter writes {len(GUESSES)} tokens, one small pass each",
        "target": f"The target reads “{KNOWN[-1]}” and all {len(GUESSES)}, in one pass",
        "verdict": "Compared from the left, up to the first that differs",
        "out": f"{len(out)} tokens for one pass of the target",
    }
    picture = Picture(
        "Speculation: small passes guess, one large pass checks",
        f"Five rows. {heads['so far']}. {heads['drafter']}: {' '.join(GUESSES)}. "
        f"{heads['target']}, and says what it would have written at each place: "
        f"{' '.join(TARGETS)}. {heads['verdict']}: {', '.join(verdicts)}. What comes "
        f"out: {' '.join(out)}; {heads['out']}.",
    )
    y = picture.label(12, picture.top, heads["so far"]).bottom + 10
    y = _row(picture, y, heads["drafter"], GUESSES, [OTHER] * len(GUESSES))
    styles = [SAID] * (kept + 1) + [EMPTY] * (len(TARGETS) - kept - 1)
    y = _row(picture, y, heads["target"], TARGETS, styles)
    styles = [JUDGED] * kept + [OTHER] + [HEARD] * (len(verdicts) - kept - 1)
    y = _row(picture, y, heads["verdict"], verdicts, styles)
    _row(picture, y, heads["out"], out, [SAID] * len(out))
    return picture


def _row(picture, y, head, texts, styles):
    """A line of words and cells below it; gives where the next row begins."""
    words = picture.label(12, y, head)
    for i, (text, style) in enumerate(zip(texts, styles, strict=True)):
        picture.cell(12 + COLUMN * i, words.bottom + 3, COLUMN - 4, 25, text, style)
    return words.bottom + 3 + 25 + 11
