"""A model in this process: it says what the rollouts' own loop says, greedily."""

import dataclasses
import functools
import itertools
import json

import jax
import naive_decoder
import numpy as np
import pytest
import tiny_vision
import toy_tools
from safetensors.numpy import load_file

from helpers import runtime
from helpers.app import local_model
from helpers.app.assistant import converse
from helpers.app.local_model import LocalModel
from helpers.batches import images, prompt_batches
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.tools import nutrition
from helpers.tools.calls import Call, Verdict

TOKENIZER = train_tokenizer(["How many kcal are in 150 g of this?"] * 3, size=300)
BUDGET, HEARD = 6, 120


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
    settings = {"max_tokens": BUDGET, "max_result_tokens": HEARD} | settings
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
            pictures=lambda row: [images.fit(picture, vision.size)],
            vision=vision,
        )
    )
    use = ToolUse(Chatty(), TOOLS, turns=local_model.TURNS, max_result_tokens=HEARD)
    keys = jax.random.split(jax.random.key(0), (1, 1))
    answers = use.answers(
        model(True, seed), TOKENIZER, prompt, keys, max_tokens=BUDGET, temperature=0
    )
    return answers.texts[0][0], bool(answers.ended[0, 0])


def test_it_says_what_the_rollouts_say(often_ends):
    endings, texts = set(), {}
    for seed, shown in itertools.product(range(8), range(2)):
        picture = tiny_vision.pictures(seed=shown)
        trace, ended = rolled_out("What is it?", picture, seed)
        talk = converse(backend(seed=seed), "What is it?", picture, TOOLS)
        happened = list(talk)
        calls = [(e.call, e.result) for e in happened if e.kind == "result" and e.call]
        assert tuple(calls) == trace.calls
        endings.add(happened[-1].kind)
        texts.setdefault(seed, set()).add(str(trace))
        if happened[-1].kind == "answer":
            assert happened[-1].text == trace.answer
        elif not ended:
            assert "did not end its turn" in happened[-1].text
    assert any(len(said) > 1 for said in texts.values()), "it does not look"
    assert endings == {"answer", "error"}
    assert any("tool:" in text for said in texts.values() for text in said)


def test_without_a_picture_too(often_ends):
    for sees in (True, False):
        happened = list(converse(backend(sees), "Hello?", None, TOOLS))
        assert happened[-1].kind in ("answer", "error")


def test_a_model_that_cannot_see_says_so():
    (event,) = converse(backend(sees=False), "What is it?", tiny_vision.pictures(), [])
    assert event.kind == "error" and "cannot see" in event.text


def test_a_question_that_is_too_long_says_so():
    words = "kcal " * local_model.BUCKETS[-1]
    (event,) = converse(backend(), words, tiny_vision.pictures(), [])
    assert event.kind == "error" and "fewer words" in event.text


def test_an_endless_turn_says_so(monkeypatch):
    monkeypatch.setattr(chat, "eos_ids", lambda tokenizer: ())
    (event,) = converse(backend(), "What is it?", tiny_vision.pictures(), [])
    assert event.kind == "error" and "within 6 tokens" in event.text


def test_a_long_result_is_an_error_and_a_short_limit_is_told(often_ends):
    wordy = [toy_tools.make("tool", lambda: {"text": "x" * 1000})]

    class Calls(Chatty):
        def parse(self, text):
            return Verdict(calls=(Call("tool", {}),))

    picture = tiny_vision.pictures()
    happened = list(converse(backend(grammar=Calls()), "?", picture, wordy))
    assert [event.kind for event in happened[:3]] == ["call", "result", "call"]
    short = backend(grammar=Calls(), max_result_tokens=2)
    happened = list(converse(short, "?", picture, wordy))
    assert "larger `max_result_tokens`" in happened[-1].text


def test_a_stage_that_is_not_there_says_what_to_do():
    with pytest.raises(local_model.BackendError, match="There is no stage"):
        local_model.load("no_such_stage", "x")


def test_pictures_of_any_size_are_seen(often_ends):
    wide = np.zeros((100, 400, 3), np.uint8)
    assert list(converse(backend(), "What is it?", wide, TOOLS))


def test_certainty_is_the_probability_of_the_first_turn():
    """Held to the decoder in NumPy, token by token."""
    folder = runtime.ROOT / "data" / "tiny" / "sft"
    tokenizer, hf = (
        chat.load_tokenizer(folder),
        json.loads((folder / "config.json").read_text()),
    )
    asked = [{"role": "user", "content": "Tom has 2 pens and 3 pens. How many?"}]
    local = LocalModel(
        weights.load(folder), tokenizer, nutrition.TINY, "tiny", max_tokens=6
    )
    talk = local.begin(asked[0]["content"], None)
    assert talk.certainty is None and talk.tokens == 0
    turn, certainty = talk.write(), talk.certainty
    prompt = next(
        prompt_batches.prompts(
            [{"question": asked}], tokenizer, batch=1, buckets=(64,), seed=0
        )
    )
    ids = prompt["prompt"][prompt["prompt_mask"] > 0].tolist()
    tensors = load_file(folder / "model.safetensors")
    whole = naive_decoder.logprobs(tensors, hf, ids + turn.tokens.tolist())
    own = whole[-turn.tokens.size :]
    np.testing.assert_allclose(turn.logprobs, own, atol=1e-3)
    assert certainty == pytest.approx(np.exp(own.sum()), rel=1e-3)
    assert talk.tokens == turn.tokens.size == turn.logprobs.size
    cut = turn.cut(2, tokenizer)
    np.testing.assert_array_equal(cut.logprobs, turn.logprobs[:2])
