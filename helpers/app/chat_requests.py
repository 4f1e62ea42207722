"""What a client asks of our own chat server, checked field by field.

The form is that of OpenAI's POST /v1/chat/completions, and of it only what the server
can do: anything else is `Refused` by name, with the status that a client is told.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from helpers.app import openai_answers
from helpers.app.assistant import TURNS
from helpers.tasks.food import photos
from helpers.tools import calls as tool_calls
from helpers.tools.calls import MOST_CALLS, Call, Grammar, Malformed
from helpers.tools.tool import Tool

LONGEST_QUESTION = 2_000  # characters
LARGEST_BUDGET = 100_000  # tokens, whatever a model can
FIELDS = {"model", "messages", "tools", "temperature", "max_tokens"}


class Refused(ValueError):
    """A request that is not answered.

    status: the HTTP status, such as 400. The message says what to send instead.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Request(NamedTuple):
    """A conversation as far as it has got.

    messages: for the chat template. picture: uint8 (H, W, 3), or None. budget: most
    tokens of the answer, None for the model's own. may_call: whether tools were sent.
    """

    messages: list
    picture: np.ndarray | None
    budget: int | None
    may_call: bool


def read(body: bytes, model: str, grammar: Grammar, tools: Sequence[Tool]) -> Request:
    """Reads a request.

    Args:
      body: as it came.
      model: the name of the one that is served.
      grammar: of its family.
      tools: those that it knows.
    Raises:
      Refused: it is no request, or one for what this server does not do.
    """
    try:
        asked = json.loads(body)
        json.dumps(asked, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(400, "The body is no JSON, or holds half a character.") from error
    if not isinstance(asked, dict):
        raise Refused(400, "The body must be one JSON object.")
    if unknown := sorted(set(asked) - FIELDS):
        named = ascii(unknown[0])[:60]
        raise Refused(400, f"{named} is not known here: send {sorted(FIELDS)} only.")
    if asked.get("model") != model:
        named = ascii(asked.get("model"))[:60]
        raise Refused(404, f"There is no model {named} here; there is {model!r}.")
    heat = asked.get("temperature")
    if isinstance(heat, bool) or heat != 0:
        raise Refused(
            400, "temperature must be 0: the likeliest token is always taken."
        )
    question, picture = _question(_messages(asked))
    return Request(
        [question, *_turns(asked["messages"][1:], grammar)],
        picture,
        _budget(asked.get("max_tokens")),
        _may_call(asked.get("tools"), tools),
    )


def _messages(asked):
    messages = asked.get("messages")
    most = 1 + TURNS * (1 + MOST_CALLS)
    if not isinstance(messages, list) or not 0 < len(messages) <= most:
        raise Refused(400, f"messages must be a list of 1 to {most} messages.")
    if not all(isinstance(message, dict) for message in messages):
        raise Refused(400, "Each of messages must be an object with a role.")
    return messages


def _budget(tokens):
    if tokens is None:
        return None
    if type(tokens) is not int or not 0 < tokens <= LARGEST_BUDGET:
        raise Refused(400, f"max_tokens must be a whole number, 1 to {LARGEST_BUDGET}.")
    return tokens


def _may_call(schemas, tools):
    if schemas is None:
        return False
    known = [tool.schema for tool in tools]
    if not isinstance(schemas, list) or not schemas:
        raise Refused(400, "tools must be a list of schemas, or be left out.")
    if any(schema not in known for schema in schemas) or len(schemas) < len(known):
        names = [tool.name for tool in tools]
        raise Refused(400, f"The model has learned these tools, as they are: {names}.")
    return True


def _question(messages):
    """The first message, for the chat template, and its picture or None."""
    first = messages[0]
    content = first.get("content")
    if first.get("role") != "user":
        raise Refused(400, "The first message must be the user's: none are set before.")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(p, dict) for p in content):
        raise Refused(400, "The user's content must be text, or a list of parts.")
    kinds = [part.get("type") for part in content]
    if kinds not in (["text"], ["image_url", "text"]):
        raise Refused(400, "The user's content must be one text, or a picture and one.")
    text = content[-1].get("text")
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_QUESTION:
        raise Refused(
            400, f"The user's text must have 1 to {LONGEST_QUESTION} letters."
        )
    if len(content) == 1:
        return {"role": "user", "content": text}, None
    parts = [{"type": "image"}, {"type": "text", "text": text}]
    return {"role": "user", "content": parts}, _picture(content[0].get("image_url"))


def _picture(image_url):
    """The pixels of a data URL; a server that fetched others could be sent anywhere."""
    url = image_url.get("url") if isinstance(image_url, dict) else None
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise Refused(
            400, "Send the picture itself, as data:image/png;base64,…: none is fetched."
        )
    try:
        return photos.decode(base64.b64decode(data, validate=True), where="The picture")
    except (binascii.Error, ValueError) as error:  # a PhotoError is one, too
        raise Refused(400, f"The picture cannot be read: {error}") from error


def _turns(messages, grammar):
    """Turns of the model and what its calls gave, as the model's family writes them."""
    turns: list[dict] = []
    position = 0
    while position < len(messages):
        said = messages[position]
        asked = said.get("tool_calls")
        text = said.get("content") or ""
        fits = said.get("role") == "assistant" and isinstance(text, str)
        if not fits or not isinstance(asked, list) or not 0 < len(asked) <= MOST_CALLS:
            raise Refused(
                400, "After the question come turns with tool_calls, and their results."
            )
        after = position + 1 + len(asked)
        told = messages[position + 1 : after]
        calls, results = _calls(asked), _results(asked, told)
        try:
            turns.append(grammar.message(calls, text))
            turns += grammar.results(results, calls)
        except ValueError as error:
            raise Refused(400, f"The model makes no such calls: {error}") from error
        position = after
    return turns


def _calls(asked) -> list[Call]:
    try:
        return [openai_answers.read_call(each) for each in asked]
    except Malformed as error:
        raise Refused(400, f"One of tool_calls cannot be read: {error}.") from error


def _results(asked, told):
    """What each call gave, in the order of the calls."""
    ids = [each.get("id") for each in asked]
    if [m.get("tool_call_id") for m in told if m.get("role") == "tool"] != ids:
        raise Refused(400, "Each call needs its result next, by its tool_call_id.")
    try:
        results = [_result(message.get("content")) for message in told]
    except Malformed as error:
        raise Refused(400, f"A tool's content cannot be read: {error}.") from error
    return results


def _result(content):
    if not isinstance(content, str):
        raise Malformed("it must be JSON in a string")
    value, end = tool_calls.read_json(content.strip())
    if content.strip()[end:] or not isinstance(value, dict):
        raise Malformed("it must be one JSON object")
    return value
