"""Models over HTTP: a client of OpenAI-compatible servers, and a small server of ours.

`OpenAIServer` is a backend that asks vLLM, `transformers serve` and others with the
package `openai`. `ChatServer` is the smallest honest server of OpenAI's chat
completions. What it simplifies, compared with an engine: one model, greedy, one answer
at a time, and the whole conversation is read again at every turn. No streaming, no
keys: it listens to this machine only.
"""

import base64
import collections
import functools
import http.server
import itertools
import json
import pathlib
import threading
import time

from helpers.app.chat import BackendError
from helpers.app.views import png
from helpers.tasks.food import photos
from helpers.tools.calls import (
    MOST_CALLS,
    Call,
    Malformed,
    Verdict,
    read_object,
    strict_json,
)

LARGEST_SIDE = 896  # pixels: what Gemma 3 looks at
LARGEST_BODY = 4_000_000  # bytes: a picture of 896 pixels a side, and a conversation
SCHEMA = pathlib.Path(__file__).with_name("request.json")  # of what `ChatServer` reads
ADVICE = {
    401: "It rejects the key. Use the key that this server gave you.",
    404: "Check the model's name, and that the address ends in /v1.",
    429: "You sent too many requests, or your quota is used up. Wait and retry.",
}


class OpenAIServer:
    """A backend that asks a server at POST {base_url}/chat/completions, with tools.

    Args:
      base_url: such as "http://localhost:8000/v1".
      model: the server's name of the model.
      key: its secret; None for servers that want none. OPENAI_API_KEY is never sent.
      timeout: seconds in which nothing comes, until the server is given up.
      max_tokens: budget of one turn.
      tools: list of `tool.Tool` that the model may call.
    """

    def __init__(
        self, base_url, model, *, key=None, timeout=60.0, max_tokens=512, tools=()
    ):
        self.base_url, self.model, self.key = base_url.strip(), model.strip(), key
        self.timeout, self.max_tokens = timeout, max_tokens
        self.schemas: list = [tool.schema for tool in tools]
        self.name = self.model

    def begin(self, question, picture):
        """See `helpers.app.chat.Backend`."""
        content = [{"type": "text", "text": question}]
        if picture is not None:
            shown = base64.b64encode(png(picture, LARGEST_SIDE)).decode()
            url = {"url": f"data:image/png;base64,{shown}"}
            content.insert(0, {"type": "image_url", "image_url": url})
        return _RemoteConversation(self, [{"role": "user", "content": content}])

    def ask(self, messages):
        """The next turn of a conversation, as the server gives it.

        Returns:
          (text, calls as (name, JSON of the arguments), why the turn ended).
        Raises:
          BackendError: no connection, no answer in time, a refusal, or another form.
        """
        import openai  # not everybody asks a server

        try:
            with openai.OpenAI(
                base_url=self.base_url,
                api_key=(self.key or "none").strip(),  # None would be OPENAI_API_KEY
                timeout=self.timeout,
                max_retries=0,
            ) as client:
                answer = client.chat.completions.create(
                    model=self.model,
                    messages=messages,
                    temperature=0,
                    max_tokens=self.max_tokens,
                    tools=self.schemas or openai.omit,
                )
            choice = answer.choices[0]
            text = (choice.message.content or "").encode(errors="replace").decode()
            made: list = choice.message.tool_calls or []  # the course's are functions
            calls = [(c.function.name, c.function.arguments) for c in made]
            return text, calls, choice.finish_reason
        except openai.APIConnectionError as error:
            raise BackendError(
                f"Nothing answers at {self.base_url}: {error.__cause__ or error}. "
                "Start the server, or check its address and port."
            ) from error
        except openai.APIStatusError as error:
            other = "Look at its log. It may not accept pictures or tools."
            advice = ADVICE.get(error.status_code, other)
            body = error.body if isinstance(error.body, dict) else {}
            reason = str(body.get("message", error.message))[:300]
            raise BackendError(
                f"The server answered with status {error.status_code}. {advice} "
                f"The server says: {reason}"
            ) from error
        # No JSON, other JSON, or a key that no header can carry.
        except (ValueError, AttributeError, IndexError, TypeError) as error:
            raise BackendError(
                f"The server's answer cannot be used: {error}. Check that the address "
                "belongs to an OpenAI-compatible server and ends in /v1."
            ) from error


class _RemoteConversation:
    """One conversation with a server, which is sent all of it at every turn."""

    def __init__(self, server, messages):
        self.server, self.messages, self.ids = server, messages, []

    def next_turn(self):
        text, written, reason = self.server.ask(self.messages)
        if reason in ("length", "content_filter"):
            raise BackendError(
                "The answer was truncated by the token budget or by the server's "
                "filter. Rephrase the question, or raise `max_tokens`."
            )
        try:
            parsed, problem = [_call(*pair) for pair in written[:MOST_CALLS]], None
        except Malformed as error:
            parsed, problem = [], f"This is no call: {error}."
        # Calls are sent back as we read them: templates of servers fail on others.
        calls = parsed or [Call(str(name)) for name, _ in written]
        self.ids = [f"call_{len(self.messages)}_{i}" for i in range(len(calls))]
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = list(map(_as_openai, calls, self.ids))
        self.messages.append(message)
        return Verdict(tuple(parsed), problem, text=text.strip())

    def append_results(self, verdict, results):
        """Answers every call, because servers want that."""
        results = results * len(self.ids) if verdict.error else results
        self.messages += [
            {"role": "tool", "tool_call_id": identity, "content": json.dumps(result)}
            for identity, result in zip(self.ids, results, strict=True)
        ]


def _call(name, arguments) -> Call:
    """A call of the protocol, whose arguments are JSON in a string."""
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise Malformed("name and arguments must be text")
    return Call(name, read_object(arguments))


def _as_openai(call, identity):
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": identity, "type": "function", "function": function}


class Refused(ValueError):
    """A request that is not answered: the HTTP status, and what to send instead."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@functools.cache
def _validator():
    from jsonschema import Draft202012Validator  # takes three seconds

    return Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))


def read_messages(messages, grammar):
    """A conversation of the protocol as the model's family writes it.

    Args:
      messages: that fit SCHEMA.
      grammar: of the model's family.
    Returns:
      (messages for the chat template, the picture of the first one or None).
    Raises:
      Refused: a call without its result.
      Malformed, PhotoError, ValueError: calls or a picture that cannot be read.
    """
    content, picture, waiting = messages[0]["content"], None, iter(messages[1:])
    if not isinstance(content, str):
        *pictures, text = content
        content = text["text"]
        for part in pictures:
            data = part["image_url"]["url"].partition(",")[2]
            picture = photos.decode(base64.b64decode(data, validate=True))
            content = [{"type": "image"}, text]
    turns = [{"role": "user", "content": content}]
    for message in waiting:
        calls, results = [], []
        for made in message.get("tool_calls", []):
            calls.append(_call(**made["function"]))
            result: dict = next(waiting, {})
            if result.get("tool_call_id") != made["id"]:
                raise Refused(400, "Each call needs its result next, in order.")
            results.append(read_object(result["content"]))
        turns.append(grammar.message(calls, message.get("content") or ""))
        turns += grammar.results(results, calls)
    return turns, picture


class ChatServer(http.server.ThreadingHTTPServer):
    """Serves a model at `url`, in a thread beside this one, until its context ends.

    `log` has a line for each of the last 100 requests.

    Args:
      backend: a LocalModel.
      model: what clients have to call it.
      tools: list of `tool.Tool` that it knows; clients must send their schemas.
      port: of 127.0.0.1; 0: one that is free.
    """

    request_queue_size = 1024  # connections at once that are not turned away

    def __init__(self, backend, model: str, *, tools=(), port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.backend, self.model, self.tools = backend, model, list(tools)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"  # as clients take it
        self.log: collections.deque = collections.deque(maxlen=100)
        self._turn, self._ids = threading.Lock(), itertools.count(1)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def complete(self, body: bytes) -> dict:
        """The answer to a request, in the protocol's form.

        Raises:
          Refused: the request cannot be read, or asks for what is not done here.
        """
        backend = self.backend
        try:
            request = json.loads(body)
            strict_json(request)  # a ValueError for NaN, and for half a character
            for error in _validator().iter_errors(request):
                where = ".".join(map(str, error.absolute_path)) or "the request"
                raise Refused(400, f"{where}: {error.message:.200}")
            if request["model"] != self.model:
                other = f"There is no model {request['model']!r:.60}"
                raise Refused(404, f"{other}. This server has {self.model!r}.")
            may_call = request.get("tools") is not None
            if may_call and request["tools"] != [tool.schema for tool in self.tools]:
                names = [tool.name for tool in self.tools]
                raise Refused(400, f"Its tools are {names}, as they were learned.")
            messages, picture = read_messages(request["messages"], backend.grammar)
            budget = request.get("max_tokens")
            with self._turn:
                turn = backend.reply(messages, picture, may_call, budget)
        except Refused:
            raise
        except (BackendError, ValueError, RecursionError) as error:
            raise Refused(400, f"The request cannot be read: {error!s:.300}") from error
        message, reason = self._message(turn, may_call)
        used = {"prompt_tokens": turn.read, "completion_tokens": turn.tokens.size}
        return {
            "id": f"chatcmpl-{next(self._ids)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": used | {"total_tokens": sum(used.values())},
        }

    def _message(self, turn, may_call):
        """The model's message, and why it ended; an unreadable call stays text."""
        verdict = self.backend.grammar.parse(turn.text)
        message = {"role": "assistant", "content": turn.text}
        if not (turn.ended and may_call and verdict.calls):
            return message, "stop" if turn.ended else "length"
        calls = [_as_openai(c, f"call_{next(self._ids)}") for c in verdict.calls]
        message |= {"content": verdict.text or None, "tool_calls": calls}
        return message, "tool_calls"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ChatServer
    timeout = 30.0  # seconds in which nothing comes

    def do_GET(self):
        model = {"id": self.server.model, "object": "model", "owned_by": "course"}
        self._send(200, {"object": "list", "data": [model]})

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", -1))
            if self.path != "/v1/chat/completions":
                raise Refused(404, "POST goes to /v1/chat/completions.")
            if not 0 <= length <= LARGEST_BODY:
                raise Refused(413, f"Send {LARGEST_BODY} bytes at most.")
            self._send(200, self.server.complete(self.rfile.read(length)))
        except Refused as error:
            kind = {"type": "invalid_request_error", "code": error.status}
            self._send(error.status, {"error": {"message": str(error)} | kind})
        except ConnectionError:  # the client has gone
            pass

    def _send(self, status, answer):
        body = json.dumps(answer).encode()
        self.server.log.append(f"{self.command} {self.path[:60]} → {status}")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Prints nothing: `ChatServer.log` has it."""
