"""Takes the picture of XProf's trace viewer that notebook 13 shows: docs/xprof.png.

    python -m scripts.trace_picture build/runs/watched      needs Chromium

It opens the recording that notebook 13 has left there in XProf's own server, in a
headless Chromium, and keeps what a learner sees.
"""

import contextlib
import io
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "xprof.png"
SIZE = 1200, 800
COLOURS = 64
SETTLED = 10  # seconds until all that the viewer loads is drawn
CHOICES = "document.querySelectorAll('mat-select')"  # sessions, tools, hosts
TRACE = """[...document.querySelectorAll('mat-option')].find(
  option => option.innerText.startsWith('Trace Viewer'))"""
VIEWER = "document.querySelector('iframe').contentDocument"
DRAWN = f"{VIEWER} && {VIEWER}.querySelector('tr-ui-timeline-view')"

sys.path.insert(0, str(ROOT / "tests" / "browser"))

import chromium  # noqa: E402


def main(arguments) -> None:
    """Writes the picture; ends with a message where something is missing.

    Args:
      arguments: [folder of a run].
    """
    if len(arguments) != 1:
        sys.exit(__doc__)
    recordings = sorted(pathlib.Path(arguments[0]).glob("plugins/profile/*"))
    program = chromium.find()
    if not recordings or program is None:
        sys.exit("Run notebook 13 first, and install Chromium (`apt-get install`).")
    FILE.write_bytes(taken(program, arguments[0], recordings[-1].name))
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")


def taken(program, folder, name):
    """The trace viewer's page of one recording, as a PNG in few colours.

    Args:
      program: path of a Chromium.
      folder: of the run. name: of the recording in it.
    """
    with served(folder) as address, chromium.opened(program, address, *SIZE) as page:
        page.wait(f"{CHOICES}.length > 2 && {CHOICES}[0].innerText == {name!r}")
        page.look(f"{CHOICES}[1].click()")
        page.wait(TRACE)
        page.look(f"{TRACE}.click()")
        page.wait(DRAWN, 120)
        time.sleep(SETTLED)
        with tempfile.TemporaryDirectory() as aside:
            file = pathlib.Path(aside, "page.png")
            page.screenshot(file)
            picture = Image.open(file).convert("RGB").quantize(COLOURS)
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    return data.getvalue()


@contextlib.contextmanager
def served(folder):
    """XProf's own server over a folder; gives its address."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "xprof.server"]
    command += ["--logdir", str(folder), "--port", str(port)]
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://localhost:{port}/"
    try:
        for _ in range(60):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address).close()
                break
            time.sleep(1)
        yield address
    finally:
        chromium.stop(server)


if __name__ == "__main__":
    main(sys.argv[1:])
