"""`make app-check`: the food app in a real browser, on a desk and a phone.

Headless Chromium opens it, uploads a photo, takes one, sees step by step, logs
meals; axe-core looks for what keeps people out. Screenshots go to build/app_check.
Chromium is Debian's package, axe-core npm's, installed where they are
missing; where they cannot be, that is skipped, except in CI (COURSE_CI).
"""

import contextlib
import json
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
BUILD = ROOT / "build" / "app_check"
AXE = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
DESK, PHONE = (1280, 2000), (390, 3400)
TEXT = "document.body.innerText"
CHAT = "document.querySelector('.food-chat')"
BUTTON = """[...document.querySelectorAll('button')]
  .filter(b => b.offsetParent && b.innerText.trim() == {!r}).at(-1)"""
FIELD = "document.querySelector(`[aria-label={!r}]`)"
LABELLED = """[...document.querySelectorAll('label')]
  .filter(l => l.innerText.includes({!r})).at(-1)?.querySelector('input, textarea')"""
TOGETHER = """[...document.querySelectorAll('.food-table')].at(-1)
  .innerText.replace(/^(?!.*total today)[^]*/, '')"""
PHOTO = "document.querySelector('#photo img')?.src"
ANSWERS = f"{CHAT}.querySelectorAll('.food-answer').length"
NOT_OURS = "{exclude: [['.toast-header']]}"  # Gradio's notes
FETCHED = """performance.getEntriesByType('resource').map(r => r.name)
  .filter(name => /^https?:/.test(name) && !name.startsWith(location.origin))"""


def main():
    """Raises AssertionError or TimeoutError where the app is not as it should be."""
    apt = [] if os.geteuid() == 0 else ["sudo", "-n"]
    apt += ["apt-get", "-q"]
    install = [*apt, "install", "-y", "--no-install-recommends", "chromium"]
    program = installed("Chromium", chromium.find, [*apt, "update"], install)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "axe-core@4"]
    AXE.parents[2].mkdir(parents=True, exist_ok=True)
    axe = installed(
        "axe-core",
        lambda: AXE.exists() and AXE.read_text(),
        [*npm, "--prefix", str(AXE.parents[2])],
    )
    if not program:
        return
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    with served(HERE / "app.py") as address:
        for look_at, size in ((desk, DESK), (phone, PHONE)):
            mobile = look_at is phone
            with chromium.opened(program, address, *size, mobile=mobile) as page:
                page.wait(PHOTO, seconds=180)
                page.wait(f"{TEXT}.includes('Today')")
                look_at(page)
                page.screenshot(BUILD / f"{look_at.__name__}.png")
                barriers(page, axe)
                width = page.look("document.documentElement.scrollWidth")
                assert width <= size[0], f"the page is {width} pixels wide"
                assert page.look(FETCHED) == [], "all comes from this machine"
                assert not page.complaints, page.complaints
    print(f"The app works on desk and phone; screenshots are in {BUILD}.")


def installed(name, find, *commands):
    """What `find` finds, after these commands where it finds nothing at first."""
    for command in commands if not find() else ():
        with contextlib.suppress(OSError):
            subprocess.run(command, check=False)
    if not find():
        message = f"{name} is not here and could not be installed"
        if os.environ.get("COURSE_CI"):
            sys.exit(f"{message}: in CI it has to be there.")
        print(f"{message}: what needs it was not looked at.")
    return find()


@contextlib.contextmanager
def served(*command, build=BUILD):
    """Runs a page, Python's arguments less the port, on a free one; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    env = {"COURSE_TESTS": str(HERE.parent), "COURSE_BUILD": str(build)}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, *map(str, command), str(port)]
    with open(build / "page.log", "w") as log:
        page = subprocess.Popen(words, cwd=ROOT, env=os.environ | env, stdout=log)
        try:
            address = f"http://127.0.0.1:{port}/"
            _wait_for(address, page)
            yield address
        finally:
            chromium.stop(page)


def _wait_for(address, process, seconds=300):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address):
                return
        except OSError:
            time.sleep(0.3)
    raise TimeoutError("The page does not run; its words stand above.")


def desk(page):
    """The whole way with mouse, keyboard and a photo."""
    upload(page, "photo.jpg", photo(600, 400, turned=True))
    ask(page, "I see pizza in 400 x 600.")  # upright
    table_shows(page, "pizza, 150 g", "402 kcal")
    enter(page, LABELLED.format("Grams of pizza"), "300")
    table_shows(page, "pizza, 300 g", "804 kcal")
    press(page, "Log this meal")
    page.wait(f"{TOGETHER}.includes('804 kcal')")

    choose(page, "Model", "ramen")
    page.wait(f"{TEXT}.includes('the ramen model: scripted')")
    ask(page, "never seen a photo")  # the notice
    press(page, "Log this meal")
    page.wait(f"{TEXT}.includes('Not logged. This model has never seen a photo.')")
    page.look(f"{FIELD.format('Close')}.click()")  # the note, as who has read it does
    page.look(f"{LABELLED.format('This model has never seen a photo.')}.click()")
    press(page, "Log this meal")
    page.wait(f"{BUTTON.format('Delete ramen')}")

    page.look("document.querySelectorAll('#drawings button')[3].click()")
    ask(page, "There are 142 kcal in 150 g of ramen.")
    press(page, "Delete ramen")
    page.wait(f"!({BUTTON.format('Delete ramen')})")
    page.wait(f"{TEXT}.includes('pizza, 300 g (the pizza model)')")


def phone(page):
    """A photo from the camera on a narrow screen, where nothing is cut off."""
    page.look(
        "document.querySelector('#photo [aria-label=\"Capture from camera\"]').click()"
    )
    camera = "document.querySelector('#photo [aria-label*=\"Access Webcam\" i]')"
    page.wait(f"{camera} || ({BUTTON.format('Click to Access Webcam')})")
    page.look(f"({camera} || ({BUTTON.format('Click to Access Webcam')})).click()")
    page.wait("document.querySelector('#photo video')?.videoWidth")
    page.look("document.querySelector('#photo [aria-label=\"capture photo\"]').click()")
    page.wait(PHOTO)
    ask(page, "I see pizza in")
    table_shows(page, "pizza, 150 g", "402 kcal")


def photo(width, height, turned=False):
    """Bytes of a made-up photo; `turned` as by a camera in an upright hand."""
    pixels = np.random.default_rng(0).integers(0, 256, (height // 20, width // 20, 3))
    image = Image.fromarray(pixels.astype(np.uint8)).resize((width, height))
    exif = Image.Exif()
    if turned:
        exif[0x0112] = 6
    path = BUILD / "made.jpg"
    image.save(path, "JPEG", exif=exif)
    return path.read_bytes()


def upload(page, name, data):
    """Chooses a file by keyboard; waits until it is shown."""
    path, before = BUILD / name, page.look(PHOTO)
    path.write_bytes(data)
    page.look(f"{BUTTON.format('Upload or take a photo')}.focus()")
    page.choose_file("Enter", path)
    page.wait(f"{PHOTO} != {before!r}")


def ask(page, words):
    """Presses Ask by keyboard; sees the steps come one by one, and these words."""
    steps = f"{CHAT}.querySelectorAll('.food-step').length"
    before, counts = page.look(ANSWERS), [page.look(steps)]
    page.look(f"{BUTTON.format('Ask')}.focus()")
    page.press("Enter")
    deadline = time.monotonic() + 60
    while page.look(ANSWERS) == before:
        assert time.monotonic() < deadline, page.look(f"{CHAT}.innerText")
        counts.append(page.look(steps))
        time.sleep(0.05)
    assert counts[0] < counts[-1], f"steps came with the answer: {counts}"
    page.look("[...document.querySelectorAll('summary')].forEach(s => s.click())")
    page.wait(f"{CHAT}.innerText.includes({words!r})")
    page.wait(f"{BUTTON.format('Log this meal')}")


def table_shows(page, *texts):
    for text in texts:
        page.wait(
            f"document.querySelector('.food-table')?.innerText.includes({text!r})"
        )


def press(page, text):
    page.wait(f"{BUTTON.format(text)} && !({BUTTON.format(text)}.disabled)")
    page.look(f"{BUTTON.format(text)}.click()")


def choose(page, label, name):
    """Opens a menu, and takes the entry with this name."""
    field = FIELD.format(label)
    # Of this menu, for another one may still be open.
    entries = f"[...{field}.closest('.block').querySelectorAll('[role=option]')]"
    page.look(f"{field}.focus()")
    page.press("ArrowDown")  # opens it, where the focus alone does not yet
    page.wait(f"{entries}.length > 1")
    entry = f"{entries}.find(e => e.innerText.includes({name!r}))"
    page.look(f"{entry}.dispatchEvent(new MouseEvent('mousedown', {{bubbles: true}}))")
    page.wait(f"{field}.value.includes({name!r})")


def enter(page, field, text):
    """Types into a field in place of what is there."""
    page.wait(f"{field}?.offsetParent")
    page.look(f"{field}.focus()")
    page.look(f"{field}.select()")
    page.type(text)
    page.press("Tab")


def barriers(page, axe):
    """What axe-core finds: names, contrast, order of headings, alt texts, roles."""
    if not axe:
        return
    page.look(axe + "; 0")
    rules = page.look(f"axe.run({NOT_OURS}).then(r => JSON.stringify(r.violations))")
    lines = [
        f"{rule['impact']} {rule['id']}: {node['html'][:200]} {node['failureSummary']}"
        for rule in json.loads(rules)
        for node in rule["nodes"]
    ]
    assert not lines, "\n".join(lines)


if __name__ == "__main__":
    main()
