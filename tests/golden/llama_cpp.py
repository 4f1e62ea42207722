"""`make gguf-check`: GGUF files of this course, opened by llama.cpp itself.

    make gguf-check      five minutes, into data/results/gguf_llama_cpp.csv

Makes an environment with llama.cpp under build/llama-cpp. Of each model of
`llama_cases.py` it writes a file, reads it back, and lets llama.cpp read it too. Both
must cut texts into the same tokens, write the same turns, end at the same tokens and
answer with the same ones, greedily. At every token of llama.cpp's answers our own
logits, given the same text before it, must have that token first, or so nearly that
rounding decides: llama.cpp rounds what it multiplies with matrices of F16 to F16, and
with those of Q8_0 to 8 bits, where we compute in float32; of F32 files all tokens are
equal. Then files that are wrong on purpose must be found out.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from importlib import metadata
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(HERE)]

import bench  # noqa: E402
import llama_cases  # noqa: E402

from helpers.generation import sampling  # noqa: E402
from helpers.model import gguf, scoring, weights  # noqa: E402
from helpers.text import chat  # noqa: E402

NEEDS = (["xllamacpp==2026.10.11549"],)
TABLE = ROOT / "data" / "results" / "gguf_llama_cpp.csv"
TOKENS, TOP = 48, 5
COUNTED = ("tokens", "equal_tokens", "first_differences")
# Logits by which our first token may lead theirs (measured: 0, 0.0012 and 0.44), and
# how far the log-probabilities of their five likeliest tokens are from ours on the mean
# (8e-5, 0.003 and 0.09; of Gemma 0.002, 0.005 and 0.15, whose GELU llama.cpp takes from
# a table in float16).
MOST_BEHIND = {"F32": 1e-3, "F16": 0.05, "Q8_0": 0.75}
MOST_APART = {"F32": 0.005, "F16": 0.01, "Q8_0": 0.3}


class Differs(AssertionError):
    """llama.cpp makes something else of a file than this course."""


class Answer(NamedTuple):
    """llama.cpp's greedy answer, and of each token its likeliest few: {id: logprob}.

    It tells these of tokens after which the text is whole UTF-8, and not which they
    are: where a random model writes any bytes, there are fewer of them than tokens.
    """

    tokens: list
    likeliest: list


@contextlib.contextmanager
def serving(python, file):
    """Runs llama.cpp with a file; gives its base URL."""
    command = [str(python), str(HERE / "llama_server.py"), str(file)]
    with open(file.with_suffix(".log"), "w+") as log:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        server = subprocess.Popen(command, text=True, **pipes)
        try:
            word, _, address = server.stdout.readline().strip().partition(" ")
            if word != "address":
                log.seek(0)
                raise Differs(
                    f"llama.cpp does not open {file.name}: {log.read()[-2000:]}"
                )
            yield address
        finally:
            server.stdin.close()
            server.wait(60)


def ask(address, path, **body):
    """What the server answers, as JSON."""
    request = urllib.request.Request(
        address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Differs(f"llama.cpp refuses {path}: {error.read().decode()}") from None


def answer(address, prompt):
    """llama.cpp's answer to a list of ids."""
    reply = ask(
        address,
        "/completion",
        prompt=prompt,
        n_predict=TOKENS,
        temperature=0,
        n_probs=TOP,
        return_tokens=True,
        cache_prompt=False,
    )
    tops = reply.get("completion_probabilities", [])
    likeliest = [{e["id"]: e["logprob"] for e in t["top_logprobs"]} for t in tops]
    return Answer(reply["tokens"], likeliest)


def same_text(address, tokenizer, prompts):
    """Holds tokens, turns and ends against ours; how many texts there were."""
    written = llama_cases.texts(tokenizer)
    for question, prompt in zip(llama_cases.QUESTIONS, prompts, strict=True):
        messages = [{"role": "user", "content": question}]
        messages = messages if isinstance(question, str) else question
        theirs = ask(address, "/apply-template", messages=messages)["prompt"]
        if tokenizer(theirs)["input_ids"] != prompt:
            ours = tokenizer.decode(prompt)
            raise Differs(f"turns are written otherwise: {theirs!r}, not {ours!r}")
        reply = ask(address, "/v1/chat/completions", messages=messages, max_tokens=1)
        if reply["usage"]["prompt_tokens"] != len(prompt):
            raise Differs(f"a question has {reply['usage']}, not {len(prompt)} tokens")
        written.append(theirs)
    for text in written:
        for begin in (False, True):
            ours = tokenizer(text, add_special_tokens=begin)["input_ids"]
            theirs = ask(address, "/tokenize", content=text, add_special=begin)
            if ours != theirs["tokens"]:
                raise Differs(f"{text!r} has tokens {theirs['tokens']}, not {ours}")
    for end in chat.eos_ids(tokenizer):
        forced = {"n_predict": 2, "logit_bias": [[end, 1e4]], "temperature": 0}
        if ask(address, "/completion", prompt=[end], **forced)["stop_type"] != "eos":
            raise Differs(f"it goes on after {tokenizer.convert_ids_to_tokens(end)}")
    return len(written)


def padded(rows, width):
    """(ids, mask), int32, right-padded."""
    ids, mask = np.zeros((2, len(rows), width), np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask


def greedy(model, prompts, ends):
    """Our own answers, as the course samples them."""
    ids, mask = padded(prompts, -(-max(map(len, prompts)) // 64) * 64)
    keys = jax.random.split(jax.random.key(0), (len(prompts), 1))  # not used
    settings = {"max_tokens": TOKENS, "eos_ids": ends, "temperature": 0}
    made = sampling.generate(model, ids, mask, keys, **settings)
    tokens, real = np.asarray(made.tokens[:, 0]), np.asarray(made.mask[:, 0])
    return [row[keep > 0].tolist() for row, keep in zip(tokens, real, strict=True)]


def scores(model, prompts, answers):
    """Our logits before each token of llama.cpp's answers: a (T, V) float64 each."""
    ids, mask = padded(prompts, -(-max(map(len, prompts)) // 64) * 64)
    completion, _ = padded([answer.tokens for answer in answers], TOKENS)
    batch = {"prompt": ids, "prompt_mask": mask, "completion": completion[:, None]}
    hidden_PTD = nnx.jit(scoring.answer_hidden)(model, jax.tree.map(jnp.asarray, batch))
    read = model.reader()
    return [
        np.asarray(read(hidden[0, : len(answer.tokens)]), np.float64)
        for hidden, answer in zip(hidden_PTD, answers, strict=True)
    ]


def compare_answer(kind, mine, theirs, scores_TV):
    """The figures of one answer; raises Differs where it is another one."""
    tokens = theirs.tokens
    both = min(len(mine), len(tokens))
    if len(mine) != len(tokens) and mine[:both] == tokens[:both]:
        raise Differs(f"of {tokens} and {mine} one goes on where the other ends")
    behind = scores_TV.max(axis=1) - scores_TV[np.arange(len(tokens)), tokens]
    logprobs_TV = np.asarray(jax.nn.log_softmax(scores_TV, axis=1))
    whole = len(theirs.likeliest) == len(tokens)
    apart = [
        abs(logprobs_TV[t, i] - logprob)
        for t, likeliest in enumerate(theirs.likeliest if whole else [])
        for i, logprob in likeliest.items()
    ]
    if behind.max() > MOST_BEHIND[kind]:
        t = int(behind.argmax())
        raise Differs(
            f"token {t} is {tokens[t]}, by {behind[t]:.3g} less likely to us than "
            f"{scores_TV[t].argmax()}"
        )
    return {
        "tokens": len(tokens),
        "equal_tokens": int((behind == 0).sum()),
        "first_differences": int(mine != tokens),
        "largest_gap": float(behind.max()),
        "apart": apart,
    }


def compared(python, case, kind, folder):
    """One line of the table; raises Differs."""
    made = case.make()
    file = folder / "model.gguf"
    with case.under():
        gguf.save(made[0], file, made[1], kind)
        place = gguf.to_folder(file, folder / "read")
    tokenizer, model = chat.load_tokenizer(place), weights.load(place)
    prompts = chat.prompts_tokens(tokenizer, llama_cases.QUESTIONS)
    with serving(python, file) as address:
        texts = same_text(address, tokenizer, prompts)
        answers = [answer(address, prompt) for prompt in prompts]
    mine = greedy(model, prompts, chat.eos_ids(tokenizer))
    rows = [
        compare_answer(kind, *row)
        for row in zip(mine, answers, scores(model, prompts, answers), strict=True)
    ]
    counts = {name: sum(row[name] for row in rows) for name in COUNTED}
    if counts["tokens"] < 8 * len(rows):
        raise Differs(f"all answers together have {counts['tokens']} tokens: too few")
    apart = np.concatenate([row["apart"] for row in rows])
    mean = float(f"{apart.mean():.2g}") if apart.size else ""
    if apart.size and mean > MOST_APART[kind]:
        raise Differs(f"logprobs are {mean} apart on the mean")
    return {
        "model": case.name,
        "type": kind,
        "prompts": len(prompts),
        **counts,
        "largest_gap": float(f"{max(row['largest_gap'] for row in rows):.2g}"),
        "mean_logprob_gap": mean,
        "texts": texts,
        "versions": f"{NEEDS[0][0]}, jax {metadata.version('jax')}",
        "load": round(os.getloadavg()[0], 2),
    }


def lines_of(python, case):
    """The lines of a case, one for each kind of file."""
    for kind in case.kinds:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                line = compared(python, case, kind, pathlib.Path(scratch))
            except Differs as error:
                raise Differs(f"{case.name}, {kind}: {error}") from None
        print(json.dumps(line), flush=True)
        yield line


def main():
    """Compares all, sees that what is wrong is found out, and writes the table."""
    python = bench.environment("llama-cpp", NEEDS, ROOT / "build")
    lines = [line for case in llama_cases.CASES for line in lines_of(python, case)]
    for mutant in llama_cases.mutants():
        try:
            list(lines_of(python, mutant))
        except Differs as error:
            print(f"found out: {str(error)[:300]}", flush=True)
        else:
            raise SystemExit(f"Nothing is wrong, they say, with: {mutant.name}.")
    bench.tables.write(TABLE, lines)
    print(f"llama.cpp answers as this course does: {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
