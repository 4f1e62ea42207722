"""The food models in vLLM: pictures, calls by its parser, the assistant's way there.

vLLM's kernels on a CPU leave out that Gemma 3's image tokens see each other both ways,
so its numbers are not quite ours, and a few answers may differ: how far is measured.
"""

import contextlib
from unittest import mock

import engines
import jax
import jax.numpy as jnp
import numpy as np
import serving_table

from helpers.app import models
from helpers.app.chat import converse, portions
from helpers.app.server import OpenAIServer
from helpers.generation import sessions
from helpers.model import transformer
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import nutrition
from scripts import serve

TINY = engines.ROOT / "data" / "tiny"
TOOLS, QUESTIONS = [nutrition.TOOL], 24


def questions(count=QUESTIONS):
    """Rows with a picture and a question; one in five shows no food."""
    rows = food_pictures.generate(count, seed=5, split="test", no_food=0.2)
    return list(food_traces.ask(rows, seed=5))


def served(address, name):
    """The app's way to a server."""
    return OpenAIServer(f"{address}/v1", name, tools=TOOLS, timeout=600.0)


def in_words(events):
    """What a conversation was, shortly."""
    return " | ".join(
        f"{event.call.name} {event.call.arguments}" if event.kind == "call" else
        event.text for event in events if event.kind != "result"
    )  # fmt: skip


def misread(events):
    """Whether a call could not be read; a server leaves it as text, and cannot say."""
    return any(event.kind == "result" and event.call is None for event in events)


def conversations(row, backend, model, rows):
    """Rows: conversations equal to ours event by event, and calls in them."""
    pairs = [
        [list(converse(b, r["text"], r["image"], TOOLS)) for b in (model, backend)]
        for r in rows
    ]
    pairs = [pair for pair in pairs if not misread(pair[0])]
    parted = [pair for pair in pairs if pair[0] != pair[1]]
    note = " — vLLM: ".join(map(in_words, parted[0])) if parted else ""
    yield row("conversations equal to ours", len(pairs) - len(parted), len(pairs), note)
    theirs = [events for _, events in pairs]
    ended = sum(events[-1].kind == "answer" for events in theirs)
    yield row("conversations that end in an answer", ended, len(pairs))
    called = sum(bool(portions(events)) for events in theirs)
    assert called, "no call came through the parser"
    yield row("conversations with a call by its parser", called, len(pairs))


@contextlib.contextmanager
def one_way():
    """Our decoder with image tokens that see only those before them."""
    jax.clear_caches()
    with mock.patch.object(transformer, "image_runs", jnp.zeros_like):
        yield
    jax.clear_caches()


def nats(row, what, backend, model, rows):
    """Row: how far log-probabilities are from ours in first turns that are the same."""
    gaps = []
    for question in rows:
        session = model.begin(question["text"], question["image"]).session
        _, made = sessions.generate(
            model.model,
            session,
            jax.random.split(jax.random.key(0), (1, 1)),  # greedy: not used
            np.ones((1, 1), bool),
            max_tokens=model.max_tokens,
            eos_ids=chat.eos_ids(model.tokenizer),
            temperature=0,
        )
        real = np.asarray(made.mask[0, 0]) > 0
        ids = np.asarray(made.tokens[0, 0])[real]
        ours = np.asarray(made.logprobs[0, 0])[real]
        messages = backend.begin(question["text"], question["image"]).messages
        body = {"model": backend.model, "messages": messages, "temperature": 0}
        body |= {"max_tokens": model.max_tokens, "logprobs": True}
        body |= {"return_token_ids": True, "tools": backend.schemas}
        (note,) = engines.post(backend.base_url, "/chat/completions", **body)["choices"]
        theirs = [token["logprob"] for token in note["logprobs"]["content"]]
        if note["token_ids"] == ids.tolist() and len(theirs) == len(ours):
            gaps.append(np.abs(ours - theirs).max())
    yield row(f"nats off our log-probabilities, {what}", max(gaps), len(gaps))


def checked(teacher):
    """All rows of a teacher that runs at this address in vLLM."""
    name = "food_grpo"
    row = serving_table.rows_of("vllm", serve.NEEDS[0], f"tiny/{name}")
    backend, model = served(teacher, name), models.load(name, name)
    yield from conversations(row, backend, model, questions())
    yield from nats(row, "as it is", backend, model, questions())
    with one_way():
        yield from nats(row, "images seen one way", backend, model, questions())


def food(log):
    """The food model in vLLM."""
    with engines.vllm(TINY / "food_grpo", log) as (_, teacher):
        yield from checked(teacher)
