"""The page that the browser test opens: the app with models that are scripted."""

import os
import sys
import time

from IPython.display import display

sys.path.insert(0, os.environ["COURSE_TESTS"])

from scripted_backend import Scripted  # noqa: E402

from helpers.app import food_app

SLOWLY = 0.7  # seconds a turn, so that events are seen to come one by one


def pause():
    time.sleep(SLOWLY)


display(
    food_app.app(
        {
            "the pizza model": lambda: Scripted("the pizza model", "pizza", pause),
            "the ramen model": lambda: Scripted("the ramen model", "ramen", pause),
        }
    )
)
