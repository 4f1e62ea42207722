"""The page that the browser test opens: the app with models that are scripted.

python tests/browser/app.py PORT
"""

import os
import sys
import time

sys.path.insert(0, os.environ["COURSE_TESTS"])

from scripted_backend import Scripted  # noqa: E402

from helpers.app import page  # noqa: E402
from helpers.app.models import DRAWINGS, Choice  # noqa: E402

SLOWLY = 0.7  # seconds a turn, so that steps are seen to come one by one


def model(name, food, **known):
    """A choice that sees this food in everything."""
    return Choice(
        lambda: Scripted(name, food, lambda: time.sleep(SLOWLY)), "scripted", **known
    )


if __name__ == "__main__":
    choices = {
        "the pizza model": model("the pizza model", "pizza"),
        "the ramen model": model("the ramen model", "ramen", seen=DRAWINGS),
    }
    page.launch(page.app(choices), port=int(sys.argv[1]), wait=True)
