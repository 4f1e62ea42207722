"""A model behind a server: its tool calls, and everything a server can do wrong."""

import base64
import io
import json
import socket
import sys
import time

import numpy as np
import pytest
from fake_openai import Drip, call, message, serving
from PIL import Image

from helpers.app import openai_answers
from helpers.app.assistant import converse, portions
from helpers.app.openai_server import LARGEST_ANSWER, OpenAIServer
from helpers.tools.nutrition import TOOL

PIZZA = {"food": "pizza", "grams": 150}
KCAL = 402  # 268 kcal per 100 g in data/nutrition.csv
PICTURE = np.random.default_rng(0).integers(0, 256, (40, 30, 3)).astype(np.uint8)


def events(address, **settings):
    server = OpenAIServer(address, "m", tools=[TOOL], **{"timeout": 5.0} | settings)
    return list(converse(server, "kcal?", PICTURE, [TOOL]))


def error(address, **settings):
    """The one event of a conversation that failed at once."""
    (event,) = events(address, **settings)
    assert event.kind == "error"
    return event.text


def kinds(happened):
    return [event.kind for event in happened]


def test_a_conversation_with_a_call():
    with serving(message("I look.", [call(PIZZA)]), message("That is 402 kcal.")) as (
        fake,
        address,
    ):
        happened = events(address, key="secret")
    assert kinds(happened) == ["said", "call", "result", "answer"]
    assert happened[0].text == "I look."
    assert happened[1].call.arguments == PIZZA
    assert happened[2].result["kcal"] == KCAL
    assert happened[3].text == "That is 402 kcal."
    (found,) = portions(happened)
    assert found["food"] == "pizza" and found["kcal"] == KCAL

    (path, headers, first), (_, _, second) = fake.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret"
    assert first["model"] == "m"
    assert first["tools"][0]["function"]["name"] == "lookup_nutrition"
    (asked,) = first["messages"]
    image, text = asked["content"]
    assert text == {"type": "text", "text": "kcal?"}
    kind, encoded = image["image_url"]["url"].split(",")
    assert kind == "data:image/png;base64"
    sent = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))
    np.testing.assert_array_equal(sent, PICTURE)

    assert second["messages"][0] == asked
    spoken, told = second["messages"][1:]
    assert spoken["tool_calls"][0]["id"] == told["tool_call_id"] == "call_abc"
    assert json.loads(spoken["tool_calls"][0]["function"]["arguments"]) == PIZZA
    assert told["role"] == "tool" and json.loads(told["content"])["kcal"] == KCAL


def test_two_calls_of_one_turn_are_answered_each_by_its_name():
    rice = {"food": "fried rice", "grams": 100}
    calls = [call(PIZZA, identity="a"), call(rice, identity="b")]
    with serving(message(None, calls), message("Both.")) as (fake, address):
        happened = events(address)
    assert kinds(happened) == ["call", "result", "call", "result", "answer"]
    assert [p["food"] for p in portions(happened)] == ["pizza", "fried_rice"]
    told = fake.requests[1][2]["messages"][2:]
    assert [message["tool_call_id"] for message in told] == ["a", "b"]
    assert json.loads(told[1]["content"])["food"] == "fried_rice"


def test_two_calls_of_one_id_get_each_an_id_of_its_own():
    """By its id the server knows whose result it is."""
    rice = {"food": "fried rice", "grams": 100}
    calls = [call(PIZZA, identity="a"), call(rice, identity="a")]
    with serving(message(None, calls), message("Both.")) as (fake, address):
        events(address)
    spoken, *told = fake.requests[1][2]["messages"][1:]
    ids = [each["id"] for each in spoken["tool_calls"]]
    assert ids == [each["tool_call_id"] for each in told] and len(set(ids)) == 2


def test_a_large_photo_is_sent_smaller():
    photo = np.zeros((3000, 2000, 3), np.uint8)
    with serving(message("Black.")) as (fake, address):
        list(converse(OpenAIServer(address, "m"), "?", photo, []))
    url = fake.requests[0][2]["messages"][0]["content"][0]["image_url"]["url"]
    data = base64.b64decode(url.partition(",")[2])
    assert max(Image.open(io.BytesIO(data)).size) == 896


@pytest.mark.parametrize(
    "address, key",
    [
        ("http://127.0.0.1:eight/v1", None),
        ("http://[::1", None),
        ("http://\u200b/v1", None),
        ("http://" + "a" * 70 + "/v1", None),  # no label of a name is so long
        ("http://127.0.0.1:99999/v1", None),
        ("http:///v1", None),
        ("http://127.0.0.1:9/v1", "ключ"),
        ("http://127.0.0.1:9/v1", "se\ncret"),
    ],
)
def test_an_address_or_key_that_cannot_be_sent(address, key):
    said = error(address, key=key)
    assert "Give both again" in said and str(key) not in said


@pytest.mark.parametrize(
    "body",
    [
        message("\ud800", [call(PIZZA)]),
        message(None, [call(PIZZA, name="\ud800")]),
        message(None, [call(PIZZA, identity="\ud800")]),
    ],
    ids=["text", "name", "id"],
)
def test_half_a_character_is_neither_shown_nor_sent_back(body):
    with serving(body) as (fake, address):
        assert "half a character" in error(address)
        fake.replies = [(500, {"error": {"message": "its \ud800 words"}})]
        assert "its ? words" in error(address)


def test_keys_of_the_environment_stay_at_home(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-mine")
    headers = "X-Api-Key: mine\nAuthorization: Bearer mine"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", headers)
    with serving(message("Hello.")) as (fake, address):
        events(address)
        events(address, key="of this server")
        events(address.replace("//", "//me:word@"))
    sent = [headers for _, headers, _ in fake.requests]
    assert "mine" not in str(sent)
    assert [headers.get("authorization") for headers in sent] == [
        None,
        "Bearer of this server",
        "Basic bWU6d29yZA==",
    ]


@pytest.mark.parametrize(
    "status, remedy",
    [
        (302, "where it really is"),
        (400, "choose a model that does"),
        (401, "give the one that this server gave you"),
        (403, "ask for access"),
        (404, "does not know the model"),
        (429, "wait"),
        (500, "look at its log"),
        (503, "look at its log"),
    ],
)
def test_a_refusal_is_told_with_its_remedy(status, remedy):
    body = {"error": {"message": "the server's\nown words"}}
    with serving((status, body)) as (fake, address):
        said = error(address)
    assert str(status) in said and remedy in said
    assert "It says: the server's own words" in said
    assert len(fake.requests) == 1, "nothing is tried again behind one's back"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>" + b"x" * 9000, b'{"error": ["a"]}', b"[" * 4000, b"\xff\xfe", b"3"],
)
def test_a_refusal_in_any_form_is_told_shortly(body):
    with serving((500, body)) as (_, address):
        said = error(address)
    assert "500" in said and len(said) < 600


def test_nobody_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = error(f"http://127.0.0.1:{port}/v1")
    assert "Nothing answers" in said and "Start the server" in said


@pytest.mark.parametrize("address", ["", "localhost:8000/v1", "file:///etc/passwd"])
def test_no_address(address):
    assert "give an address" in error(address)


@pytest.mark.parametrize(
    "reply",
    [
        3.0,
        (200, Drip((b" " * 100, 0.2))),
        (500, Drip((b" " * 100, 0.2))),
        (Drip(([b"HTTP/1.1 200 OK\r\n", *[b"X-More: x\r\n"] * 40], 0.1)), {}),
        (Drip(([b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"] * 40, 0.1)), {}),
    ],
    ids=[
        "silence",
        "a dripping answer",
        "a dripping error",
        "a dripping head",
        "hints",
    ],
)
def test_a_server_that_takes_too_long(reply):
    with serving(reply) as (_, address):
        started = time.monotonic()
        said = error(address, timeout=0.6)
    assert "within 0.6 s" in said and "timeout" in said
    assert time.monotonic() - started < 2.5


def test_a_connection_that_ends_in_the_middle():
    with serving(0.0) as (_, address):
        assert "Nothing answers" in error(address)


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_end_is_not_read_to_its_end(status):
    body = b'"' + b"x" * (3 * LARGEST_ANSWER) + b'"'
    with serving((status, body)) as (_, address):
        assert "longer than 1,000,000 bytes" in error(address)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[" * 100_000,
        [],
        {},
        {"choices": []},
        {"choices": {"0": 1}},
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {"content": 7}}]},
        {"choices": [{"message": {"tool_calls": {"a": 1}}}]},
        message("x" * 30_000),
        message(None, [call(PIZZA)] * 5),
    ],
)
def test_an_answer_in_another_form_is_told(body):
    with serving((200, body)) as (_, address):
        said = error(address)
    assert "cannot be used" in said and "ending in /v1" in said


@pytest.mark.parametrize(
    "reason, remedy", [("length", "max_tokens"), ("content_filter", "other words")]
)
@pytest.mark.parametrize("calls", [(), (call(PIZZA),)], ids=["words", "a call"])
def test_a_turn_that_was_cut_off_is_no_answer(reason, remedy, calls):
    """Of "#### 402" a budget may leave "#### 40"."""
    body = message("It has\n#### 40", calls)
    body["choices"][0]["finish_reason"] = reason
    with serving(body) as (_, address):
        said = error(address)
    assert remedy in said and "40" not in said


def test_silence_is_an_error():
    for content in ("", "  \n", None):
        with serving(message(content)) as (_, address):
            assert "without a word" in error(address)


MALFORMED = {
    "no JSON": call("{food: pizza}"),
    "something after it": call('{"food": "pizza", "grams": 1} DROP TABLE foods'),
    "NaN": call('{"food": "pizza", "grams": NaN}'),
    "a key twice": call('{"food": "pizza", "food": "ramen", "grams": 1}'),
    "a list": call("[1]"),
    "deep": call("[" * 5000),
    "long": call('{"food": "' + "x" * 5000 + '"}'),
    "no text": {"id": "x", "function": {"name": "lookup_nutrition", "arguments": {}}},
    "no name": {"id": "x", "function": {"arguments": "{}"}},
    "long name": call(PIZZA, name="x" * 1000),
    "no function": {"id": "x"},
    "no dict": "lookup",
    "no id": {**call("{"), "id": None},
    "long id": {**call("{"), "id": "x" * 10_000},
}


@pytest.mark.parametrize("asked", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_call_is_told_to_the_model_which_goes_on(asked):
    with serving(message("", [asked]), message("Sorry.")) as (fake, address):
        happened = events(address)
    assert kinds(happened) == ["result", "answer"]
    assert "This is no call" in happened[0].result["error"]
    spoken, told = fake.requests[1][2]["messages"][1:]
    (echo,) = spoken["tool_calls"]
    assert echo["id"] == told["tool_call_id"] and 0 < len(echo["id"]) <= 200
    assert json.loads(echo["function"]["arguments"]) == {}
    assert "This is no call" in json.loads(told["content"])["error"]
    assert len(json.dumps(spoken)) < 1000


@pytest.mark.parametrize(
    "asked, said",
    [
        (call({"food": "pizza'; DROP TABLE foods --", "grams": 1}), "No food"),
        (call({"food": "pizza", "grams": 1e300}), "grams must be"),
        (call({"food": "pizza", "grams": "150"}), "grams must be"),
        (call({"food": "pizza"}), "exactly two arguments"),
        (call({"cmd": "rm -rf /"}, name="shell"), "There is no tool"),
    ],
)
def test_a_call_of_nonsense_gets_the_tools_error(asked, said):
    with serving(message("", [asked]), message("Sorry.")) as (_, address):
        happened = events(address)
    assert kinds(happened) == ["call", "result", "answer"]
    assert said in happened[1].result["error"]
    assert portions(happened) == []


def test_one_malformed_call_of_two_stops_both():
    calls = [call(PIZZA, identity="a"), call("{", identity="b")]
    with serving(message(None, calls), message("Sorry.")) as (fake, address):
        happened = events(address)
    assert kinds(happened) == ["result", "answer"]
    told = fake.requests[1][2]["messages"][2:]
    assert [message["tool_call_id"] for message in told] == ["a", "b"]


def test_a_model_that_calls_for_ever_is_stopped():
    with serving(message(None, [call(PIZZA)])) as (fake, address):
        happened = events(address)
    assert happened[-1].kind == "error" and "goes on calling" in happened[-1].text
    assert len(fake.requests) == 4


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    assert "pip install -e '.[app]'" in error("http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    "usage, written",
    [
        ({"completion_tokens": 12}, 12),
        ({"completion_tokens": -1}, None),
        ({"completion_tokens": True}, None),
        ({"completion_tokens": "12"}, None),
        ({"completion_tokens": 10**9}, None),
        ([], None),
    ],
)
def test_tokens_are_what_the_server_counts_and_nothing_else(usage, written):
    assert openai_answers.tokens_written({"usage": usage}) == written
    assert openai_answers.tokens_written([]) is None
