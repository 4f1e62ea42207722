"""A model behind an OpenAI-compatible server: vLLM, `transformers serve`, and others.

What a server sends is hostile input. It is read up to a limit and a deadline, every
field is checked, and what goes back to it was put together here. The package `openai`
is imported when a conversation begins: only those who use a server need it.
"""

import base64
import io
import json
import urllib.parse

from PIL import Image

from helpers.app import openai_answers
from helpers.app.assistant import BackendError
from helpers.app.deadline import Deadline
from helpers.app.openai_answers import broken
from helpers.tools.calls import Malformed, Verdict
from helpers.tools.tool import by_name

LARGEST_ANSWER = 1_000_000  # bytes
SENT = (  # headers: others are those of the environment, such as keys of gateways
    "host accept accept-encoding connection user-agent content-type content-length "
    "x-stainless-raw-response"  # by this one openai knows what it asked for
).split()
LARGEST_SIDE = 896  # pixels: what Gemma 3 looks at
ADVICE = {
    401: "It wants another key: give the one that this server gave you.",
    403: "It refuses this key: give another, or ask for access to the model.",
    404: "It does not know the model, or the address is not its /v1: check both.",
    413: "The picture is too large for it: send a smaller one.",
    429: "It is asked too often, or your quota is used up: wait, then ask again.",
}
KINDS_OF_ADVICE = {
    **dict.fromkeys(range(10), "Check that it is an OpenAI-compatible server."),
    3: "It sends elsewhere: give the address where it really is.",
    4: "It may not take pictures or tools: choose a model that does.",
    5: "The fault is its own: look at its log, and restart it if need be.",
}


class OpenAIServer:
    """Asks a server that speaks POST {base_url}/chat/completions, with tools.

    Args:
      base_url: such as "http://localhost:8000/v1".
      model: what the server calls the model.
      key: its secret; None for servers that want none. Keys and headers of the
        environment are not sent.
      timeout: seconds for one turn, from the request to the end of its answer.
      max_tokens: budget of one turn.
      tools: list of `tool.Tool` that the model is told of; () for one without.
    """

    def __init__(
        self,
        base_url,
        model,
        *,
        key=None,
        timeout=60.0,
        max_tokens=512,
        tools=(),
    ):
        self.base_url, self.model = base_url.strip(), model.strip()
        self.key = (key or "").strip()
        self.timeout, self.max_tokens = timeout, max_tokens
        self.schemas = [tool.schema for tool in by_name(tools).values()]
        self.name = self.model

    def begin(self, question, picture):
        """See `helpers.app.assistant`.

        Raises:
          BackendError: no address or model is given, or one that cannot be sent.
        """
        if not self.base_url.startswith(("http://", "https://")) or not self.model:
            raise BackendError(
                "No server can be asked: give an address such as "
                "http://localhost:8000/v1, and what the server calls its model."
            )
        if not _can_be_sent(self.base_url, self.key):
            raise BackendError(
                "This address or key cannot be sent: it holds letters that none "
                "has, or a port that is no number. Give both again."
            )
        content = [{"type": "text", "text": question}]
        if picture is not None:
            url = {"url": data_url(picture)}
            content.insert(0, {"type": "image_url", "image_url": url})
        return _Conversation(self, [{"role": "user", "content": content}])

    def ask(self, messages):
        """Send a conversation and return the server's JSON, checked for size only.

        Raises:
          BackendError: no connection, no answer in time, or an answer that is none.
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
        bodies: list[bytes] = []
        try:
            with (
                Deadline(self.timeout) as deadline,
                _client(openai, self, deadline, bodies.append) as client,
                client.chat.completions.with_streaming_response.create(**request),
            ):
                (body,) = bodies
        except openai.APITimeoutError as error:
            raise _too_slow(self.timeout) from error
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, BackendError):
                raise error.__cause__ from None
            if deadline.is_over:
                raise _too_slow(self.timeout) from error
            raise BackendError(
                f"Nothing answers at {self.base_url}: {error.__cause__ or error}. "
                "Start the server, and check address and port."
            ) from error
        return _read(body)


def _can_be_sent(address, key):
    """Whether an address has a host and a port that can be, and a key fits a header."""
    try:
        parts = urllib.parse.urlsplit(address)
        host, _ = parts.hostname or "", parts.port  # which raises where it is none
        host.encode("idna")
    except ValueError:
        return False
    return bool(host) and (host + key).isascii() and (address + key).isprintable()


def _client(openai, server, deadline, keep):
    """A client that follows nobody elsewhere, and gives `keep` the body of an answer.

    It is read here, and not by `openai`, which would read it to whatever end.
    """

    def prepare(request):
        own = {name: x for name, x in request.headers.items() if name in SENT}
        if server.key:
            own["authorization"] = f"Bearer {server.key}"
        elif request.url.userinfo:  # httpx has made a header of it
            own["authorization"] = request.headers["authorization"]
        request.headers = type(request.headers)(own)
        request.extensions["trace"] = deadline.trace

    def read(response):
        body = _limited(response.iter_bytes())
        if deadline.is_over:  # and what came is cut off
            raise _too_slow(server.timeout)
        if response.status_code != 200:
            raise BackendError(_refusal(response.status_code, body))
        keep(body)

    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        timeout=server.timeout,
        event_hooks={"request": [prepare], "response": [read]},
    )
    return openai.OpenAI(
        base_url=server.base_url,
        api_key=server.key or "none",  # not None: it would take OPENAI_API_KEY
        timeout=server.timeout,
        max_retries=0,
        http_client=http,
    )


def _read(body):
    """The JSON of an answer, all of it text that can be shown and sent back."""
    try:
        answer = json.loads(body)
        json.dumps(answer, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise broken("it is no JSON, or holds half a character") from error
    return answer


def _refusal(status, body):
    """What a person is told of another answer than 200, the words of the server too."""
    said = body[:4000].decode(errors="replace")
    try:
        found = json.loads(said)
        error = found.get("error", found)
        said = str(error.get("message", said) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        pass
    advice = ADVICE.get(status) or KINDS_OF_ADVICE[status // 100]
    said = " ".join(said.split())[:300].encode(errors="replace").decode()
    return f"The server refuses, with {status}. {advice}" + (
        f" It says: {said}" if said else ""
    )


def _limited(chunks):
    """All the bytes, if they are not too many."""
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise broken(f"it is longer than {LARGEST_ANSWER:,} bytes")
    return body


def _too_slow(seconds):
    return BackendError(
        f"The server gave no whole answer within {seconds:g} s. Ask again when it is "
        "less busy, or give it more time with `timeout`."
    )


class _Conversation:
    """One conversation with a server, which is told all of it at every turn.

    tokens: how many the server says that the model has written; None: it does not say.
    """

    def __init__(self, server, messages):
        self.server, self.messages, self.ids = server, messages, []
        self.tokens: int | None = 0

    def next_turn(self):
        answer = self.server.ask(self.messages)
        text, asked = openai_answers.read_message(answer)
        written = openai_answers.tokens_written(answer)
        if self.tokens is None or written is None:
            self.tokens = None
        else:
            self.tokens += written
        calls, error = [], None
        try:
            calls = [openai_answers.read_call(each) for each in asked]
        except Malformed as reason:
            error = f"This is no call: {reason}."
        said = {"role": "assistant", "content": text}
        echoes = openai_answers.echoes(asked)
        self.ids = [echo["id"] for echo in echoes]
        self.messages.append(said | ({"tool_calls": echoes} if echoes else {}))
        return Verdict(() if error else tuple(calls), error, text=text.strip())

    def append_results(self, verdict, results):
        """Every call that was asked for is answered: servers want that."""
        shared = results * len(self.ids) if verdict.error else results
        self.messages += [
            {"role": "tool", "tool_call_id": identity, "content": json.dumps(result)}
            for identity, result in zip(self.ids, shared, strict=True)
        ]


def data_url(picture):
    """A picture, uint8 (H, W, 3), as the URL of a PNG of at most 896 pixels a side."""
    image, file = Image.fromarray(picture), io.BytesIO()
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
