"""Teacher and student: on-policy distillation."""

import math

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import JUDGED, OTHER, PLAIN, SAID, Frame, Style

SAYS = ("24", "26", "46")  # what may come after "48 / 2 ="
STUDENT, TEACHER = (0.5, 0.3, 0.2), (0.9, 0.06, 0.04)


def teacher_and_student() -> Picture:
    """One step of on-policy distillation, with the KL of one token computed."""
    kl = sum(s * math.log(s / t) for s, t in zip(STUDENT, TEACHER, strict=True))
    shown = {
        name: ", ".join(f"{a} {p:.0%}" for a, p in zip(SAYS, says, strict=True))
        for name, says in (("student", STUDENT), ("teacher", TEACHER))
    }
    picture = Picture(
        "On-policy: the teacher judges the student's own words",
        "From “A new question” (nobody has to solve it) an arrow leads to “Student "
        "writes” (mistakes included): 48 / 2 = 26. Two boxes say what each finds "
        f"likely after “48 / 2 =”: “Student” (as it is now), {shown['student']}; "
        f"“Teacher” (frozen), {shown['teacher']}. Both lead to “Reverse KL” ({kl:.2f} "
        "nats at this token; the loss is the mean over its tokens), this to “Update” "
        "(of the student alone), and from there an arrow leads back to the student.",
    )
    question = picture.box(
        12, picture.top, 306, "A new question", "nobody has to solve it"
    )
    y = question.bottom + 22
    writes = picture.box(
        12, y, 306, "Student writes", "mistakes included", SAID, room=34
    )
    picture.arrow((writes.cx, question.bottom + 1), (writes.cx, y - 1))
    picture.tokens(104, writes.bottom - 33, ("48", "/", "2", "=", "26"), PLAIN)
    y = _two_views(picture, writes) + 22
    text = f"{kl:.2f} nats at this token; the loss is the mean over its tokens"
    distance = picture.box(12, y, 306, "Reverse KL", text, JUDGED)
    y = distance.bottom + 22
    update = picture.box(12, y, 306, "Update", "of the student alone", SAID)
    picture.arrow((update.cx, distance.bottom + 1), (update.cx, y - 1))
    lane = 338
    picture.arrow(
        (update.right + 1, update.cy),
        (lane, update.cy),
        (lane, writes.cy),
        (writes.right + 1, writes.cy),
    )
    return picture


def _two_views(picture, writes) -> float:
    """What student and teacher find likely at one place; gives the lower end."""
    note = picture.label(
        writes.cx, writes.bottom + 22, "after “48 / 2 =”", anchor="middle"
    )
    y = note.bottom + 5
    for x, name, says, style in (
        (12, "Student", STUDENT, SAID),
        (169, "Teacher", TEACHER, OTHER),
    ):
        text = "frozen" if name == "Teacher" else "as it is now"
        side = picture.box(x, y, 149, name, text, style, room=76)
        picture.arrow((side.cx, writes.bottom + 1), (side.cx, y - 1))
        _chances(picture, side, says)
        picture.arrow((side.cx, side.bottom + 1), (side.cx, side.bottom + 21))
    return side.bottom


def _chances(picture, side, says):
    """A bar for each thing that may be said, its chance behind it."""
    y = side.bottom - 76
    for word, chance in zip(SAYS, says, strict=True):
        picture.label(side.x + 10, y + 2, word, mono=True)
        bar = Frame(side.x + 32, y + 2, 70 * chance, 15, Style(*[side.style.edge] * 2))
        picture.shapes.append(bar)
        picture.label(bar.right + 5, y + 2, f"{chance:.0%}")
        y += 23
