"""`make app`: the food-logging assistant as a web page, served by Voilà."""

import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).with_name("assistant_app.py")
LARGEST_MESSAGE = 64_000_000  # bytes; 10 MiB by default, and a larger photo ends all
SETTINGS = (
    '--VoilaConfiguration.extension_language_mapping={".py": "python"}',
    f"--Voila.tornado_settings={{'websocket_max_message_size': {LARGEST_MESSAGE}}}",
)


def command(page, *more):
    """What serves a page, a Python file, on this machine only."""
    return [sys.executable, "-m", "voila", str(page), *SETTINGS, *more]


if __name__ == "__main__":
    sys.exit(subprocess.call(command(PAGE, *sys.argv[1:])))
