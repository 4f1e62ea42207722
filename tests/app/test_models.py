"""Models of this process: they say what the rollouts say, greedily."""

import dataclasses
import functools
import itertools
import json

import gemma4_sights
import jax
import naive_decoder
import numpy as np
import pytest
import tiny_vision
import toy_tools
from safetensors.numpy import load_file

from helpers import runtime
from helpers.app import models
from helpers.app.chat import converse
from helpers.app.models import LocalModel
from helpers.batches import images, prompt_batches
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.model.vision_config import BUDGETS
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.tools import GEMMA4, Call, nutrition
from helpers.tools.calls import Verdict

TOKENIZER = train_tokenizer(["How many kcal are in 150 g of this?"] * 3, size=300)
BUDGET, RESULTS = 6, 120


class Chatty:
    """A grammar in which a random model calls often: by the length of what it says."""

    name = "chatty"

    def parse(self, text):
        kind = len(text.encode()) % 3
        if kind == 0:
            return Verdict(text=text)
        if kind == 1:
            return Verdict(error="this is no call")
        return Verdict(calls=(Call("tool", {"text": text}),))

    def results(self, results, calls=()):
        content = " ".join(map(json.dumps, results))
        return [{"role": "user", "content": content}]

    def schemas(self, tools):
        return None


TOOLS = [toy_tools.make("tool", lambda text: {"length": len(text)}, text="string")]


@functools.cache
def model(sees=True, seed=0):
    ids = TOKENIZER.convert_tokens_to_ids(
        ["<start_of_image>", "<image_soft_token>", "<end_of_image>"]
    )
    names = ("begin_token", "image_token", "end_token")
    vision = dataclasses.replace(tiny_vision.SEES, **dict(zip(names, ids, strict=True)))
    vision = vision if sees else None
    return tiny_vision.model(seed, vocab=len(TOKENIZER), vision=vision)


@pytest.fixture
def often_ends(monkeypatch):
    """A third of all tokens end a turn, so that short turns often do."""
    real = chat.eos_ids(TOKENIZER)
    monkeypatch.setattr(
        chat, "eos_ids", lambda tokenizer: (*real, *range(20, len(TOKENIZER), 3))
    )


def backend(sees=True, grammar=None, seed=0, **settings):
    settings = {"max_tokens": BUDGET, "max_result_tokens": RESULTS} | settings
    return LocalModel(
        model(sees, seed), TOKENIZER, grammar or Chatty(), "tiny", **settings
    )


def rolled_out(question, picture, seed):
    """The trace of the same conversation, from the loop that rollouts use."""
    content = [{"type": "image"}, {"type": "text", "text": question}]
    vision = model().config.vision
    prompt = next(
        prompt_batches.prompts(
            [{"question": [{"role": "user", "content": content}]}],
            TOKENIZER,
            batch=1,
            buckets=(64,),
            seed=0,
            pictures=lambda row: [images.fit_for(picture, vision)],
            vision=vision,
        )
    )
    use = ToolUse(Chatty(), TOOLS, turns=models.TURNS, max_result_tokens=RESULTS)
    keys = jax.random.split(jax.random.key(0), (1, 1))
    answers = use.answers(
        model(True, seed), TOKENIZER, prompt, keys, max_tokens=BUDGET, temperature=0
    )
    return answers.texts[0][0], bool(answers.ended[0, 0])


def test_it_says_what_the_rollouts_say(often_ends):
    endings, texts = set(), {}
    for seed, shown in itertools.product(range(4), range(2)):
        picture = tiny_vision.pictures(seed=shown)
        trace, ended = rolled_out("What is it?", picture, seed)
        happened = list(converse(backend(seed=seed), "What is it?", picture, TOOLS))
        calls = [(e.call, e.result) for e in happened if e.kind == "result" and e.call]
        assert tuple(calls) == trace.calls
        endings.add(happened[-1].kind)
        texts.setdefault(seed, set()).add(str(trace))
        if happened[-1].kind == "answer":
            assert happened[-1].text == trace.answer
        elif not ended:
            assert "did not finish within" in happened[-1].text
    assert any(len(seen) > 1 for seen in texts.values()), "it does not look"
    assert endings == {"answer", "error"}
    assert any("tool:" in text for seen in texts.values() for text in seen)


def test_a_picture_or_a_question_too_many_is_an_error():
    (event,) = converse(backend(sees=False), "What is it?", tiny_vision.pictures(), [])
    assert event.kind == "error" and "cannot see" in event.text
    words = "kcal " * models.BUCKETS[-1]
    (event,) = converse(backend(), words, tiny_vision.pictures(), [])
    assert event.kind == "error" and "fewer words" in event.text


def test_a_long_result_is_an_error_and_so_is_a_short_limit(often_ends):
    wordy = [toy_tools.make("tool", lambda: {"text": "x" * 1000})]

    class Calls(Chatty):
        def parse(self, text):
            return Verdict(calls=(Call("tool", {}),))

    picture = tiny_vision.pictures()
    happened = list(converse(backend(grammar=Calls()), "?", picture, wordy))
    assert [event.kind for event in happened[:3]] == ["call", "result", "call"]
    short = backend(grammar=Calls())
    happening = converse(short, "?", picture, wordy)
    assert next(happening).kind == "call"
    short.max_result_tokens = 2  # its cache is made: one of this size compiles anew
    *_, last = happening
    assert "larger `max_result_tokens`" in last.text


def test_certainty_is_the_probability_of_the_first_turn():
    """Compared with the decoder in NumPy, token by token."""
    folder = runtime.ROOT / "data" / "tiny" / "sft"
    tokenizer = chat.load_tokenizer(folder)
    hf = json.loads((folder / "config.json").read_text())
    question = "Tom has 2 pens and 3 pens. How many?"
    local = LocalModel(
        weights.load(folder), tokenizer, nutrition.TINY, "tiny", max_tokens=6
    )
    talk = local.begin(question, None)
    assert talk.certainty is None
    turn = talk.write()
    ids = list(chat.prompt_tokens(tokenizer, question))
    assert turn.read == len(ids)
    tensors = load_file(folder / "model.safetensors")
    whole = naive_decoder.logprobs(tensors, hf, ids + turn.tokens.tolist())
    expected = np.exp(whole[-turn.tokens.size :].sum())
    assert talk.certainty == pytest.approx(expected, rel=1e-3)


def test_the_largest_picture_leaves_room_for_a_question(families, monkeypatch):
    """40 × 28 squares are 1,120 tokens, all that Gemma 4 sees in a picture."""
    tokenizer = families["gemma4"]
    model = gemma4_sights.of_config(gemma4_sights.for_tokenizer(tokenizer))
    largest = dataclasses.replace(model.config.vision, budget=max(BUDGETS))
    model.config = dataclasses.replace(model.config, vision=largest)
    monkeypatch.setattr(models, "_LocalConversation", lambda _, prompt, turns: prompt)
    picture = np.zeros((40 * largest.side, 28 * largest.side, 3), np.uint8)
    prompt = LocalModel(model, tokenizer, GEMMA4, "small").begin("Hi " * 200, picture)
    assert (prompt["prompt"] == largest.image_token).sum() == 1120
    assert prompt["prompt_mask"].sum() > 1320


# What is known of each model.


def test_the_courses_models_are_described(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    choices = models.course_models()
    assert list(choices) == list(models.STUDENTS)
    for choice, stage in zip(choices.values(), models.STUDENTS.values(), strict=True):
        assert choice.seen == models.DRAWINGS and "never seen a photo" in choice.seen
        assert choice.runs == f"{stage} on this computer, shipped with the course"
    first, second = choices.values()
    assert first.make() is first.make(), "it is loaded once"
    assert first.make().name == list(choices)[0]
    with first.lock:
        assert not first.lock.acquire(blocking=False), "it works for one at a time"
        assert second.lock.acquire(blocking=False), "which is no matter of the other's"
