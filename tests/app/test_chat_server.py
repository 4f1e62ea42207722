"""Our own chat server, really asked: with the shipped student behind it."""

import contextlib
import http.client
import json
import re
import socket
import threading
import urllib.parse

import pytest
import tiny_models
from PIL import Image

from helpers import runtime
from helpers.app import chat_server, food_app, food_models, food_page, meal_log
from helpers.app.assistant import converse, portions
from helpers.app.chat_server import ChatServer
from helpers.app.food_models import Choice
from helpers.app.local_model import LocalModel
from helpers.app.openai_server import OpenAIServer
from helpers.model import weights
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import HERMES, nutrition

TOOLS = [nutrition.TOOL]
QUESTION = {"role": "user", "content": "How many kcal are in 150 g of this?"}


@pytest.fixture(scope="module")
def student():
    folder = runtime.ROOT / "data" / "tiny" / "food_grpo"
    model, tokenizer = weights.load(folder, vision=True), chat.load_tokenizer(folder)
    return LocalModel(model, tokenizer, nutrition.TINY, "student")


@pytest.fixture(scope="module")
def server(student):
    with ChatServer(student, "food_grpo", tools=TOOLS) as server:
        yield server


def asked(server, body, *, path="/v1/chat/completions", method="POST", **headers):
    """(status, JSON) of a request; headers are given as content_length=…."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    line = http.client.HTTPConnection(
        "127.0.0.1", urllib.parse.urlsplit(server.url).port, timeout=60
    )
    line.putrequest(method, path)
    for name, value in sent.items():
        if value is not None:
            line.putheader(name, value)
    line.endheaders(body)
    answer = line.getresponse()
    assert answer.headers["Content-Type"] == "application/json"
    return answer.status, json.load(answer)


def request(**fields):
    whole = {"model": "food_grpo", "temperature": 0, "messages": [QUESTION]}
    return whole | fields


def test_the_same_conversations_here_and_over_http(student, server):
    served = OpenAIServer(server.url, "food_grpo", tools=TOOLS)
    rows = food_pictures.generate(12, seed=5, split="test", no_food=0.2)
    called = 0
    for row in food_traces.ask(rows, seed=5):
        here, there = (
            list(converse(backend, row["text"], row["image"], TOOLS))
            for backend in (student, served)
        )
        assert here == there
        called += bool(portions(here))
    assert 6 <= called <= 12, "calls are compared, too"


def test_a_reply_to_text_has_the_tokens_of_the_session(student):
    """What is turned into text and tokens again is what stood in the cache."""
    row = food_pictures.picture(14, 0, split="test", no_food=0)
    conversation = student.begin(QUESTION["content"], row["image"])
    first = conversation.write()
    verdict = student.grammar.parse(first.text)
    results = [nutrition.TOOL.call(call.arguments) for call in verdict.calls]
    conversation.append_results(verdict, results)
    second = conversation.write()

    parts = [{"type": "image"}, {"type": "text", "text": QUESTION["content"]}]
    messages = [{"role": "user", "content": parts}]
    again = student.reply(messages, row["image"])
    assert again.tokens.tolist() == first.tokens.tolist() and again.read == first.read
    messages.append(student.grammar.message(verdict.calls))
    messages += student.grammar.results(results, verdict.calls)
    assert (
        student.reply(messages, row["image"]).tokens.tolist() == second.tokens.tolist()
    )


def test_the_form_of_an_answer(server):
    status, answer = asked(server, request())
    (choice,) = answer["choices"]
    assert status == 200 and answer["object"] == "chat.completion"
    assert choice["finish_reason"] == "stop" and choice["message"]["content"]
    used = answer["usage"]
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]
    status, models = asked(server, b"", path="/v1/models", method="GET")
    assert status == 200 and [model["id"] for model in models["data"]] == ["food_grpo"]


def test_a_call_is_a_call_only_for_who_sent_tools(server):
    row = food_pictures.picture(14, 0, split="test", no_food=0)
    server_side = OpenAIServer(server.url, "food_grpo")
    (answer,) = converse(server_side, QUESTION["content"], row["image"], [])
    assert answer.kind == "answer" and answer.text.startswith("<<lookup ")


def test_a_budget_cuts_the_answer_and_says_so(server):
    _, whole = asked(server, request())
    _, cut = asked(server, request(max_tokens=2))
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 2
    text = whole["choices"][0]["message"]["content"]
    assert text.startswith(cut["choices"][0]["message"]["content"])


def test_a_family_with_tools_in_its_template_is_told_of_those_that_were_sent(
    families,
):
    tokenizer = families["qwen3"]
    model = tiny_models.model("qwen3", vocab=len(tokenizer))
    backend = LocalModel(model, tokenizer, HERMES, "qwen", tools=TOOLS, max_tokens=2)
    schemas = [tool.schema for tool in TOOLS]
    with ChatServer(backend, "food_grpo", tools=TOOLS) as server:
        for sent, told in (({}, None), ({"tools": schemas}, schemas)):
            status, answer = asked(server, request(**sent))
            prompt = chat.prompt_tokens(tokenizer, QUESTION["content"], tools=told)
            assert status == 200 and answer["usage"]["prompt_tokens"] == len(prompt)


def test_a_fault_of_the_server_is_said_as_json_and_it_goes_on(student, monkeypatch):
    with ChatServer(student, "food_grpo", tools=TOOLS) as server:
        monkeypatch.setattr(server, "complete", lambda body: 1 / 0)
        monkeypatch.setattr(server._http, "handle_error", lambda *_: None)
        status, answer = asked(server, request())
        assert status == answer["error"]["code"] == 500
        monkeypatch.undo()
        assert asked(server, request())[0] == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused_as_json(server, method):
    status, answer = asked(server, b"", path="/v1/models", method=method)
    assert status == answer["error"]["code"] == 501
    assert method in answer["error"]["message"]


def test_lines_that_are_no_http_are_refused_too(server):
    place = urllib.parse.urlsplit(server.url)
    for line in (b"\r\n\r\n", b"nonsense\r\n\r\n", b"HEAD / HTTP/1.1\r\n\r\n"):
        with socket.create_connection((place.hostname, place.port), 10) as peer:
            peer.sendall(line)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass
    assert asked(server, request())[0] == 200, "it goes on"


def test_a_client_that_hangs_up_is_no_fault(student, capsys):
    with ChatServer(student, "food_grpo", tools=TOOLS) as server:
        for error, printed in ((ConnectionResetError, False), (ValueError, True)):
            try:
                raise error
            except error:
                server._http.handle_error(None, ("127.0.0.1", 1))
            assert bool(capsys.readouterr().err) == printed


@pytest.mark.parametrize(
    "body, headers, status, said",
    [
        (b'{"model": ', {}, 400, "no JSON"),
        (request(model="gemma"), {}, 404, "no model 'gemma' here"),
        (b" " * (chat_server.LARGEST_BODY + 1), {}, 413, "more than 4000000"),
        (b"", {"content_length": None}, 411, "how many bytes"),
        (b"", {"content_length": "-1"}, 411, "how many bytes"),
        (b"", {"content_length": "9" * 30}, 411, "how many bytes"),
        (request(), {"content_type": "text/plain"}, 415, "application/json"),
        (request(), {"path": "/v1/completions"}, 404, "/v1/chat/completions"),
        (
            request(messages=[QUESTION | {"content": "щ7%Q" * 480}]),
            {},
            400,
            "too long for student",
        ),
    ],
)
def test_what_is_wrong_is_said_as_json(server, body, headers, status, said):
    found, answer = asked(server, body, **headers)
    assert found == status == answer["error"]["code"]
    assert said in answer["error"]["message"]
    assert server.log[-1].endswith(f"→ {status}")
    assert asked(server, request())[0] == 200, "it goes on"


def test_a_person_is_told_what_the_server_says(server):
    backend = OpenAIServer(server.url, "gemma", tools=TOOLS)
    (failure,) = converse(backend, "kcal?", None, TOOLS)
    assert failure.kind == "error" and "there is 'food_grpo'" in failure.text


def test_the_app_asks_it_by_address_and_name(student, server, tmp_path):
    picture = food_pictures.picture(14, 0, split="test", no_food=0)["image"]
    Image.fromarray(picture).save(tmp_path / "plate.png")
    log = meal_log.MealLog(tmp_path / "meals.sqlite")
    there = food_models.on_server(server.url, "food_grpo")
    models = {"here": Choice(lambda: student, "here"), "there": there}
    page = food_page.Page(food_app._gradio(), models, log, [picture])
    path, requests = str(tmp_path / "plate.png"), len(server.log)
    question = "How many kcal are in 150 g of this?"
    *_, (here, served, _, meal) = page.ask([[], []], path, question, "here", "there")
    said = re.compile(r"<details.*class='food-answer'>.*?</p>", re.DOTALL)
    assert said.findall(here) == said.findall(served) != [] and meal["found"]
    tokens = [re.search(r" s, (\d+) tokens", chat)[1] for chat in (here, served)]
    assert tokens[0] == tokens[1] and len(server.log) == requests + 2


def test_who_says_nothing_keeps_nobody_else_waiting(student, monkeypatch):
    monkeypatch.setattr(chat_server._Handler, "timeout", 0.5)
    with ChatServer(student, "food_grpo", tools=TOOLS) as server:
        place = urllib.parse.urlsplit(server.url)
        with socket.create_connection((place.hostname, place.port), 60) as silent:
            silent.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 9")
            assert asked(server, request())[0] == 200
            assert silent.recv(100) == b"", "it was left"


def test_two_hundred_who_come_at_once_are_all_let_in(student, monkeypatch):
    """Before it has looked at the first of them: nobody is turned away meanwhile."""
    looks = threading.Event()
    accept = chat_server._Listener.process_request

    def slowly(*request):
        looks.wait(60)
        accept(*request)

    monkeypatch.setattr(chat_server._Listener, "process_request", slowly)
    with ChatServer(student, "food_grpo") as server, contextlib.ExitStack() as lines:
        port = urllib.parse.urlsplit(server.url).port
        came = [
            lines.enter_context(socket.create_connection(("127.0.0.1", port), 5))
            for _ in range(200)
        ]
        for line in came:
            line.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        looks.set()
        for line in came:
            line.settimeout(60)
            assert line.recv(15).startswith(b"HTTP/1.0 200")


def test_a_closed_server_is_gone(student):
    with ChatServer(student, "food_grpo") as server:
        backend = OpenAIServer(server.url, "food_grpo")
        assert list(converse(backend, "kcal?", None, []))[-1].kind == "answer"
    (failure,) = converse(backend, "kcal?", None, [])
    assert "Nothing answers" in failure.text
