"""Asynchronous RL: a trainer, workers that come and go, and the buffer between them."""

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import EMPTY, JUDGED, PLAIN, SAID

VERSION, LIMIT = 7, 2  # updates done, one piece each; how stale a piece may be


def trainer_and_workers() -> Picture:
    """Who holds which piece at one moment, with one piece an update."""
    back, *out = range(VERSION, VERSION + LIMIT + 1)  # one went out with each version
    versions = {piece: piece - LIMIT for piece in (back, *out)}
    age = VERSION - versions[back]
    workers = [
        (f"Worker {i}", f"samples piece {piece} with version {versions[piece]}", SAID)
        for i, piece in enumerate(out, 1)
    ]
    workers.append((f"Worker {LIMIT + 1}", f"waits: {LIMIT + 1} are under way", EMPTY))
    told = "; ".join(f"“{head}”, {text}" for head, text, _ in workers)
    learned = f"{VERSION} updates are done: version {VERSION}"
    rule = f"at most η + 1 = {LIMIT + 1} pieces under way; dropped if over η = {LIMIT}"
    waiting = f"piece {back}, version {versions[back]}: {age} old"
    picture = Picture(
        "Workers run ahead of the trainer, but not far",
        f"“Trainer” ({learned}) hands out “weights” along arrows to three "
        f"boxes: {told}. From the workers arrows lead with “answers” to “Buffer” "
        f"({rule}), in which lies “{waiting}”. From the buffer an arrow leads back "
        "up to the trainer.",
    )
    trainer = picture.box(12, picture.top, 306, "Trainer", learned, SAID)
    y = trainer.bottom + 42
    between = (trainer.bottom + 12, y + 100)
    for text, top in zip(("weights", "answers"), between, strict=True):
        picture.label(113, top, text, anchor="middle")
    frames = [
        picture.box(12 + 104 * i, y, 98, head, text, style, h=88)
        for i, (head, text, style) in enumerate(workers)
    ]
    buffer = picture.box(12, y + 130, 306, "Buffer", rule, JUDGED, room=36)
    for frame in frames:
        picture.arrow((frame.cx, trainer.bottom + 1), (frame.cx, y - 1))
        if frame.style is not EMPTY:
            picture.arrow((frame.cx, frame.bottom + 1), (frame.cx, buffer.y - 1))
    picture.box(70, buffer.bottom - 36, 190, "", waiting, PLAIN, h=26)
    lane = 338
    picture.arrow(
        (buffer.right + 1, buffer.cy),
        (lane, buffer.cy),
        (lane, trainer.cy),
        (trainer.right + 1, trainer.cy),
    )
    return picture
