"""`make serve-check ENGINE=vllm`: our exports in vLLM, into data/results/serving.csv.

    python tests/serve/vllm_check.py [CASE …]      all without names; half an hour

Each case is one server, and each row one thing measured of it. Answers
are greedy, and compared with our decoder's token by token; where they part, our
logits say by how much we preferred our token. Times are wall-clock.
"""

import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
import types

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import engines  # noqa: E402
import llama_cases  # noqa: E402
import llama_cpp  # noqa: E402
import serving_table  # noqa: E402
import vllm_food  # noqa: E402

from helpers.model import hub, lora, weights  # noqa: E402
from helpers.tasks.maths import word_problems  # noqa: E402
from helpers.text import chat  # noqa: E402
from scripts import serve  # noqa: E402

TINY = engines.ROOT / "data" / "tiny"
REAL, TOKENS, NEAR = llama_cases.REAL, llama_cpp.TOKENS, 1e-3


def complete(address, name, prompt):
    """The ids of an answer to a list of ids, greedily."""
    body = {"model": name, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0}
    answer = engines.post(address, "/v1/completions", return_token_ids=True, **body)
    return answer["choices"][0]["token_ids"]


def compared(model, tokenizer, prompts, answers):
    """How many answers are ours, and the first difference in words.

    Raises AssertionError where one parts from ours by more than rounding.
    """
    ends = set(chat.eos_ids(tokenizer))
    mine = llama_cpp.greedy(model, prompts, tuple(ends))
    equal, note = 0, ""
    for prompt, ours, theirs in zip(prompts, mine, answers, strict=True):
        ours, theirs = ([t for t in row if t not in ends] for row in (ours, theirs))
        equal += ours == theirs
        if ours != theirs and not note:
            answer = types.SimpleNamespace(tokens=theirs)
            (scores,) = llama_cpp.scores(model, [prompt], [answer])
            behind = scores.max(axis=1) - scores[np.arange(len(theirs)), theirs]
            at = next((i for i, gap in enumerate(behind) if gap), len(theirs))
            note = f"token {at}, {behind.max():.2g} behind in our logits"
            assert behind.max() < NEAR, note
    return equal, note


def same_answers(row, address, name, model, tokenizer, prompts):
    """Rows: answers equal to ours, one by one and all at once."""
    begin = time.monotonic()
    alone = [complete(address, name, prompt) for prompt in prompts]
    speed_alone = sum(map(len, alone)) / (time.monotonic() - begin)
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        begin = time.monotonic()
        ask = pool.map(lambda prompt: complete(address, name, prompt), prompts)
        together = list(ask)
    speed = sum(map(len, together)) / (time.monotonic() - begin)
    for how, answers in (("one by one", alone), ("at once", together)):
        equal, note = compared(model, tokenizer, prompts, answers)
        yield row(f"answers equal to ours, {how}", equal, len(prompts), note)
    yield row("tokens a second, one by one", speed_alone, len(prompts))
    yield row("tokens a second, at once", speed, len(prompts))


def maths(count):
    """(model, tokenizer, prompts) of the tiny maths model."""
    tokenizer = chat.load_tokenizer(TINY / "grpo")
    rows = word_problems.generate(count, seed=5, split="test")
    prompts = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    return weights.load(TINY / "grpo"), tokenizer, prompts


def grpo(log):
    """The tiny model as it is committed, alone."""
    row = serving_table.rows_of("vllm", serve.NEEDS[0], "tiny/grpo")
    with engines.vllm(TINY / "grpo", log) as (_, address):
        yield from same_answers(row, address, "grpo", *maths(24))


def real(log):
    """SmolLM2-135M."""
    folder = hub.fetch(REAL)
    model, tokenizer = llama_cases.real()
    row = serving_table.rows_of("vllm", serve.NEEDS[0], "SmolLM2-135M")
    prompts = chat.prompts_tokens(tokenizer, llama_cases.QUESTIONS[3:7])
    with engines.vllm(folder, log) as (_, address):
        name = pathlib.Path(folder).name
        yield from same_answers(row, address, name, model, tokenizer, prompts)


def adapter(log):
    """SmolLM2-135M with a LoRA folder of ours beside it: each name has its answers."""
    folder = hub.fetch(REAL)
    model, tokenizer = llama_cases.real()
    adapted, _ = llama_cases.real(adapter=True)
    row = serving_table.rows_of("vllm", serve.NEEDS[0], "SmolLM2-135M, LoRA")
    prompts = chat.prompts_tokens(tokenizer, llama_cases.QUESTIONS[3:7])
    name, both = pathlib.Path(folder).name, (model, lora.merge(adapted))
    ends = tuple(chat.eos_ids(tokenizer))
    with tempfile.TemporaryDirectory() as scratch:
        mine = pathlib.Path(scratch, "mine")
        lora.save(adapted, mine, folder)
        flags = ["--enable-lora", "--lora-modules", f"mine={mine}"]
        with engines.vllm(folder, log, *flags) as (_, address):
            yield from same_answers(row, address, "mine", both[1], tokenizer, prompts)
            ours = [llama_cpp.greedy(each, prompts, ends) for each in both]
            yield adapter_row(row, address, (name, "mine"), ours, prompts)


def adapter_row(row, address, names, ours, prompts):
    """Row: answers that an adapter changes, and that vLLM changes with it.

    Raises AssertionError where it does not: a server that ignores the adapter says the
    same by both names, and one that always applies it, too.
    """
    theirs = [[complete(address, name, p) for p in prompts] for name in names]
    changed = [a != b for a, b in zip(*ours, strict=True)]
    parted = [a != b for a, b in zip(*theirs, strict=True)]
    assert any(changed), "this adapter changes no answer: nothing would be noticed"
    assert parted == changed, (parted, changed)
    return row("answers that the adapter changes", sum(parted), len(prompts))


ALL = (grpo, real, adapter, vllm_food.food)
CASES = {case.__name__: case for case in ALL}


def main(names):
    """Runs the cases, and writes each into the table when it is through."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for name in names or CASES:
        log = engines.ROOT / "build" / "serve" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        serving_table.record(list(CASES[name](log)))


if __name__ == "__main__":
    main(sys.argv[1:])
