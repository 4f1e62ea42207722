"""Models over HTTP: our client of other servers, and our server, over HTTP."""

import base64
import http.client
import io
import json
import urllib.parse

import numpy as np
import pytest
import tiny_models
from fake_openai import call, message, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers import runtime
from helpers.app import models
from helpers.app import server as server_module
from helpers.app.chat import converse, portions
from helpers.app.models import LocalModel
from helpers.app.server import ChatServer, OpenAIServer, read_messages
from helpers.model import weights
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import HERMES, nutrition
from helpers.tools.nutrition import TOOL

PIZZA = {"food": "pizza", "grams": 150}
KCAL = 402  # 268 kcal per 100 g in data/nutrition.csv
PICTURE = np.random.default_rng(0).integers(0, 256, (40, 30, 3)).astype(np.uint8)
QUESTION = {"role": "user", "content": "How many kcal are in 150 g of this?"}


def events(address, picture=PICTURE, **changes):
    server = OpenAIServer(address, "m", tools=[TOOL], **{"timeout": 5.0} | changes)
    return list(converse(server, "kcal?", picture, [TOOL]))


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
        events(address, np.zeros((3000, 2000, 3), np.uint8))
    assert kinds(happened) == ["text", "call", "result", "answer"]
    assert happened[1].call.arguments == PIZZA and happened[2].result["kcal"] == KCAL
    assert happened[3].text == "That is 402 kcal."

    (path, headers, first), (_, _, second), (_, others, large) = fake.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret"
    assert others["authorization"] == "Bearer none"
    assert first["tools"][0]["function"]["name"] == "lookup_nutrition"
    image, text = first["messages"][0]["content"]
    assert text == {"type": "text", "text": "kcal?"}
    np.testing.assert_array_equal(decoded(image), PICTURE)
    assert decoded(large["messages"][0]["content"][0]).shape[0] == 896
    spoken, result = second["messages"][1:]
    assert spoken["tool_calls"][0]["id"] == result["tool_call_id"]
    assert json.loads(spoken["tool_calls"][0]["function"]["arguments"]) == PIZZA
    assert result["role"] == "tool" and json.loads(result["content"])["kcal"] == KCAL


def decoded(part):
    encoded = part["image_url"]["url"].partition(",")[2]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))


def test_two_calls_of_one_id_are_answered_by_two_ids():
    rice = {"food": "fried rice", "grams": 100}
    calls = [call(PIZZA, identity="a"), call(rice, identity="a")]
    with serving(message(None, calls), message("Both.")) as (fake, address):
        happened = events(address)
    assert [p["food"] for p in portions(happened)] == ["pizza", "fried_rice"]
    spoken, *results = fake.requests[1][2]["messages"][1:]
    ids = [each["id"] for each in spoken["tool_calls"]]
    assert ids == [each["tool_call_id"] for each in results] and len(set(ids)) == 2


def test_a_refusal_is_shown_with_its_remedy():
    remedies = {400: "may not accept pictures", 401: "this server gave you"}
    remedies |= {404: "the model's name", 429: "Wait", 503: "Look at its log"}
    for status, remedy in remedies.items():
        body = {"error": {"message": "words of the server"}}
        with serving((status, body)) as (fake, address):
            text = error(address)
        assert str(status) in text and remedy in text and "words of the server" in text
        assert len(fake.requests) == 1, "nothing is tried again"


def test_nobody_there_no_address_and_silence_name_their_remedy():
    for address in (
        "http://127.0.0.1:9/v1",
        "",
        "localhost:80/v1",
        "file:///etc/passwd",
    ):
        assert "Start the server, or check its address" in error(address)
    with serving(3.0) as (_, address):
        assert "timed out" in error(address, timeout=0.3)


def test_an_answer_in_another_form_is_an_error():
    messages = "text", {"content": 7}, {"tool_calls": {"a": 1}}
    bodies = [{"choices": [{"message": each}]} for each in messages]
    for body in (b"", b"no JSON", [], {}, {"choices": []}, *bodies):
        with serving((200, body)) as (_, address):
            assert "cannot be used" in error(address)


def test_a_turn_that_was_cut_off_is_no_answer():
    """Of "#### 402" a budget may leave "#### 40"."""
    for calls in ((), (call(PIZZA),)):
        body = message("It has\n#### 40", calls)
        body["choices"][0]["finish_reason"] = "length"
        with serving(body) as (_, address):
            text = error(address)
        assert "max_tokens" in text and "40" not in text


def test_a_malformed_call_is_shown_to_the_model_which_goes_on():
    texts = "{food: pizza}", '{"food": "pizza", "grams": 1} DROP TABLE foods'
    texts += '{"food": "pizza", "grams": NaN}', "[1]", "[" * 5000
    for calls in [[call(PIZZA, identity="b"), call(text)] for text in texts]:
        with serving(message("", calls), message("Sorry.")) as (fake, address):
            happened = events(address)
        assert kinds(happened) == ["result", "answer"], "neither of the two is run"
        spoken, *results = fake.requests[1][2]["messages"][1:]
        for echo, result in zip(spoken["tool_calls"], results, strict=True):
            assert echo["id"] == result["tool_call_id"]
            assert json.loads(echo["function"]["arguments"]) == {}
            assert "This is no call" in json.loads(result["content"])["error"]


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


def answer(server, body, path="/v1/chat/completions", method="POST"):
    """(status, JSON) of a request."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    port = urllib.parse.urlsplit(server.url).port
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, path, body, {"Content-Type": "application/json"})
    response = line.getresponse()
    return response.status, json.load(response)


def request(**fields):
    whole = {"model": "food_grpo", "temperature": 0, "messages": [QUESTION]}
    return whole | fields


def test_the_same_conversations_here_and_over_http(student, server):
    served = OpenAIServer(server.url, "food_grpo", tools=[TOOL])
    rows = food_pictures.generate(5, seed=5, split="test", no_food=0.2)
    called = 0
    for row in food_traces.ask(rows, seed=5):
        here, there = (
            list(converse(backend, row["text"], row["image"], [TOOL]))
            for backend in (student, served)
        )
        assert here == there
        called += bool(portions(here))
    assert called >= 3, "calls are compared, too"
    without = OpenAIServer(server.url, "food_grpo")
    (event,) = converse(without, QUESTION["content"], row["image"], [])
    assert event.kind == "answer", "a call is none for who sent no tools"


def test_the_form_of_an_answer_and_its_budget(server):
    status, reply = answer(server, request())
    (choice,) = reply["choices"]
    assert status == 200 and reply["object"] == "chat.completion"
    assert choice["finish_reason"] == "stop" and choice["message"]["content"]
    used = reply["usage"]
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]
    _, cut = answer(server, request(max_tokens=2))
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 2
    shown = choice["message"]["content"]
    assert shown.startswith(cut["choices"][0]["message"]["content"])
    status, listed = answer(server, b"", "/v1/models", "GET")
    assert status == 200 and [model["id"] for model in listed["data"]] == ["food_grpo"]


def test_a_family_with_tools_in_its_template_gets_those_that_were_sent(
    families, monkeypatch
):
    """Read from the prompt, before the model sees it."""
    tokenizer, prompts = families["qwen3"], []

    class Conversation:
        def __init__(self, backend, prompt, turns):
            prompts.append(prompt["prompt"][prompt["prompt_mask"] > 0].tolist())

        def write(self, max_tokens):
            return models.Turn("Hm.", np.array([5]), True, len(prompts[-1]))

    monkeypatch.setattr(models, "_LocalConversation", Conversation)
    model = tiny_models.cached_model("qwen3", vocab=len(tokenizer))
    backend = LocalModel(model, tokenizer, HERMES, "qwen", tools=[TOOL])
    with ChatServer(backend, "food_grpo", tools=[TOOL]) as server:
        for sent, shown in (({}, None), ({"tools": [TOOL.schema]}, [TOOL.schema])):
            status, reply = answer(server, request(**sent))
            prompt = chat.prompt_tokens(tokenizer, QUESTION["content"], tools=shown)
            assert prompts[-1] == list(prompt)
            assert status == 200 and reply["usage"]["prompt_tokens"] == len(prompt)


def with_picture(url):
    text = {"type": "text", "text": "?"}
    parts = [{"type": "image_url", "image_url": {"url": url}}, text]
    return request(messages=[{"role": "user", "content": parts}])


@pytest.mark.parametrize(
    "body, status, text",
    [
        (b'{"model": ', 400, "cannot be read"),
        ([], 400, "is not of type 'object'"),
        (request(model="gemma"), 404, "no model 'gemma'"),
        (request(temperature=1), 400, "temperature: 0 was expected"),
        (request(stream=True), 400, "'stream' was unexpected"),
        (request(max_tokens=0), 400, "max_tokens"),
        (request(tools=[{}]), 400, "Its tools are"),
        (request(messages=[]), 400, "messages"),
        (request(messages=[QUESTION, QUESTION]), 400, "messages.1"),
        (with_picture("http://169.254.169.254/"), 400, "messages.0.content"),
        (with_picture("data:image/png;base64,AAAA"), 400, "not a picture"),
        (request(messages=[QUESTION | {"content": "щ7%Q" * 480}]), 400, "too long"),
        (request(messages=[QUESTION | {"content": "\ud800"}]), 400, "cannot be read"),
        (b" " * (server_module.LARGEST_BODY + 1), 413, "at most"),
    ],
)
def test_what_is_wrong_is_answered_as_json_and_it_goes_on(server, body, status, text):
    try:
        got, reply = answer(server, body)
    except ConnectionError:
        assert status == 413, "a body that is too large is not read to its end"
    else:
        assert got == status == reply["error"]["code"]
        assert text in reply["error"]["message"]
    assert answer(server, request())[0] == 200


def test_a_conversation_is_read_as_the_family_writes_it():
    made = {"role": "assistant", "content": None, "tool_calls": [call(PIZZA)]}
    result = {"role": "tool", "tool_call_id": "call_abc", "content": '{"kcal": 402}'}
    messages, picture = read_messages([QUESTION, made, result], nutrition.TINY)
    assert messages[1:] == [
        {"role": "assistant", "content": "<<lookup pizza 150>>"},
        {"role": "user", "content": "kcal 402"},
    ]
    assert picture is None
    qwen, _ = read_messages([QUESTION, made, result], HERMES)
    assert qwen[1]["tool_calls"][0]["function"]["arguments"] == PIZZA
    assert qwen[2]["role"] == "tool"
    with pytest.raises(server_module.Refused, match="needs its result"):
        read_messages([QUESTION, made], HERMES)


keys = st.sampled_from(["role", "content", "tool_calls", "id", "function", "arguments"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(json_values, max_size=2), json_values)
def test_no_request_is_a_fault_of_the_server(server, messages, content):
    question = {"role": "user", "content": content}
    for body in (request(messages=messages), request(messages=[question, *messages])):
        if not isinstance(content, str) or messages:
            with pytest.raises(server_module.Refused):
                server.complete(json.dumps(body).encode())
