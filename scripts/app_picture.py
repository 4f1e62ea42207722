"""Takes README's picture of the food-logging assistant, `docs/app.png`.

    python -m scripts.app_picture       under a minute; needs Chromium

It opens the very app of `make app`, with the shipped models, in a headless Chromium,
asks about the picture that is there, and keeps the page down to the table of the meal,
in few colours.
"""

import io
import pathlib
import sys
import tempfile

from PIL import Image

from scripts.app import PAGE

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "app.png"
SIZE = 640, 1300
EDGE = 5  # pixels around what is kept
LARGEST = 150_000  # bytes; README is loaded on telephones, too
KEPT = """[document.querySelector('.food-app').getBoundingClientRect().top,
  document.querySelector('.food-table').getBoundingClientRect().bottom]"""

sys.path.insert(0, str(ROOT / "tests" / "browser"))

import check  # noqa: E402
import chromium  # noqa: E402


def main() -> None:
    """Writes the picture; ends with a message where there is no Chromium."""
    program = chromium.find()
    if program is None:
        sys.exit("Install Chromium first, such as `apt-get install chromium`.")
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        with (
            check.served(PAGE, build) as address,
            chromium.opened(program, address, *SIZE) as page,
        ):
            page.wait(check.BUTTON.format("Ask"), seconds=180)
            check.press(page, "Ask")
            page.wait(f"{check.KINDS}.includes('food-answer')", seconds=180)
            page.wait("document.querySelector('.food-table')")
            page.wait(f"!({check.BUTTON.format('Ask')}.disabled)")
            page.screenshot(build / "page.png")
            top, bottom = page.look(KEPT)
        whole = Image.open(build / "page.png")
        data = small(whole.crop((0, top - EDGE, 600, bottom + EDGE)))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(data)
    print(f"{PICTURE.relative_to(ROOT)}: {len(data) / 1e3:.0f} kB")


def small(picture: Image.Image) -> bytes:
    """A screenshot as a PNG of few colours.

    Raises:
      ValueError: it is too large for README nevertheless.
    """
    file = io.BytesIO()
    few = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True)
    if file.tell() > LARGEST:
        raise ValueError(f"The picture has {file.tell()} bytes, README's {LARGEST}.")
    return file.getvalue()


if __name__ == "__main__":
    main()
