"""`make serve-check ENGINE=load`: many at once, into data/results/serving_load.csv.

    python tests/serve/load.py own [USERS]             the course's own server
    python tests/serve/load.py vllm [USERS] [ADDRESS]  vLLM, started or at an address

200 people ask about a plate at the same moment, by the app's way to a server: a picture
goes there, a call comes back, the tool runs here, an answer comes. Each conversation is
compared with the same one led alone. The second time the server is killed when a third
has ended, and started again: nobody may get a wrong answer, who is hit must be told in
words, and ten who come afterwards must be answered. A server at an address that was
given is not killed.
"""

import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from importlib import metadata

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import engines  # noqa: E402
import serving_table  # noqa: E402
import vllm_food  # noqa: E402
from bench import environment  # noqa: E402

from helpers.app.chat import converse  # noqa: E402
from scripts import serve  # noqa: E402

NEEDS = (["locust==2.47.0"],)
TABLE = engines.ROOT / "data" / "results" / "serving_load.csv"
MODEL, USERS, PLATES, PATIENCE = "food_grpo", 200, 20, 1800.0
FOLDER = vllm_food.TINY / MODEL


def locust():
    """The Python of an environment with locust, which sees the course's packages."""
    python = environment("locust", NEEDS, engines.ROOT / "build")
    (site,) = python.parents[1].glob("lib/python3*/site-packages")
    here = pathlib.Path(np.__file__).parents[1]
    (site / "course.pth").write_text(f"{here}\n{engines.ROOT}\n")
    return python


def expected(address):
    """(questions, pictures, events in words) of conversations that are led alone."""
    rows, backend = vllm_food.asked(PLATES), vllm_food.served(address, MODEL)
    events = [
        list(converse(backend, row["text"], row["image"], vllm_food.TOOLS))
        for row in rows
    ]
    assert sum(e[-1].kind == "answer" for e in events) > PLATES // 2, events
    said = [list(map(repr, each)) for each in events]
    return [r["text"] for r in rows], np.stack([r["image"] for r in rows]), said


def attack(address, plates, users, place, meanwhile=lambda started: None):
    """Lets users ask at once; gives how each conversation ended, and its seconds.

    Args:
      meanwhile: called with a function that says how many have ended so far.
    """
    questions, pictures, said = plates
    np.save(place / "pictures.npy", pictures)
    chosen = {"address": f"{address}/v1", "model": MODEL, "timeout": PATIENCE}
    chosen |= {"users": users, "questions": questions, "expected": said}
    (place / "settings.json").write_text(json.dumps(chosen))
    for old in ("progress", "ended.json"):
        (place / old).unlink(missing_ok=True)
    command = [str(locust()), "-m", "locust", "-f", str(HERE / "eaters.py")]
    command += ["--headless", "-u", str(users), "-r", str(users)]
    command += ["--only-summary"]
    env = os.environ | {"COURSE_LOAD": str(place), "JAX_PLATFORMS": "cpu"}
    attackers = subprocess.Popen(command, env=env)

    def progress():
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((place / "progress").read_text())
        return 0

    try:
        meanwhile(progress)
        attackers.wait(PATIENCE)
    finally:
        attackers.kill()
        attackers.wait()
    return json.loads((place / "ended.json").read_text())


def line(engine, scenario, users, ended):
    """A line of the table; raises AssertionError for a wrong or lost conversation."""
    kinds = [each["kind"] for each in ended]
    words = sorted({each["said"] for each in ended if each["kind"] == "error"})
    made = {"engine": engine, "model": f"tiny/{MODEL}", "scenario": scenario}
    made |= {"users": users, "right": kinds.count("right")}
    made |= {"wrong": kinds.count("wrong"), "errors": kinds.count("error")}
    made |= {"lost": users - len(ended)}
    seconds = [each["seconds"] for each in ended]
    for share in (50, 95):
        made[f"p{share}_s"] = round(float(np.percentile(seconds, share)), 1)
    made |= {"said": words[0].split(": ")[0] if words else ""}
    versions = f"locust {NEEDS[0][0].split('==')[1]}, openai "
    made |= {"versions": versions + metadata.version("openai")}
    made |= {"load": round(os.getloadavg()[0], 1)}
    print(made, flush=True)
    numbers = {each["number"] for each in ended}
    assert not made["wrong"] and len(numbers) == users, made
    return made


def under_load(engine, address, users, place, plates):
    """The line of users who all come at once, and are all answered."""
    ended = attack(address, plates, users, place)
    made = line(engine, "at once", users, ended)
    assert made["right"] == users, made
    return made


def killed(name, start, users, place, plates):
    """The lines of a server that is killed under load and comes back.

    Args:
      start: a function (port=None) -> a context that gives process and address.
    """
    with contextlib.ExitStack() as servers:
        process, address = servers.enter_context(start())
        port = int(address.rpartition(":")[2])

        def meanwhile(progress):
            deadline = time.monotonic() + PATIENCE
            while progress() < users // 3 and time.monotonic() < deadline:
                time.sleep(0.05)
            engines.kill(process)

        ended = attack(address, plates, users, place, meanwhile)
        made = line(name, "killed after a third", users, ended)
        assert made["right"] >= users // 3 and made["errors"] > 0, made
        servers.enter_context(start(port=port))
        again = attack(address, plates, 10, place)
        after = line(name, "started again", 10, again)
        assert after["right"] == 10, after
    return [made, after]


def main(engine="own", users=USERS, address=None):
    """Measures one engine."""
    users, key = int(users), ("engine", "scenario")
    save = functools.partial(serving_table.record, table=TABLE, key=key)
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        serving = {"own": engines.own, "vllm": engines.vllm}[engine]
        start = functools.partial(serving, FOLDER, place / "server.log")
        name = "own" if engine == "own" else f"vllm {serve.NEEDS[0].split('==')[1]}"
        with contextlib.ExitStack() as servers:
            there = address or servers.enter_context(start())[1]
            plates = expected(there)
            save([under_load(name, there, users, place, plates)])
        if address is None:
            save(killed(name, start, users, place, plates))


if __name__ == "__main__":
    main(*sys.argv[1:])
