"""Takes the picture of the food-logging assistant that README and notebook 14 show.

    python tests/browser/app_picture.py            about a minute; needs Chromium
    python tests/browser/app_picture.py --check    whether docs/app.png is up to date

It opens the very app of `make app`, with the shipped models, in a headless Chromium as
narrow as a phone, and asks about the picture that is there. The page is cut from its
heading to the table of the meal, and stored in few colours. What it says is stored in
the file, too, for those who do not see it (`views.app_picture`).
"""

import io
import pathlib
import sys
import tempfile

import check
import chromium
from PIL import Image, PngImagePlugin

from helpers.app import page as app_page
from helpers.app import views

SIZE = views.APP_WIDTH, 3000
SCALE = 2  # pixels of the file to one of the page: letters stay sharp
EDGE = 5  # around what is kept
LARGEST = 150_000  # bytes; README is loaded on telephones, too
COLOURS = 64
SERVE = ("-m", "scripts.app", "--port")
TABLE = "document.querySelector('.food-table table')"
FROM_TO = f"""[document.querySelector('h1').getBoundingClientRect().top,
  {TABLE}.getBoundingClientRect().bottom]"""
VALUE = "document.querySelector(`[aria-label={!r}]`).value"
CHAT = "document.querySelector('.food-chat')"
TITLES = f"[...{CHAT}.querySelectorAll('summary')].map(e => e.innerText)"
ROWS = f"[...{TABLE}.rows].map(r => r.innerText)"


def main(arguments) -> None:
    """Writes the picture, or compares; ends with a message where there is no Chromium.

    Args:
      arguments: list of str, [] or ["--check"].
    """
    program = chromium.find()
    if program is None:
        sys.exit("Install Chromium first, such as `apt-get install chromium`.")
    data, words = taken(program)
    if arguments:
        assert words == views.app_picture()[1], f"docs/app.png is old, now: {words}"
        print("docs/app.png says what the app says.")
        return
    views.APP_PICTURE.parent.mkdir(exist_ok=True)
    views.APP_PICTURE.write_bytes(data)
    print(f"{views.APP_PICTURE.name}: {len(data) / 1e3:.0f} kB. {words}")


def taken(program):
    """The picture of one conversation.

    Args:
      program: path of a Chromium.
    Returns:
      (bytes of a PNG, what it shows in words).
    """
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        with (
            check.served(*SERVE, build=build) as address,
            chromium.opened(program, address, *SIZE, scale=SCALE) as page,
        ):
            page.call("Emulation.setScrollbarsHidden", hidden=True)
            page.wait(f"{CHAT} && {check.PHOTO}", seconds=180)
            check.press(page, "Ask")
            page.wait(f"{CHAT}.querySelector('.food-answer')", seconds=180)
            page.wait(TABLE)
            page.look("document.activeElement.blur(); scrollTo(0, 0)")
            top, bottom = page.look(FROM_TO)
            words = in_words(page)
            page.screenshot(build / "page.png")
        whole = Image.open(build / "page.png")
        box = (0, top - EDGE, SIZE[0], bottom + EDGE)
        return small(whole.crop([SCALE * side for side in box]), words), words


def in_words(page) -> str:
    """What the page shows from its heading to its table, as it is there."""
    drawn = app_page.example_rows()[0]["foods"]
    steps = " and ".join(f"“{title}”" for title in page.look(TITLES))
    answer = page.look(f"{CHAT}.querySelector('.food-answer').innerText")
    question = page.look(f"{CHAT}.querySelector('.food-question p').innerText")
    table = ", ".join(" ".join(row.split()) for row in page.look(ROWS))
    return (
        "The app as a page on a phone, from top to bottom: the heading “What is on the "
        f"plate?”; a drawn dish, {' and '.join(drawn)}; a button to upload or "
        f"take a photo; eight drawings to choose from; a menu of models, at “"
        f"{page.look(VALUE.format('Model'))}”; what the model has seen; the question "
        f"and the button Ask; a chat: “{question}”, the folded step {steps}, "
        f"and the answer “{answer}”; a table of this meal: {table}."
    )


def small(picture: Image.Image, words: str) -> bytes:
    """A screenshot as a PNG of few colours, with its words."""
    file, info = io.BytesIO(), PngImagePlugin.PngInfo()
    info.add_itxt("Description", words)
    few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True, pnginfo=info)
    assert file.tell() < LARGEST, f"{file.tell()} bytes are too many for README"
    return file.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
