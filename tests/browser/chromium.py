"""A page in a headless Chromium, driven through its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol
"""

import base64
import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = {"Tab": 9, "Enter": 13, "ArrowDown": 40}


def find():
    """The path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def opened(program, address, width, height, mobile=False, scale=1):
    """Opens `address` in a new browser; gives its Page.

    Args:
      width, height: of the window, in CSS pixels. scale: of a screenshot's to those.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu"]
        command += ["--disable-dev-shm-usage", "--no-first-run", "--mute-audio"]
        command += ["--use-fake-device-for-media-stream"]  # a camera that is drawn
        command += ["--use-fake-ui-for-media-stream"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        browser = subprocess.Popen([*command, "about:blank"], **quiet)
        try:
            page = Page(_socket(pathlib.Path(profile, "DevToolsActivePort")))
            screen = {"width": width, "height": height, "mobile": mobile}
            page.call(
                "Emulation.setDeviceMetricsOverride", deviceScaleFactor=scale, **screen
            )
            page.call("Page.enable")
            page.call("Runtime.enable")
            page.call("Page.navigate", url=address)
            yield page
        finally:
            stop(browser)


def stop(process):
    """Ends a process, by force where it does not want to."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _socket(port_file, seconds=60):
    deadline = time.monotonic() + seconds
    while not port_file.exists() or not port_file.read_text().strip():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Chromium did not start within {seconds} s.")
        time.sleep(0.2)
    port = port_file.read_text().split()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        pages = [tab for tab in json.load(answer) if tab["type"] == "page"]
    url = pages[0]["webSocketDebuggerUrl"]
    return websocket.create_connection(url, timeout=120, suppress_origin=True)


class Page:
    """What a person does with a page: look, type, press keys, choose a file.

    `complaints` are the exceptions that the page's scripts raised.
    """

    def __init__(self, socket):
        self.socket, self.count = socket, 0
        self.complaints, self.choosers = [], []

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        self.socket.send(json.dumps(message))
        while True:
            event = json.loads(self.socket.recv())
            if event.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(event["params"]["exceptionDetails"])
            if event.get("method") == "Page.fileChooserOpened":
                self.choosers.append(event["params"])
            if event.get("id") == self.count:
                if "error" in event:
                    raise RuntimeError(f"{method}: {event['error']}")
                return event["result"]

    def look(self, script):
        """The value of a JavaScript expression, which may be a promise."""
        how = {"returnByValue": True, "awaitPromise": True}
        given = self.call("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in given:
            raise RuntimeError(f"{script}: {given['exceptionDetails']}")
        return given["result"].get("value")

    def wait(self, script, seconds=60):
        """Waits until an expression is true.

        Raises:
          TimeoutError: it is not; shows what the page says instead.
        """
        deadline = time.monotonic() + seconds
        while not self.look(f"!!({script})"):
            if time.monotonic() > deadline:
                text = self.look("document.body.innerText")
                raise TimeoutError(f"{script}\nnot within {seconds} s; page:\n{text}")
            time.sleep(0.1)

    def choose_file(self, key, path):
        """Presses a key that opens the dialogue for files, and chooses one in it."""
        self.call("Page.setInterceptFileChooserDialog", enabled=True)
        self.choosers.clear()
        self.press(key)
        deadline = time.monotonic() + 60
        while not self.choosers:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{key} opens no dialogue for files.")
            self.look("0")  # to hear what happens
            time.sleep(0.1)
        node = self.choosers.pop()["backendNodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], backendNodeId=node)

    def press(self, key):
        """Presses and lets go of one of KEYS, as a keyboard does."""
        stroke = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        down = {"type": "keyDown", "text": "\r"} if key == "Enter" else {}
        down = {"type": "rawKeyDown"} | down
        self.call("Input.dispatchKeyEvent", **stroke, **down)
        self.call("Input.dispatchKeyEvent", **stroke, type="keyUp")

    def type(self, text):
        """Types text into what has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path):
        """What the window shows, as PNG."""
        shot = self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(shot["data"]))
