"""`make serve-check`: our client against a server that really runs.

    python tests/serve/serve.py [transformers|llama|vllm]

`transformers serve` is the default, and CI's: it needs the environment that parity has
anyway. It serves a tiny text model that this course exports, and has to say what our
decoder says, greedily; its refusals have to be readable. `llama` is the same with
SmolLM2-135M as a GGUF file in llama.cpp; `vllm` is `vllm_check.py`.
"""

import contextlib
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import engines  # noqa: E402
from bench import environment  # noqa: E402

from helpers.app.chat import converse  # noqa: E402
from helpers.app.models import LocalModel  # noqa: E402
from helpers.app.server import OpenAIServer  # noqa: E402
from helpers.course import stages  # noqa: E402
from helpers.model import gguf, hub, weights  # noqa: E402
from helpers.tasks.maths import word_problems  # noqa: E402
from helpers.text import chat  # noqa: E402
from helpers.tools.nutrition import TINY  # noqa: E402

BUDGET, QUESTIONS = 64, 6
REAL_QUESTIONS = ["What is the capital of France?", "Name three colours.", "2 + 3 = ?"]


@contextlib.contextmanager
def serving(python, log):
    """Runs `transformers serve` on a free port; gives its base URL."""
    port = engines.free_port()
    program = pathlib.Path(python).with_name("transformers")
    command = [str(program), "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--device", "cpu"]
    env = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with engines.running(command, port, log, env):
        yield f"http://127.0.0.1:{port}/v1"


def check(address, name, ours, questions, unknown=True):
    """Raises AssertionError where server and decoder differ, or a refusal is mute."""
    settings = {"max_tokens": BUDGET, "timeout": 600.0}
    served = OpenAIServer(address, name, **settings)
    answered = 0
    for question in questions:
        here, there = (
            list(converse(backend, question, None, [])) for backend in (ours, served)
        )
        print(f"ours:   {here[-1]}\nserver: {there[-1]}", flush=True)
        if here[-1].kind == "answer":
            answered += 1
            assert there[-1].text.split() == here[-1].text.split()
    assert answered >= len(questions) // 2, "too few answers end to compare"
    if unknown:
        nowhere = OpenAIServer(address, "no/such-model", **settings)
        (refused,) = converse(nowhere, "Hello?", None, [])
        print(refused)
        assert (
            refused.kind == "error"
            and "The server answered with status" in refused.text
        )


def our_model(folder):
    """Our decoder on a folder, as the app asks it."""
    tokenizer, model = chat.load_tokenizer(folder), weights.load(folder)
    return LocalModel(model, tokenizer, TINY, "ours", max_tokens=BUDGET)


def transformers(scratch):
    """Makes the environment, exports the model, runs the server, asks it."""
    from parity import NEEDS

    python = environment("parity", NEEDS, engines.ROOT / "build")
    folder, source = scratch / "tiny", stages.stage_folder("sft")
    weights.save(weights.load(source), folder, chat.load_tokenizer(source))
    rows = word_problems.generate(QUESTIONS, seed=5, split="test")
    questions, log = [row["question"] for row in rows], scratch / "log"
    with serving(python, log) as address:
        try:
            check(address, str(folder), our_model(folder), questions)
        except BaseException:
            print(log.read_text()[-4000:], file=sys.stderr)
            raise


def llama(scratch):
    """SmolLM2-135M in llama.cpp, from a GGUF file of ours."""
    import llama_cases
    import llama_cpp

    python = environment("llama-cpp", llama_cpp.NEEDS, engines.ROOT / "build")
    folder = hub.fetch(llama_cases.REAL)
    ours, file = our_model(folder), scratch / "model.gguf"
    gguf.save(ours.model, file, ours.tokenizer, "F32")
    with llama_cpp.serving(python, file) as address:
        # It has one model, and answers whatever name it is called.
        check(f"{address}/v1", "model", ours, REAL_QUESTIONS, unknown=False)


def main(engine="transformers", *more):
    """Checks one engine."""
    if engine == "vllm":
        import vllm_check

        vllm_check.main(more)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            {"transformers": transformers, "llama": llama}[engine](
                pathlib.Path(scratch)
            )
        print(f"{engine} says what our decoder says.")


if __name__ == "__main__":
    main(*sys.argv[1:])
