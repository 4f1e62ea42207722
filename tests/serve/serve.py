"""`make serve-check`: our client against a really running `transformers serve`.

It serves a tiny text model that this course exports, in parity's environment (torch),
and has to say what our own decoder says, greedily; its refusals are told in words.
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "golden")]

from bench import environment  # noqa: E402
from parity import NEEDS  # noqa: E402

from helpers.app.assistant import converse  # noqa: E402
from helpers.app.local_model import LocalModel  # noqa: E402
from helpers.app.openai_server import OpenAIServer  # noqa: E402
from helpers.course import stages  # noqa: E402
from helpers.model import weights  # noqa: E402
from helpers.tasks.maths import word_problems  # noqa: E402
from helpers.text import chat  # noqa: E402
from helpers.tools.nutrition import TINY  # noqa: E402

BUDGET, ASKED = 64, 6


@contextlib.contextmanager
def serving(python, log):
    """Runs `transformers serve` on a free port; gives its base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = pathlib.Path(python).with_name("transformers")
    command = [str(program), "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--device", "cpu"]
    own = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    server = subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _wait_for(address, server, seconds=300):
    deadline = time.monotonic() + seconds
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address)
            return
        except urllib.error.HTTPError:
            return  # it answers, if only that it does not know this page
        except OSError:
            time.sleep(0.5)
    raise TimeoutError("`transformers serve` does not run; its output stands above.")


def check(address, folder):
    """Raises AssertionError where server and decoder differ, or a refusal is mute."""
    tokenizer, model = chat.load_tokenizer(folder), weights.load(folder)
    own = LocalModel(model, tokenizer, TINY, "own", max_tokens=BUDGET)
    settings = {"max_tokens": BUDGET, "timeout": 300.0}
    served = OpenAIServer(address, str(folder), **settings)
    answered = 0
    for row in word_problems.generate(ASKED, seed=5, split="test"):
        here, there = (
            list(converse(backend, row["question"], None, []))
            for backend in (own, served)
        )
        print(f"ours:   {here[-1]}\nserver: {there[-1]}", flush=True)
        if here[-1].kind == "answer":
            answered += 1
            assert there[-1].text.split() == here[-1].text.split()
    assert answered >= ASKED // 2, "too few answers end to compare"
    nowhere = OpenAIServer(address, "no/such-model", **settings)
    (refused,) = converse(nowhere, "Hello?", None, [])
    print(refused)
    assert refused.kind == "error" and "The server refuses" in refused.text


def main():
    """Makes the environment, exports the model, runs the server, asks it."""
    python = environment("parity", NEEDS, ROOT / "build")
    with tempfile.TemporaryDirectory() as scratch:
        folder, source = pathlib.Path(scratch, "tiny"), stages.stage_folder("sft")
        weights.save(weights.load(source), folder, chat.load_tokenizer(source))
        log_path = pathlib.Path(scratch, "log")
        with open(log_path, "w") as log:
            try:
                with serving(python, log) as address:
                    check(address, folder)
            except BaseException:
                print(log_path.read_text()[-4000:], file=sys.stderr)
                raise
    print("`transformers serve` says what our own decoder says.")


if __name__ == "__main__":
    main()
