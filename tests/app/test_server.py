"""Models over HTTP: our client of other servers, and our server, really asked."""

import base64
import http.client
import io
import json
import sys
import urllib.parse

import numpy as np
import pytest
import tiny_models
from fake_openai import call, message, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers import runtime
from helpers.app import server as server_module
from helpers.app.chat import converse, portions
from helpers.app.models import LocalModel
from helpers.app.server import ChatServer, OpenAIServer, data_url, read_request
from helpers.model import weights
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import HERMES, nutrition
from helpers.tools.nutrition import TOOL

PIZZA = {"food": "pizza", "grams": 150}
KCAL = 402  # 268 kcal per 100 g in data/nutrition.csv
PICTURE = np.random.default_rng(0).integers(0, 256, (40, 30, 3)).astype(np.uint8)
QUESTION = {"role": "user", "content": "How many kcal are in 150 g of this?"}


def events(address, **changes):
    server = OpenAIServer(address, "m", tools=[TOOL], **{"timeout": 5.0} | changes)
    return list(converse(server, "kcal?", PICTURE, [TOOL]))


def error(address, **changes):
    """The one event of a conversation that failed at once."""
    (event,) = events(address, **changes)
    assert event.kind == "error"
    return event.text


def kinds(happened):
    return [event.kind for event in happened]


# The client.


def test_a_conversation_with_a_call(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "that of the environment")
    with serving(message("I look.", [call(PIZZA)]), message("That is 402 kcal.")) as (
        fake,
        address,
    ):
        happened = events(address, key="secret")
        events(address)
    assert kinds(happened) == ["said", "call", "result", "answer"]
    assert happened[1].call.arguments == PIZZA and happened[2].result["kcal"] == KCAL
    assert happened[3].text == "That is 402 kcal."
    (found,) = portions(happened)
    assert found["food"] == "pizza" and found["kcal"] == KCAL

    (path, headers, first), (_, _, second), (_, others, _) = fake.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret"
    assert others["authorization"] == "Bearer none"
    assert first["tools"][0]["function"]["name"] == "lookup_nutrition"
    (asked,) = first["messages"]
    image, text = asked["content"]
    assert text == {"type": "text", "text": "kcal?"}
    encoded = image["image_url"]["url"].partition(",")[2]
    sent = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))
    np.testing.assert_array_equal(sent, PICTURE)
    assert second["messages"][0] == asked
    spoken, told = second["messages"][1:]
    assert spoken["tool_calls"][0]["id"] == told["tool_call_id"]
    assert json.loads(spoken["tool_calls"][0]["function"]["arguments"]) == PIZZA
    assert told["role"] == "tool" and json.loads(told["content"])["kcal"] == KCAL


def test_two_calls_of_one_id_are_answered_each_by_an_id_of_its_own():
    rice = {"food": "fried rice", "grams": 100}
    calls = [call(PIZZA, identity="a"), call(rice, identity="a")]
    with serving(message(None, calls), message("Both.")) as (fake, address):
        happened = events(address)
    assert [p["food"] for p in portions(happened)] == ["pizza", "fried_rice"]
    spoken, *told = fake.requests[1][2]["messages"][1:]
    ids = [each["id"] for each in spoken["tool_calls"]]
    assert ids == [each["tool_call_id"] for each in told] and len(set(ids)) == 2


def test_a_large_photo_is_sent_smaller():
    data = base64.b64decode(data_url(np.zeros((3000, 2000, 3), np.uint8))[22:])
    assert max(Image.open(io.BytesIO(data)).size) == 896


@pytest.mark.parametrize(
    "status, remedy",
    [
        (400, "choose a model that does"),
        (401, "give the one that this server gave you"),
        (404, "does not know the model"),
        (429, "wait"),
        (503, "look at its log"),
    ],
)
def test_a_refusal_is_shown_with_its_remedy(status, remedy):
    body = {"error": {"message": "the server's own words"}}
    with serving((status, body)) as (fake, address):
        text = error(address)
    assert str(status) in text and remedy in text and "the server's own words" in text
    assert len(fake.requests) == 1, "nothing is tried again"


def test_nobody_there_no_address_no_package_and_silence_name_their_remedy(monkeypatch):
    assert "Start the server" in error("http://127.0.0.1:9/v1")
    for address in ("", "localhost:8000/v1", "file:///etc/passwd"):
        assert "give an address" in error(address)
    with serving(3.0) as (_, address):
        assert "within 0.3 s" in error(address, timeout=0.3)
    monkeypatch.setitem(sys.modules, "openai", None)
    assert "pip install -e '.[app]'" in error("http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        [],
        {},
        {"choices": []},
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {"content": 7}}]},
        {"choices": [{"message": {"tool_calls": {"a": 1}}}]},
    ],
    ids=str,
)
def test_an_answer_in_another_form_is_an_error(body):
    with serving((200, body)) as (_, address):
        assert "cannot be used" in error(address)


@pytest.mark.parametrize("calls", [(), (call(PIZZA),)], ids=["words", "a call"])
def test_a_turn_that_was_cut_off_is_no_answer(calls):
    """Of "#### 402" a budget may leave "#### 40"."""
    body = message("It has\n#### 40", calls)
    body["choices"][0]["finish_reason"] = "length"
    with serving(body) as (_, address):
        text = error(address)
    assert "max_tokens" in text and "40" not in text


MALFORMED = {
    "no JSON": call("{food: pizza}"),
    "something after it": call('{"food": "pizza", "grams": 1} DROP TABLE foods'),
    "NaN": call('{"food": "pizza", "grams": NaN}'),
    "a list": call("[1]"),
    "deep": call("[" * 5000),
}


@pytest.mark.parametrize("asked", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_call_is_shown_to_the_model_which_goes_on(asked):
    with serving(message("", [asked]), message("Sorry.")) as (fake, address):
        happened = events(address)
    assert kinds(happened) == ["result", "answer"]
    spoken, told = fake.requests[1][2]["messages"][1:]
    (echo,) = spoken["tool_calls"]
    assert echo["id"] == told["tool_call_id"]
    assert json.loads(echo["function"]["arguments"]) == {}
    assert "This is no call" in json.loads(told["content"])["error"]


def test_one_malformed_call_of_two_stops_both():
    calls = [call(PIZZA, identity="a"), call("{", identity="b")]
    with serving(message(None, calls), message("Sorry.")) as (fake, address):
        assert kinds(events(address)) == ["result", "answer"]
    spoken, *told = fake.requests[1][2]["messages"][1:]
    assert len(spoken["tool_calls"]) == len(told) == 2


# The server.


@pytest.fixture(scope="module")
def student():
    folder = runtime.ROOT / "data" / "tiny" / "food_grpo"
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    return LocalModel(model, tokenizer, nutrition.TINY, "student")


@pytest.fixture(scope="module")
def server(student):
    with ChatServer(student, "food_grpo", tools=[TOOL]) as server:
        yield server


def asked(server, body, path="/v1/chat/completions", method="POST"):
    """(status, JSON) of a request."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    port = urllib.parse.urlsplit(server.url).port
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, path, body, {"Content-Type": "application/json"})
    answer = line.getresponse()
    return answer.status, json.load(answer)


def request(**fields):
    whole = {"model": "food_grpo", "temperature": 0, "messages": [QUESTION]}
    return whole | fields


def test_the_same_conversations_here_and_over_http(student, server):
    served = OpenAIServer(server.url, "food_grpo", tools=[TOOL])
    rows = food_pictures.generate(8, seed=5, split="test", no_food=0.2)
    called = 0
    for row in food_traces.ask(rows, seed=5):
        here, there = (
            list(converse(backend, row["text"], row["image"], [TOOL]))
            for backend in (student, served)
        )
        assert here == there
        called += bool(portions(here))
    assert called >= 4, "calls are compared, too"


def test_the_form_of_an_answer_and_its_budget(server):
    status, answer = asked(server, request())
    (choice,) = answer["choices"]
    assert status == 200 and answer["object"] == "chat.completion"
    assert choice["finish_reason"] == "stop" and choice["message"]["content"]
    used = answer["usage"]
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]
    _, cut = asked(server, request(max_tokens=2))
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 2
    status, models = asked(server, b"", "/v1/models", "GET")
    assert status == 200 and [model["id"] for model in models["data"]] == ["food_grpo"]


def test_a_call_is_a_call_only_for_who_sent_tools(server):
    row = food_pictures.picture(14, 0, split="test", no_food=0)
    without = OpenAIServer(server.url, "food_grpo")
    (answer,) = converse(without, QUESTION["content"], row["image"], [])
    assert answer.kind == "answer" and answer.text.startswith("<<lookup ")


def test_a_family_with_tools_in_its_template_gets_those_that_were_sent(families):
    tokenizer = families["qwen3"]
    model = tiny_models.model("qwen3", vocab=len(tokenizer))
    backend = LocalModel(model, tokenizer, HERMES, "qwen", tools=[TOOL], max_tokens=2)
    with ChatServer(backend, "food_grpo", tools=[TOOL]) as server:
        for sent, shown in (({}, None), ({"tools": [TOOL.schema]}, [TOOL.schema])):
            status, answer = asked(server, request(**sent))
            prompt = chat.prompt_tokens(tokenizer, QUESTION["content"], tools=shown)
            assert status == 200 and answer["usage"]["prompt_tokens"] == len(prompt)


def with_picture(url):
    text = {"type": "text", "text": "?"}
    parts = [{"type": "image_url", "image_url": {"url": url}}, text]
    return request(messages=[{"role": "user", "content": parts}])


@pytest.mark.parametrize(
    "body, status, said",
    [
        (b'{"model": ', 400, "cannot be read"),
        ([], 400, "cannot be read"),
        (request(model="gemma"), 404, "no model 'gemma'"),
        (request(temperature=1), 400, "temperature must be 0"),
        (request(stream=True), 400, "'stream' is not known"),
        (request(max_tokens=0), 400, "max_tokens"),
        (request(tools=[{}]), 400, "has learned these tools"),
        (request(messages=[]), 400, "cannot be read"),
        (request(messages=[QUESTION, QUESTION]), 400, "cannot be read"),
        (with_picture("http://169.254.169.254/"), 400, "the picture itself"),
        (with_picture("data:image/png;base64,AAAA"), 400, "picture"),
        (request(messages=[QUESTION | {"content": "щ7%Q" * 480}]), 400, "too long"),
        (b" " * (server_module.LARGEST_BODY + 1), 413, "at most"),
    ],
)
def test_what_is_wrong_is_answered_as_json_and_it_goes_on(server, body, status, said):
    try:
        found, answer = asked(server, body)
    except ConnectionError:
        assert status == 413, "a body that is too large is not read to its end"
    else:
        assert found == status == answer["error"]["code"]
        assert said in answer["error"]["message"]
    assert asked(server, request())[0] == 200


def test_a_conversation_is_read_as_the_family_writes_it():
    made = {"role": "assistant", "content": None, "tool_calls": [call(PIZZA)]}
    told = {"role": "tool", "tool_call_id": "call_abc", "content": '{"kcal": 402}'}
    body = {"model": "m", "temperature": 0, "messages": [QUESTION, made, told]}
    messages, picture, budget, may_call = read_request(
        body, "m", nutrition.TINY, [TOOL]
    )
    assert messages[1:] == [
        {"role": "assistant", "content": "<<lookup pizza 150>>"},
        {"role": "user", "content": "kcal 402"},
    ]
    assert (picture, budget, may_call) == (None, None, False)
    qwen = read_request(body, "m", HERMES, [TOOL])[0]
    assert qwen[1]["tool_calls"][0]["function"]["arguments"] == PIZZA
    assert qwen[2]["role"] == "tool"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls", "id"]), inner, max_size=2
        )
    ),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(json_values, max_size=2), json_values)
def test_no_request_is_a_fault_of_the_server(student, messages, content):
    server = ChatServer.__new__(ChatServer)
    server.backend, server.model, server.tools = student, "food_grpo", [TOOL]
    question = {"role": "user", "content": content}
    for body in (request(messages=messages), request(messages=[question, *messages])):
        if not isinstance(content, str) or messages:
            with pytest.raises(server_module.Refused):
                server.complete(json.dumps(body).encode())


def test_a_closed_server_is_gone(student):
    with ChatServer(student, "food_grpo") as server:
        backend = OpenAIServer(server.url, "food_grpo")
        assert list(converse(backend, "kcal?", None, []))[-1].kind == "answer"
    (failure,) = converse(backend, "kcal?", None, [])
    assert "Nothing answers" in failure.text
