"""What an OpenAI-compatible server answers, checked field by field.

A call that cannot be read is `Malformed`, which the model may mend; an answer that is
none is a BackendError, which a person may.
"""

import json

from helpers.app.assistant import BackendError
from helpers.tools import calls as tool_calls
from helpers.tools.calls import LONGEST_TURN, MOST_CALLS, Call, Malformed

LONGEST_ID = 200
MOST_TOKENS = 1_000_000  # of one turn
LONGEST_NAME = 64
CUT = {  # why a turn is not whole, by its finish_reason
    "length": "The model did not end its turn within the budget: ask in other words, "
    "or give it a larger one with `max_tokens`.",
    "content_filter": "The server's filter cut the answer off: ask in other words.",
}


def broken(reason) -> BackendError:
    """The error of an answer that cannot be used, for this reason."""
    return BackendError(
        f"The server's answer cannot be used: {reason}. Check that the address is that "
        "of an OpenAI-compatible server, ending in /v1."
    )


def read_message(answer):
    """What the model said, of a server's answer.

    Args:
      answer: JSON, whatever it is.
    Returns:
      (text, list of calls that are not checked yet).
    Raises:
      BackendError: it is no answer, or one that was cut off.
    """
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        text, asked = message.get("content") or "", message.get("tool_calls") or []
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise broken("it has no choices[0].message") from error
    if not isinstance(text, str) or not isinstance(asked, list):
        raise broken("content is no text, or tool_calls is no list")
    if isinstance(reason, str) and reason in CUT:
        raise BackendError(f"{CUT[reason]} What it wrote is left out: it is not whole.")
    if len(text) > LONGEST_TURN or len(asked) > MOST_CALLS:
        raise broken(
            f"more than {LONGEST_TURN} letters or {MOST_CALLS} calls in one turn"
        )
    return text, asked


def tokens_written(answer) -> int | None:
    """How many tokens a turn had, as a server counts them; None: it does not say."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count <= MOST_TOKENS else None


def read_call(asked) -> Call:
    """The Call that a server says was made; its `arguments` are JSON in a string.

    Raises:
      Malformed: it says so otherwise.
    """
    name, arguments = _function(asked)
    if arguments is None:
        raise Malformed("name and arguments must be text")
    value, end = tool_calls.read_json(arguments.strip())
    if arguments.strip()[end:] or not isinstance(value, dict):
        raise Malformed("arguments must be one JSON object")
    return Call(name, value)


def echoes(asked):
    """The calls as the server is told them again, each with an id of its own.

    What cannot be read has no arguments there: templates of servers read them as JSON,
    and fail where they are none.
    """
    ids = [_identity(each) for each in asked]
    if None in ids or len(set(ids)) < len(ids):
        ids = [f"call_{index}" for index in range(len(asked))]
    functions = [_echo(each) for each in asked]
    return [
        {"id": identity, "type": "function", "function": function}
        for identity, function in zip(ids, functions, strict=True)
    ]


def _function(asked):
    """(name, arguments) of a call, None for what is not as it should be."""
    function = asked.get("function") if isinstance(asked, dict) else None
    function = function if isinstance(function, dict) else {}
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        return "unknown", None
    return name, arguments if isinstance(arguments, str) else None


def _echo(asked):
    try:
        call = read_call(asked)
    except Malformed:
        return {"name": _function(asked)[0], "arguments": "{}"}
    return {"name": call.name, "arguments": json.dumps(call.arguments)}


def _identity(asked):
    identity = asked.get("id") if isinstance(asked, dict) else None
    usable = isinstance(identity, str) and 0 < len(identity) <= LONGEST_ID
    return identity if usable else None
