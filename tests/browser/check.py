"""`make app-check`: the app under Voilà in a real browser, on a desk and on a phone.

Headless Chromium opens it, uploads a photo, sees the call, the table and the plot,
switches the model, logs meals; screenshots go to build/app_check. Chromium is Debian's
package, installed where it is missing; where it cannot be, this is skipped, except in
CI (COURSE_CI).
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import chromium
import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from scripts import app  # noqa: E402

BUILD = ROOT / "build" / "app_check"
DESK, PHONE = (1000, 1700), (360, 1900)  # so high that a screenshot has it all
EVENTS = "document.querySelectorAll('.food-event').length"
DAY = "[...document.querySelectorAll('.food-table')].at(-1).innerText"
KINDS = "[...document.querySelectorAll('.food-event')].map(e => e.className).join(' ')"
TEXT = "document.querySelector('.food-app').innerText"
# An element of the app by the label that people see.
LABELLED = """[...document.querySelectorAll('.food-app label')]
  .filter(l => l.innerText.trim() == {!r}).map(l => l.control)[0]"""
BUTTON = """[...document.querySelectorAll('.food-app button')]
  .filter(b => b.innerText.trim() == {!r})[0]"""
UPLOAD = "document.querySelector('.food-app .jupyter-widgets.widget-upload')"
CONTROLS = "[...document.querySelectorAll('.food-app :is(input, select, button)')]"
SEEN = "filter(e => e.offsetParent !== null)"


def main():
    """Raises AssertionError or TimeoutError where the app is not as it should be."""
    program = chromium.find() or _install()
    if program is None:
        message = "No Chromium here, and none could be installed with apt-get"
        if os.environ.get("COURSE_CI"):
            sys.exit(f"{message}: in CI it has to be there.")
        print(f"{message}: the app was not looked at in a browser.")
        return
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    with served() as address:
        with chromium.opened(program, address, *DESK) as page:
            desk(page)
        with chromium.opened(program, address, *PHONE, mobile=True) as page:
            phone(page)
    print(f"The app works on a desk and on a phone; screenshots are in {BUILD}.")


def _install():
    if shutil.which("apt-get") is None:
        return None
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        with contextlib.suppress(OSError):
            subprocess.run([*sudo, "apt-get", "-q", *words], check=False)
    return chromium.find()


@contextlib.contextmanager
def served(shown=HERE / "app.py", build=BUILD):
    """Runs Voilà with a page, the scripted app, on a free port; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"COURSE_TESTS": str(HERE.parent), "COURSE_BUILD": str(build)}
    own |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = app.command(shown, "--no-browser", f"--port={port}")
    with open(build / "voila.log", "w") as log:
        voila = subprocess.Popen(
            command, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            address = f"http://127.0.0.1:{port}/"
            _wait_for(f"{address}voila/static/", voila)
            yield address
        finally:
            chromium.stop(voila)


def _wait_for(address, process, seconds=120):
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address)
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            time.sleep(0.3)
    raise TimeoutError(f"Voilà does not run; {BUILD / 'voila.log'} says why.")


def desk(page):
    """The whole way with mouse, keyboard and a photo."""
    page.wait(BUTTON.format("Ask"), seconds=180)
    every_control_has_a_name(page)
    upload(page, "photo.jpg", photo(600, 400, turned=True))
    page.wait("document.querySelector('img[alt*=\"my upload\"]')?.naturalWidth > 0")
    ask(page)
    assert "I see pizza in 400 x 600." in page.look(TEXT), "the photo is upright"
    table_and_plot_show(page, "pizza, 150 g", "402 kcal")
    page.screenshot(BUILD / "desk_asked.png")

    press(page, "Log this meal")
    page.wait(f'{TEXT}.includes("The day\'s total: 402 kcal")')

    page.look(f"{LABELLED.format('Model')}.focus()")
    page.press("ArrowDown")
    ask(page)
    table_and_plot_show(page, "ramen, 150 g")
    enter(page, "Grams of ramen", "300")
    page.wait(f"{TEXT}.includes('ramen, 300 g')")
    press(page, "Log this meal")
    page.wait(f"{DAY}.includes('the ramen model')")
    page.screenshot(BUILD / "desk_logged.png")

    tab_reaches_all_in_order(page)
    press(page, "Delete meal")  # the newest
    page.wait(f"!{DAY}.includes('the ramen model')")

    page.look(f"{LABELLED.format('Model')}.focus()")
    page.press("ArrowDown")
    page.wait(f"{LABELLED.format('Address')}?.offsetParent")
    enter(page, "Address", "http://127.0.0.1:9/v1")
    enter(page, "Its name of the model", "big")
    press(page, "Ask")
    page.wait(f"{TEXT}.includes('Start the server')")
    too_large(page)
    page.screenshot(BUILD / "desk_errors.png")
    assert not page.complaints, page.complaints


def phone(page):
    """The same on a narrow screen: nothing is cut off, and the log is still there."""
    page.wait(BUTTON.format("Ask"), seconds=180)
    page.wait(f'{TEXT}.includes("The day\'s total: 402 kcal")')
    upload(page, "wide.png", photo(900, 300))
    page.wait("document.querySelector('img[alt*=\"my upload\"]')?.naturalWidth > 0")
    ask(page)
    table_and_plot_show(page, "pizza, 150 g", "402 kcal")
    press(page, "Log this meal")
    page.wait(f'{TEXT}.includes("The day\'s total: 804 kcal")')
    page.screenshot(BUILD / "phone.png")
    width = page.look("document.documentElement.scrollWidth")
    assert width <= PHONE[0], f"the page is {width} pixels wide"
    boxes = "[...document.querySelectorAll('.food-app, .food-app .widget-box')]"
    cut = page.look(f"{boxes}.filter(e => e.scrollWidth > e.clientWidth).length")
    assert cut == 0, f"{cut} boxes are wider than what one sees of them"
    for name, left, right, height in page.look(
        f"""{CONTROLS}.{SEEN}.map(e => {{const b = e.getBoundingClientRect();
        const name = e.labels?.[0]?.innerText || e.innerText;
        return [name, b.left, b.right, b.height]}})"""
    ):
        assert left >= 0 and right <= PHONE[0], f"{name!r}: {left} to {right}"
        assert height >= 32, f"{name!r} is {height} pixels high"
    assert not page.complaints, page.complaints


def photo(width, height, turned=False):
    """Bytes of a made-up photo; `turned` as by a camera that was held upright."""
    pixels = np.random.default_rng(0).integers(0, 256, (height // 20, width // 20, 3))
    image = Image.fromarray(pixels.astype(np.uint8)).resize((width, height))
    exif = Image.Exif()
    if turned:
        exif[0x0112] = 6
    path = BUILD / "made.jpg"
    image.save(path, "JPEG", exif=exif)
    return path.read_bytes()


def upload(page, name, data):
    path = BUILD / name
    path.write_bytes(data)
    page.look(f"{UPLOAD}.focus()")
    page.choose_file("Enter", path)


def too_large(page):
    """A photo of 14 MB is refused in words, and the app goes on."""
    upload(page, "large.png", os.urandom(14_000_000))
    page.wait(f"{TEXT}.includes('more than 8. Send a smaller copy')", seconds=120)
    upload(page, "small.jpg", photo(60, 40))
    page.wait(f"!{TEXT}.includes('Send a smaller copy')")


def ask(page):
    """Presses Ask by keyboard; sees the events come one by one."""
    page.look(f"{BUTTON.format('Ask')}.focus()")
    page.press("Enter")
    page.wait(f"{EVENTS} == 0")
    counts, deadline = [], time.monotonic() + 60
    while "food-answer" not in page.look(KINDS) and time.monotonic() < deadline:
        counts.append(page.look(EVENTS))
        time.sleep(0.05)
    kinds = page.look(KINDS)
    expected = [f"food-event food-{k}" for k in ("said", "call", "result", "answer")]
    assert kinds == " ".join(expected), kinds
    assert 0 in counts and 3 in counts, f"events came at once: {counts}"
    page.wait(f"!({BUTTON.format('Ask')}.disabled)")


def table_and_plot_show(page, *texts):
    for text in texts:
        page.wait(
            f"document.querySelector('.food-table')?.innerText.includes({text!r})"
        )
    plot = "document.querySelector('img[alt^=\"Bars of the energy\"]')"
    page.wait(f"{plot}?.naturalWidth > 100")
    assert page.look(f"{plot}.getBoundingClientRect().right <= innerWidth")
    assert "% of the energy" in page.look(f"{plot}.alt")


def press(page, text):
    page.wait(f"{BUTTON.format(text)} && !({BUTTON.format(text)}.disabled)")
    page.look(f"{BUTTON.format(text)}.click()")


def enter(page, label, text):
    """Types into a field in place of what is there."""
    field = LABELLED.format(label)
    page.wait(field + "?.offsetParent")
    page.look(f"{field}.focus()")
    page.look(f"{field}.select()")
    page.type(text)
    page.press("Tab")


def every_control_has_a_name(page):
    """As a screen reader hears them: in the browser's own accessibility tree."""
    page.call("Accessibility.enable")
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "combobox", "spinbutton", "image"}
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"] and node.get("role", {}).get("value") in roles
    ]
    assert len(found) >= 6, found
    assert all(name.strip() for _, name in found), found


def tab_reaches_all_in_order(page):
    """The Tab key goes through every control, from top to bottom."""
    wanted = page.look(f"{CONTROLS}.{SEEN}.filter(e => !e.disabled).length")
    page.look(f"{LABELLED.format('Picture')}.focus()")
    tops = []
    for _ in range(wanted):
        tops.append(
            page.look(
                """(() => {const b = document.activeElement.getBoundingClientRect();
                return document.activeElement.closest('.food-app')
                  ? b.top + scrollY : null})()"""
            )
        )
        page.press("Tab")
    assert None not in tops, f"the focus left the app after {tops.index(None)}"
    assert tops == sorted(tops), tops


if __name__ == "__main__":
    main()
