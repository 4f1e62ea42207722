"""Models over HTTP: a client of OpenAI-compatible servers, and a small server of ours.

`OpenAIServer` is a backend that asks vLLM, `transformers serve` and others with the
package `openai`. `ChatServer` is the smallest honest server of OpenAI's chat
completions. What it simplifies, compared with an engine: one model, greedy, one answer
at a time, and the whole conversation is read again at every turn. No streaming, no
keys: it listens to this machine only.
"""

import base64
import collections
import http.server
import io
import itertools
import json
import threading
import time

from PIL import Image

from helpers.app.chat import TURNS, BackendError
from helpers.tasks.food import photos
from helpers.tools.calls import MOST_CALLS, Call, Malformed, Verdict, read_json
from helpers.tools.tool import by_name

LARGEST_SIDE = 896  # pixels: what Gemma 3 looks at
LARGEST_BODY = 4_000_000  # bytes: a picture of 896 pixels a side, and a conversation
LONGEST_QUESTION = 2_000  # characters
FIELDS = {"model", "messages", "tools", "temperature", "max_tokens"}
ADVICE = {
    401: "It wants another key: give the one that this server gave you.",
    403: "It refuses this key: give another, or ask for access to the model.",
    404: "It does not know the model, or the address is not its /v1: check both.",
    413: "The picture is too large for it: send a smaller one.",
    429: "It is asked too often, or your quota is used up: wait, then ask again.",
}
CUT = {  # why a turn is not whole, by its finish_reason
    "length": "The model did not end its turn within the budget: ask in other words, "
    "or give it a larger one with `max_tokens`.",
    "content_filter": "The server's filter cut the answer off: ask in other words.",
}


class OpenAIServer:
    """A backend that asks a server at POST {base_url}/chat/completions, with tools.

    Args:
      base_url: such as "http://localhost:8000/v1".
      model: the server's name of the model.
      key: its secret; None for servers that want none. OPENAI_API_KEY is never sent.
      timeout: seconds in which nothing comes, until the server is given up.
      max_tokens: budget of one turn.
      tools: list of `tool.Tool` that the model is told of.
    """

    def __init__(
        self, base_url, model, *, key=None, timeout=60.0, max_tokens=512, tools=()
    ):
        self.base_url, self.model, self.key = base_url.strip(), model.strip(), key
        self.timeout, self.max_tokens = timeout, max_tokens
        self.schemas = [tool.schema for tool in by_name(tools).values()]
        self.name = self.model

    def begin(self, question, picture):
        """See `helpers.app.chat.Backend`."""
        if not self.base_url.startswith(("http://", "https://")) or not self.model:
            raise BackendError(
                "No server can be asked: give an address such as "
                "http://localhost:8000/v1, and what the server calls its model."
            )
        content = [{"type": "text", "text": question}]
        if picture is not None:
            url = {"url": data_url(picture)}
            content.insert(0, {"type": "image_url", "image_url": url})
        return _RemoteConversation(self, [{"role": "user", "content": content}])

    def ask(self, messages):
        """The server's answer to a conversation, as `openai` reads it.

        Raises:
          BackendError: no connection, no answer in time, or a refusal.
        """
        try:
            import openai
        except ImportError as error:
            raise BackendError(
                "A server is asked with the package openai, which is not installed. "
                "Install the course with `pip install -e '.[app]'`."
            ) from error
        request = {"model": self.model, "messages": messages, "temperature": 0}
        request |= {"max_tokens": self.max_tokens}
        request |= {"tools": self.schemas} if self.schemas else {}
        try:
            with openai.OpenAI(
                base_url=self.base_url,
                api_key=(self.key or "none").strip(),  # None would be OPENAI_API_KEY
                timeout=self.timeout,
                max_retries=0,
            ) as client:
                return client.chat.completions.create(**request)
        except openai.APITimeoutError as error:
            raise BackendError(
                f"The server gave no answer within {self.timeout:g} s. Ask again when "
                "it is less busy, or give it more time with `timeout`."
            ) from error
        except openai.APIConnectionError as error:
            raise BackendError(
                f"Nothing answers at {self.base_url}: {error.__cause__ or error}. "
                "Start the server, and check address and port."
            ) from error
        except openai.APIStatusError as error:
            status = error.status_code
            fault = "The fault is its own: look at its log, and restart it if need be."
            other = "It may not take pictures or tools: choose a model that does."
            advice = ADVICE.get(status) or (fault if status >= 500 else other)
            body = error.body if isinstance(error.body, dict) else {}
            reason = str(body.get("message", error.message))[:300]
            raise BackendError(
                f"The server refuses, with {status}. {advice} It says: {reason}"
            ) from error
        except ValueError as error:  # no JSON, or an address or key that is none
            raise _unusable(error) from error


def _unusable(reason) -> BackendError:
    return BackendError(
        f"The server's answer cannot be used: {reason}. Check that the address is that "
        "of an OpenAI-compatible server, ending in /v1."
    )


class _RemoteConversation:
    """One conversation with a server, which is sent all of it at every turn.

    tokens: how many the server says that the model has written; None: it does not say.
    """

    def __init__(self, server, messages):
        self.server, self.messages, self.ids = server, messages, []
        self.tokens: int | None = 0

    def next_turn(self):
        answer = self.server.ask(self.messages)
        try:
            choice = answer.choices[0]
            text = (choice.message.content or "").encode(errors="replace").decode()
            calls = choice.message.tool_calls or []
            made = [(c.function.name, c.function.arguments) for c in calls]
        except (AttributeError, IndexError, TypeError) as error:
            raise _unusable("it has no choices[0].message") from error
        if choice.finish_reason in CUT:
            raise BackendError(
                f"{CUT[choice.finish_reason]} What it wrote is left out."
            )
        written = getattr(answer.usage, "completion_tokens", None)
        if self.tokens is None or not isinstance(written, int):
            self.tokens = None
        else:
            self.tokens += written
        self.ids = [f"call_{len(self.messages)}_{i}" for i in range(len(calls))]
        try:
            parsed, problem = [_call(*pair) for pair in made[:MOST_CALLS]], None
        except Malformed as reason:
            parsed, problem = [], f"This is no call: {reason}."
        # Calls are sent back as we read them: templates of servers fail on others.
        functions = parsed or [Call(str(name), {}) for name, _ in made]
        self.ids = self.ids[: len(functions)]
        said = {"role": "assistant", "content": text}
        if functions:
            ids = zip(self.ids, functions, strict=True)
            said["tool_calls"] = [_as_openai(call, name) for name, call in ids]
        self.messages.append(said)
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
    value, end = read_json(arguments.strip())
    if arguments.strip()[end:] or not isinstance(value, dict):
        raise Malformed("arguments must be one JSON object")
    return Call(name, value)


def _as_openai(call, identity):
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": identity, "type": "function", "function": function}


def data_url(picture):
    """A picture, uint8 (H, W, 3), as the URL of a PNG of at most 896 pixels a side."""
    image, file = Image.fromarray(picture), io.BytesIO()
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


class Refused(ValueError):
    """A request that is not answered: the HTTP status, and what to send instead."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def read_request(asked, model, grammar, tools):
    """Reads the JSON of a request; whatever the server cannot do is refused.

    Returns:
      (messages for the chat template, picture or None, most tokens or None, whether
      tools were sent).
    """
    if unknown := sorted(set(asked) - FIELDS):
        raise Refused(
            400, f"{unknown[0]!r:.60} is not known here: send {sorted(FIELDS)}."
        )
    if asked["model"] != model:
        raise Refused(404, f"There is no model {asked['model']!r:.60}, only {model!r}.")
    if asked.get("temperature") != 0:
        raise Refused(400, "temperature must be 0: only greedy answers are given.")
    budget = asked.get("max_tokens")
    if budget is not None and not (type(budget) is int and budget > 0):
        raise Refused(400, "max_tokens must be a whole number above 0.")
    schemas = [tool.schema for tool in tools]
    if asked.get("tools") not in (None, schemas):
        names = [tool.name for tool in tools]
        raise Refused(400, f"The model has learned these tools, as they are: {names}.")
    first, *rest = asked["messages"]
    if first["role"] != "user" or len(rest) > TURNS * (1 + MOST_CALLS):
        raise Refused(400, f"messages begin with the user's, and have {TURNS} turns.")
    content, picture = first["content"], None
    if not isinstance(content, str):
        *pictures, text = content
        content = text["text"]
        if len(pictures) > 1 or not 0 < len(content) <= LONGEST_QUESTION:
            raise Refused(400, "Send one picture, and a question of 2,000 letters.")
        for part in pictures:
            head, _, data = part["image_url"]["url"].partition(";base64,")
            if not head.startswith("data:image/"):  # others could be anywhere
                raise Refused(400, "Send the picture itself: data:image/png;base64,….")
            picture = photos.decode(base64.b64decode(data, validate=True))
            content = [{"type": "image"}, {"type": "text", "text": content}]
    messages = [{"role": "user", "content": content}, *_turns(rest, grammar)]
    return messages, picture, budget, asked.get("tools") is not None


def _turns(messages, grammar):
    """The model's turns and the results of its calls, as its family writes them."""
    turns, coming = [], iter(messages)
    for said in coming:
        made = [(c["id"], c["function"]) for c in said["tool_calls"][:MOST_CALLS]]
        calls = [_call(f["name"], f["arguments"]) for _, f in made]
        results = []
        for identity, _ in made:
            result: dict = next(coming, {})
            if (result["role"], result["tool_call_id"]) != ("tool", identity):
                raise Refused(400, "Each call needs its result next, in order.")
            results.append(read_json(result["content"])[0])
        turns.append(grammar.message(calls, said.get("content") or ""))
        turns += grammar.results(results, calls)
    return turns


class ChatServer:
    """Serves a model at `url`, in a thread of its own, until `close`.

    Also a context manager. `log` has a line for each of the last 100 requests.

    Args:
      backend: a LocalModel.
      model: what clients have to call it.
      tools: list of `tool.Tool` that it knows; clients must send their schemas.
      port: of 127.0.0.1; 0: one that is free.
    """

    def __init__(self, backend, model: str, *, tools=(), port=0):
        self.backend, self.model, self.tools = backend, model, list(tools)
        self.log: collections.deque = collections.deque(maxlen=100)
        self._turn, self._ids = threading.Lock(), itertools.count(1)
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = _Listener(("127.0.0.1", port), handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self):
        """The base URL that clients are given."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self):
        """Stops listening; the address is free again."""
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def complete(self, body: bytes) -> dict:
        """The answer to a request, in the protocol's form.

        Raises:
          Refused: the request cannot be read, or asks for what is not done here.
        """
        backend = self.backend
        try:
            asked = json.loads(body)
            request = read_request(asked, self.model, backend.grammar, self.tools)
            messages, picture, budget, may_call = request
            with self._turn:
                turn = backend.reply(messages, picture, may_call)
        except (BackendError, Malformed, photos.PhotoError) as error:
            raise Refused(400, str(error)) from error
        except Refused:
            raise
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as e:
            raise Refused(400, f"The request cannot be read: {e!r:.200}") from e
        if budget is not None:
            turn = turn.cut(budget, backend.tokenizer)
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
        """What was said, and why it ended; a call that cannot be read stays text."""
        verdict = self.backend.grammar.parse(turn.text)
        if not (turn.ended and may_call and verdict.calls):
            said = {"role": "assistant", "content": turn.text}
            return said, "stop" if turn.ended else "length"
        calls = [_as_openai(c, f"call_{next(self._ids)}") for c in verdict.calls]
        said = {"role": "assistant", "content": verdict.text or None}
        return said | {"tool_calls": calls}, "tool_calls"


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # connections at once that are not turned away


class _Handler(http.server.BaseHTTPRequestHandler):
    owner: ChatServer
    timeout = 30.0  # seconds in which nothing comes

    def do_GET(self):
        model = {"id": self.owner.model, "object": "model", "owned_by": "course"}
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [model]})
        else:
            self._send(404, _refusal(404, "See /v1/models and /v1/chat/completions."))

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", -1))
            if self.path != "/v1/chat/completions":
                raise Refused(404, "POST goes to /v1/chat/completions.")
            if not 0 <= length <= LARGEST_BODY:
                raise Refused(413, f"Send {LARGEST_BODY} bytes at most.")
            self._send(200, self.owner.complete(self.rfile.read(length)))
        except Refused as refused:
            self._send(refused.status, _refusal(refused.status, str(refused)))
        except ConnectionError:  # who asked has gone
            pass
        except Exception:
            self._send(500, _refusal(500, "This server has a fault: see its log."))
            raise

    def _send(self, status, answer):
        body = json.dumps(answer).encode()
        self.owner.log.append(f"{self.command} {self.path[:60]} → {status}")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 413:  # its body was not read
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Prints nothing: `ChatServer.log` has it."""


def _refusal(status, message):
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "code": status}}
