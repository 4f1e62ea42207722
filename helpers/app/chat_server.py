"""The smallest honest server of OpenAI's chat completions around a model of ours.

What it simplifies, beside an engine: one model, greedy, one answer at a time, and the
whole conversation read anew at every turn. No streaming, no keys: it listens to this
machine only.
"""

import collections
import http.server
import itertools
import json
import sys
import threading
import time

from helpers.app import chat_requests
from helpers.app.assistant import BackendError
from helpers.app.chat_requests import Refused
from helpers.app.local_model import LocalModel, Turn

LARGEST_BODY = 4_000_000  # bytes: a picture of 896 pixels a side, and a conversation
MOST_DISCARDED = 16 * LARGEST_BODY  # of a larger one, so that its sender hears why
SILENCE = 30.0  # seconds in which nothing comes, until who asks is left
WAITING = 1024  # connections at once that are not turned away; 5 by default


class ChatServer:
    """Serves a model at `url`, in a thread of its own, until `close`.

    Also a context manager. `log` has a line for each of the last 100 requests.

    Args:
      backend: a LocalModel.
      model: what clients have to call it.
      tools: list of `tool.Tool` that it knows; clients must send their schemas.
      port: of 127.0.0.1; 0: one that is free.
    """

    def __init__(self, backend: LocalModel, model: str, *, tools=(), port=0):
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
        """The answer to a request, as the protocol has it.

        Raises:
          Refused: see `chat_requests.read`; or the conversation is too long.
        """
        backend = self.backend
        asked = chat_requests.read(body, self.model, backend.grammar, self.tools)
        try:
            with self._turn:
                turn = backend.reply(asked.messages, asked.picture, asked.may_call)
        except BackendError as error:
            raise Refused(400, str(error)) from error
        if asked.budget is not None:
            turn = turn.cut(asked.budget, backend.tokenizer)
        message, reason = self._message(turn, asked.may_call)
        used = {"prompt_tokens": turn.read, "completion_tokens": turn.tokens.size}
        return {
            "id": f"chatcmpl-{next(self._ids)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": used | {"total_tokens": sum(used.values())},
        }

    def _message(self, turn: Turn, may_call):
        """What was said, and why it ended; a call that cannot be read stays text."""
        verdict = self.backend.grammar.parse(turn.text)
        said = {"role": "assistant", "content": turn.text}
        if not (turn.ended and may_call and verdict.calls):
            return said, "stop" if turn.ended else "length"
        calls = [
            {
                "id": f"call_{next(self._ids)}",
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(c.arguments)},
            }
            for c in verdict.calls
        ]
        own = {"content": verdict.text or None, "tool_calls": calls}
        return said | own, "tool_calls"


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = WAITING

    def handle_error(self, request, client_address):
        """A client that has hung up is nobody's fault; all else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    owner: ChatServer
    timeout = SILENCE

    def do_GET(self):
        if self.path != "/v1/models":
            self._refuse(Refused(404, "Here are /v1/models and /v1/chat/completions."))
            return
        model = {"id": self.owner.model, "object": "model", "owned_by": "course"}
        self._send(200, {"object": "list", "data": [model]})

    def do_POST(self):
        try:
            body = self._body()
            if self.path != "/v1/chat/completions":
                raise Refused(404, "POST goes to /v1/chat/completions.")
            self._send(200, self.owner.complete(body))
        except Refused as refused:
            self._refuse(refused)
        except ConnectionError:
            raise
        except Exception:
            self._refuse(Refused(500, "This server has a fault: its log says which."))
            raise

    def send_error(self, code, message=None, explain=None):
        """What `http.server` refuses by itself, in the form of all other refusals."""
        self.close_connection = True
        self._refuse(Refused(code, message or "Here are GET and POST."))

    def _body(self):
        """All of what was sent; too much of it is read away, and refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 12:
            raise Refused(411, "Content-Length must say how many bytes come.")
        if self.headers.get_content_type() != "application/json":
            self._discard(int(length))
            raise Refused(415, "Content-Type must be application/json.")
        if int(length) > LARGEST_BODY:
            self._discard(int(length))
            raise Refused(
                413, f"The body has {length} bytes, more than {LARGEST_BODY}."
            )
        return self.rfile.read(int(length))

    def _discard(self, length):
        left = min(length, MOST_DISCARDED)
        while left and (piece := self.rfile.read(min(left, 2**16))):
            left -= len(piece)

    def _refuse(self, refused):
        kind = "invalid_request_error"
        error = {"message": str(refused), "type": kind, "code": refused.status}
        self._send(refused.status, {"error": error})

    def _send(self, status, answer):
        body = json.dumps(answer).encode()
        path = getattr(self, "path", "")[:60]  # there is none of a broken first line
        self.owner.log.append(f"{self.command} {path} → {status}")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        """Prints nothing: `ChatServer.log` has it."""
