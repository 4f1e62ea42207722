"""`make app-check`: two models behind two servers, swapped and side by side.

    python tests/browser/two_servers.py [own|vllm]     which server; ours without a name

Each server is a process of its own. What the page shows has to be what the same weights
say in this process, on a drawing that the two models answer differently.
"""

import contextlib
import pathlib
import sys

import check
import chromium

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))

import engines  # noqa: E402

from helpers.app import models, page  # noqa: E402
from helpers.app.chat import converse  # noqa: E402
from helpers.tools.nutrition import TOOL  # noqa: E402

STAGES = {"the first server": "food_grpo", "the second server": "food_sft"}
QUESTION = "How many kcal are in 150 g of this?"
SAID = "{} kcal"  # in a sentence, which may also say that it is wrong


def kilocalories(backend, picture):
    """The number that a model answers with; None if there is none."""
    *_, last = converse(backend, QUESTION, picture, [TOOL])
    number = last.text.removeprefix("#### ")
    return number if last.kind == "answer" and number.isdigit() else None


def told_apart():
    """(number of a drawing, what each model says of it): the two differ."""
    students = [models.load(stage, stage) for stage in STAGES.values()]
    for i, row in enumerate(page.example_rows()):
        said = [kilocalories(model, row["image"]) for model in students]
        if None not in said and len(set(said)) == 2:
            return i, said
    raise AssertionError("The two models say the same of every drawing.")


def main(engine="own"):
    """Whether it was looked at: not without Chromium.

    Raises AssertionError or TimeoutError where a model is not shown as it is.
    """
    serving = {"own": engines.own, "vllm": engines.vllm}[engine]
    program = chromium.find()
    if program is None:
        check._without("Chromium, from apt-get")
        return False
    drawing, said = told_apart()
    first, second = STAGES
    check.BUILD.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as running:
        servers = []
        for name, stage in STAGES.items():
            log = check.BUILD / f"{stage}.log"
            server = serving(engines.ROOT / "data" / "tiny" / stage, log)
            _, address = running.enter_context(server)
            servers += ["--server", name, f"{address}/v1", stage]
        words = ["-m", "scripts.app", *servers, "--port"]
        page_address = running.enter_context(check.served(*words))
        page = chromium.opened(program, page_address, *check.DESK)
        look_at(running.enter_context(page), drawing, (first, second), said)
    print(
        f"Two servers, swapped and side by side: {first} {said[0]}, {second} {said[1]}."
    )
    return True


def look_at(page, drawing, names, said):
    """Asks one beside the other, then only the second one."""
    page.wait(check.PHOTO, seconds=180)
    page.wait(f"{check.TEXT}.includes('Today')")
    check.choose(page, "Model", names[0])
    check.choose(page, "Beside it", names[1])
    before = page.look(check.PHOTO)
    page.look(f"document.querySelectorAll('#drawings button')[{drawing}].click()")
    page.wait(f"{check.PHOTO} != {before!r}" if drawing else "true")
    check.press(page, "Ask")
    page.wait(f"{check.CHAT}.includes({SAID.format(said[0])!r})", seconds=120)
    page.wait(f"{check.BESIDE}.includes({SAID.format(said[1])!r})", seconds=120)
    assert SAID.format(said[1]) not in page.look(check.CHAT)
    check.choose(page, "Beside it", "nobody")
    check.choose(page, "Model", names[1])
    check.press(page, "Ask")
    page.wait(f"{check.CHAT}.includes({SAID.format(said[1])!r})", seconds=120)
    assert not page.complaints, page.complaints


if __name__ == "__main__":
    main(*sys.argv[1:])
