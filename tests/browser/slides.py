"""The slides in a headless Chromium: they fit their screen, and fetch nothing.

Run by `make app-check`. Screenshots of notebook 07 go to build/app_check/slides: look
at them.
"""

import pathlib
import sys

import chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts import slides  # noqa: E402

SHOTS = ROOT / "build" / "app_check" / "slides"
SCREEN = (1280, 720)
HERE = "document.querySelector('section.here')"
BODY = f"{HERE}.querySelector('.body')"
TOO_HIGH = f"{BODY}.scrollHeight - {BODY}.clientHeight"
LOST = "[...document.images].filter(i => i.complete && !i.naturalWidth).length"
FETCHED = """performance.getEntriesByType('resource')
  .filter(r => !r.name.startsWith('data:')).length"""


def main():
    """Raises AssertionError where a slide is not as it should be."""
    program = chromium.find()
    if program is None:
        print("No Chromium here: the slides were not looked at in a browser.")
        return
    slides.main([])
    SHOTS.mkdir(parents=True, exist_ok=True)
    for path in sorted(slides.BUILD.glob("*_*.html")):
        with chromium.opened(program, path.as_uri(), *SCREEN) as page:
            page.wait(f"{HERE} && document.getElementById('place').textContent")
            count = page.look("document.querySelectorAll('section').length")
            long = [n for n in range(1, count + 1) if scrolls(page, path, n)]
            assert page.look(LOST) == 0 and page.look(FETCHED) == 0, path.name
            assert not page.complaints, page.complaints
            print(
                f"{path.name}: {count} slides, to scroll: {long or 'none'}", flush=True
            )
            assert len(long) <= count / 10, "too many slides are too long"


def scrolls(page, path, number):
    """Goes on to a slide; whether it is too long even in small letters."""
    page.wait(f"document.getElementById('place').textContent.startsWith('{number} of')")
    if path.name.startswith("07"):
        page.screenshot(SHOTS / f"{path.stem}_{number:02}.png")
    long = page.look(TOO_HIGH) > 2
    page.look("document.getElementById('on').click()")
    return long


if __name__ == "__main__":
    main()
