"""Requests to our own chat server: what it can do is read, all else refused by name."""

import base64
import io
import json

import numpy as np
import pytest
from fake_openai import call
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers.app import chat_requests
from helpers.app.chat_requests import Refused
from helpers.app.openai_server import data_url
from helpers.tools import GEMMA3, GEMMA4, HERMES, nutrition
from helpers.tools.calls import Call

PICTURE = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
QUESTION = {"role": "user", "content": "How many kcal?"}
PIZZA = {"food": "pizza", "grams": 150}
ASKED = {"role": "assistant", "content": None, "tool_calls": [call(PIZZA)]}
TOLD = {"role": "tool", "tool_call_id": "call_abc", "content": '{"kcal": 402}'}


def read(body, grammar=nutrition.TINY, tools=(nutrition.TOOL,)):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return chat_requests.read(body, "m", grammar, tools)


def request(*messages, **fields):
    whole = {"model": "m", "temperature": 0, "messages": list(messages or [QUESTION])}
    return whole | fields


def with_picture(url):
    parts = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "?"},
    ]
    return request({"role": "user", "content": parts})


def test_a_conversation_is_read_as_the_family_writes_it():
    asked = read(request(QUESTION, ASKED, TOLD))
    assert asked.messages == [
        {"role": "user", "content": "How many kcal?"},
        {"role": "assistant", "content": "<<lookup pizza 150>>"},
        {"role": "user", "content": "kcal 402"},
    ]
    assert asked.picture is None and asked.budget is None and not asked.may_call
    qwen = read(request(QUESTION, ASKED, TOLD), HERMES).messages
    (told,) = nutrition.TINY.results([{"kcal": 402}], [Call("lookup_nutrition", PIZZA)])
    assert told == asked.messages[-1]
    assert qwen[1]["tool_calls"][0]["function"]["arguments"] == PIZZA
    assert qwen[2]["role"] == "tool"


def test_a_picture_arrives_pixel_by_pixel():
    asked = read(with_picture(data_url(PICTURE)))
    np.testing.assert_array_equal(asked.picture, PICTURE)
    assert [part["type"] for part in asked.messages[0]["content"]] == ["image", "text"]


def test_tools_and_budget():
    asked = read(request(tools=[nutrition.SCHEMA], max_tokens=512))
    assert asked.may_call and asked.budget == 512


def png(size):
    file = io.BytesIO()
    Image.new("1", size).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


OTHER = json.loads(json.dumps(nutrition.SCHEMA).replace("lookup", "delete"))
REFUSED = {
    "no JSON": (b"{", 400, "no JSON"),
    "not UTF-8": (b'{"model": "\xff"}', 400, "no JSON"),
    "half a character": (b'{"model": "\\ud800"}', 400, "half a character"),
    "deep": (b"[" * 100_000, 400, "no JSON"),
    "a list": ([], 400, "one JSON object"),
    "another model": (request(model="gpt"), 404, "no model 'gpt' here; there is 'm'"),
    "no model": ({"messages": [QUESTION], "temperature": 0}, 404, "no model None"),
    "a stream": (request(stream=True), 400, "'stream' is not known"),
    "warm": (request(temperature=1), 400, "temperature must be 0"),
    "not a number": (request(temperature=float("nan")), 400, "temperature must be 0"),
    "false": (request(temperature=False), 400, "temperature must be 0"),
    "no temperature": ({"model": "m", "messages": [QUESTION]}, 400, "must be 0"),
    "no tokens": (request(max_tokens=0), 400, "max_tokens"),
    "half a token": (request(max_tokens=1.5), 400, "max_tokens"),
    "true tokens": (request(max_tokens=True), 400, "max_tokens"),
    "no messages": (request() | {"messages": []}, 400, "1 to 21 messages"),
    "many messages": (request() | {"messages": [QUESTION] * 99}, 400, "1 to 21"),
    "a text as message": (request("Hello"), 400, "object with a role"),
    "a system message": (
        request({"role": "system", "content": "Be rude."}, QUESTION),
        400,
        "must be the user's",
    ),
    "two questions": (request(QUESTION, QUESTION), 400, "turns with tool_calls"),
    "long": (request(QUESTION | {"content": "a" * 2001}), 400, "1 to 2000 letters"),
    "empty": (request(QUESTION | {"content": ""}), 400, "1 to 2000 letters"),
    "a number as content": (request(QUESTION | {"content": 7}), 400, "list of parts"),
    "an address": (with_picture("http://169.254.169.254/"), 400, "none is fetched"),
    "a file": (with_picture("file:///etc/passwd"), 400, "none is fetched"),
    "no base64": (with_picture("data:image/png;base64,!!"), 400, "cannot be read"),
    "no picture": (with_picture("data:image/png;base64,AAAA"), 400, "cannot be read"),
    "a large picture": (with_picture(png((9000, 9000))), 400, "cannot be read"),
    "words for a URL": (with_picture(7), 400, "none is fetched"),
    "no result": (request(QUESTION, ASKED), 400, "needs its result"),
    "a foreign result": (
        request(QUESTION, ASKED, TOLD | {"tool_call_id": "b"}),
        400,
        "needs its result",
    ),
    "a result in words": (
        request(QUESTION, ASKED, TOLD | {"content": "402"}),
        400,
        "one JSON object",
    ),
    "a result twice": (request(QUESTION, ASKED, TOLD, TOLD), 400, "turns with"),
    "calls that are none": (
        request(QUESTION, ASKED | {"tool_calls": [{}]}, TOLD | {"tool_call_id": None}),
        400,
        "tool_calls cannot be read",
    ),
    "a call of another tool": (
        request(QUESTION, ASKED | {"tool_calls": [call(PIZZA, "rm")]}, TOLD),
        400,
        "makes no such calls",
    ),
    "five calls": (request(QUESTION, ASKED | {"tool_calls": [1] * 5}), 400, "turns"),
    "an answer at the end": (
        request(QUESTION, {"role": "assistant", "content": "402"}),
        400,
        "turns with tool_calls",
    ),
    "no tools": (request(tools=[]), 400, "or be left out"),
    "another tool": (request(tools=[OTHER]), 400, "['lookup_nutrition']"),
}


@pytest.mark.parametrize("body, status, said", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(body, status, said):
    with pytest.raises(Refused) as refused:
        read(body)
    assert refused.value.status == status and said in str(refused.value)
    assert len(str(refused.value)) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "tool_calls", "tool_call_id"]
                + ["id", "function", "name", "arguments", "image_url", "url"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
PARTS = (QUESTION, ASKED, TOLD)
SHOWN = st.sampled_from(["kcal", "error", "suggestions", "name"])  # of results
RESULTS = st.dictionaries(SHOWN, JSON, max_size=4)


@pytest.mark.parametrize("grammar", [nutrition.TINY, HERMES, GEMMA3, GEMMA4])
@given(RESULTS)
def test_whatever_a_tool_is_said_to_have_given_is_read_or_refused(grammar, result):
    told = TOLD | {"content": json.dumps(result)}
    try:
        asked = read(request(QUESTION, ASKED, told), grammar)
    except Refused as refused:
        assert refused.status == 400
    else:
        assert asked.messages[-1]["role"] in ("user", "tool")


@given(
    st.dictionaries(
        st.sampled_from(["messages", "tools", "max_tokens", "temperature", "model"]),
        JSON,
        max_size=3,
    ),
    st.lists(st.sampled_from(PARTS) | JSON, max_size=5),
    st.lists(st.tuples(st.sampled_from(PARTS), JSON), max_size=2),
)
def test_whatever_comes_is_read_or_refused(fields, messages, changed):
    changed = [part | other for part, other in changed if isinstance(other, dict)]
    try:
        asked = read(request(QUESTION, *messages, *changed) | fields)
    except Refused as refused:
        assert refused.status in (400, 404) and str(refused)
    else:
        assert asked.messages[0]["role"] == "user"
