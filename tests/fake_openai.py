"""A server that answers as OpenAI-compatible ones do: replies written down beforehand.

Its forms are those of vLLM's and OpenAI's /v1/chat/completions, tool calls included.
"""

import contextlib
import http.server
import json
import threading
import time


class Fake:
    """What was asked (`requests`: path, headers, body), and what is replied in turn.

    A reply is a dict (200), (status, dict or bytes), or a number of seconds of silence;
    the last is given for ever.
    """

    def __init__(self, replies):
        self.replies, self.requests = list(replies), []

    def next(self):
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def message(content=None, calls=()):
    """The body of an answer; `calls` as the server writes them."""
    answer = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    choice = {"index": 0, "message": answer, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}


def call(arguments, name="lookup_nutrition", identity="call_abc"):
    """One tool call; `arguments` a str as sent, or what json.dumps makes one of."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


@contextlib.contextmanager
def serving(*replies):
    """Runs a Fake on a free port; gives (fake, its base URL)."""
    fake = Fake(replies)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.requests.append((self.path, headers, body))
            with contextlib.suppress(ConnectionError):  # who asked has gone
                self.reply(fake.next())

        def reply(self, reply):
            if isinstance(reply, int | float):
                time.sleep(reply)
                return
            status, body = reply if type(reply) is tuple else (200, reply)
            if isinstance(body, dict | list):
                body = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
