"""Locust's users: each asks the assistant about one plate, all of it, and goes.

Run by `load.py`, in an environment with locust and the course. A user does what the app
does: `converse` with an `OpenAIServer`, tools run here. A conversation that does not
end event by event as the one expected is a failure, by what it is.
"""

import itertools
import json
import os
import pathlib
import time

import locust  # first: it patches sockets and threads
import numpy as np
from locust.exception import StopUser

from helpers.app.chat import converse
from helpers.app.server import OpenAIServer
from helpers.tools import nutrition

PLACE = pathlib.Path(os.environ["COURSE_LOAD"])
SETTINGS = json.loads((PLACE / "settings.json").read_text())
PICTURES = np.load(PLACE / "pictures.npy")
NUMBERS, ENDED = itertools.count(), []
BACKEND = OpenAIServer(
    SETTINGS["address"],
    SETTINGS["model"],
    tools=[nutrition.TOOL],
    timeout=SETTINGS["timeout"],
)


class Eater(locust.User):
    """Somebody with a picture and a question."""

    wait_time = locust.constant(0)

    @locust.task
    def ask(self):
        """One conversation, from question to answer."""
        number = next(NUMBERS)
        row = number % len(PICTURES)
        begin = time.perf_counter()
        question = SETTINGS["questions"][row]
        events = list(converse(BACKEND, question, PICTURES[row], [nutrition.TOOL]))
        seconds = time.perf_counter() - begin
        right = list(map(repr, events)) == SETTINGS["expected"][row]
        kind = "right" if right else "wrong"
        if not right and events[-1].kind == "error":
            kind = "error"
        ended = {"number": number, "kind": kind, "said": events[-1].text}
        ENDED.append(ended | {"seconds": seconds})
        self.environment.events.request.fire(
            request_type="conversation",
            name=SETTINGS["model"],
            response_time=seconds * 1000,
            response_length=0,
            exception=None if right else AssertionError(f"{kind}: {events[-1]}"),
            context={},
        )
        (PLACE / "progress").write_text(str(len(ENDED)))
        if len(ENDED) == SETTINGS["users"]:
            (PLACE / "ended.json").write_text(json.dumps(ENDED))
            self.environment.runner.quit()
        raise StopUser
