"""Messages as people and their tools write them, made those that chat templates know.

    {"from": "human", "value": "Hi"}               a user's turn, as ShareGPT writes it
    {"role": "developer", "content": "Be brief"}   a system turn, as OpenAI calls it
    {"role": "assistant", "weight": 0, …}          an answer that is not learned
    {"role": "assistant", "thinking": "2 + 3", …}  its "reasoning_content"
    {"role": "assistant", "function_call": {"name": "add", "arguments": "{}"}}

A template writes what it knows and leaves out the rest without a word. So names are
converted here, and what cannot be converted is an error.
"""

import itertools
import json

# A template would write these names into the header of a turn, which no model has read.
ROLES = {
    **dict.fromkeys(("human", "prompter"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "bot", "model", "ai"), "assistant"),
    **dict.fromkeys(("function", "observation", "tool_response", "ipython"), "tool"),
    "developer": "system",
    "function_call": "assistant",  # in LLaMA-Factory's rows: the content is the call
}
KNOWN = ("system", "user", "assistant", "tool")
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thought")
DETAILS = ("reasoning_details", "thinking_blocks")  # OpenRouter's and LiteLLM's lists
# OpenAI's and Mistral's; Axolotl's three; ms-swift's.
WEIGHTS = ("weight", "train", "training", "train_detail", "loss")
CONVERTED = {"from", "value", "tool_calls", "function_call"}
CONVERTED |= {*THOUGHTS, *DETAILS, *WEIGHTS}


def require_messages(messages):
    """The messages in one form.

    A role is one of KNOWN. A content is a str, which every template knows, or a list of
    parts where there is an image. Calls are "tool_calls", their arguments dicts. A
    thought is "reasoning_content". An answer that is not learned has the "weight" 0.

    Args:
      messages: list of {"role", "content"}; a content is a str or a list of parts. An
        assistant's may be missing where there are calls or a thought.
    Raises:
      ValueError: naming the message, and what to write instead.
    """
    messages = [_converted(f"Message {i}", each) for i, each in enumerate(messages)]
    # Models know one system turn, and Gemma's templates refuse a second one.
    while [m["role"] for m in messages[:2]] == ["system", "system"]:
        first, second, *others = messages
        both = f"{first['content']}\n\n{second['content']}"
        messages = [first | {"content": both}, *others]
    return messages


def _converted(place, message):
    # Tables have nulls for missing fields, and templates ask only whether one is there.
    given = dict(message) if isinstance(message, dict) else {}
    given = {name: value for name, value in given.items() if value is not None}
    role = str(given.get("role", given.get("from"))).strip().lower()
    content = given.get("content", given.get("value"))
    calls = given.get("tool_calls") or given.get("function_call")
    if role == "function_call":
        content, calls = None, content
    role = ROLES.get(role, role)
    thought = next((given[x] for x in (*THOUGHTS, *DETAILS) if given.get(x)), "")
    weight = next((given[x] for x in WEIGHTS if x in given), 1)
    if content is None and role == "assistant" and (calls or thought):
        content = ""
    if role == "tool" and isinstance(content, dict):
        content = json.dumps(content, ensure_ascii=False)
    if isinstance(content, list):  # Anthropic's thoughts are parts of it
        parts = [p["thinking"] for p in content if _is_thought(p)]
        content = [p for p in content if not _is_thought(p)]
        thought = thought or "\n\n".join(parts)
    content = _joined(content)
    if role not in KNOWN or content is None or not isinstance(thought, str):
        raise ValueError(
            f'{place} is {message!r:.120}. A message is {{"role": …, "content": …}}. '
            f"The role is one of {', '.join(KNOWN)} or, converted, {', '.join(ROLES)}."
            ' The content is a str, or a list of parts {"type": "text", "text": …} and '
            '{"type": "image"}; the picture itself is passed beside them, as pictures=.'
            " A thought is a str."
        )
    if weight not in (0, 1):
        raise ValueError(f"{place} has the weight {weight!r:.40}, not 0 or 1.")
    converted = {n: x for n, x in given.items() if n not in CONVERTED}
    converted |= {"role": role, "content": content}
    converted |= {"tool_calls": _calls(place, calls)} if calls else {}
    converted |= {"reasoning_content": thought} if thought else {}
    return converted | ({} if weight else {"weight": 0})


def _joined(content):
    """The content, one text where several parts follow each other; None if it is none.

    A content without an image is a str.
    """
    if not isinstance(content, list | tuple) or not all(map(_is_part, content)):
        return content if isinstance(content, str) else None
    parts: list[dict] = []
    for kind, group in itertools.groupby(content, lambda p: p["type"]):
        if kind == "text":
            text = "".join(part["text"] for part in group)
            parts.append({"type": kind, "text": text})
        else:
            parts += group
    has_image = any(part["type"] == "image" for part in parts)
    return parts if has_image else "".join(part["text"] for part in parts)


def _is_part(part):
    kind = part.get("type") if isinstance(part, dict) else None
    return kind == "image" or kind == "text" and isinstance(part.get("text"), str)


def _is_thought(part):
    is_dict = isinstance(part, dict) and part.get("type") == "thinking"
    return is_dict and isinstance(part.get("thinking"), str)


def _calls(place, calls):
    """Calls in OpenAI's form, with their arguments parsed."""
    try:
        calls = json.loads(calls) if isinstance(calls, str) else calls
        return [_call(call) for call in ([calls] if isinstance(calls, dict) else calls)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f'{place} has the calls {calls!r:.120}, and each is {{"name": …, '
            f'"arguments": {{…}}}}: {error!r}.'
        ) from error


def _call(call):
    function = call.get("function") or call
    arguments = function.get("arguments", function.get("parameters")) or {}
    while isinstance(arguments, str):  # some rows have it encoded twice
        arguments = json.loads(arguments)
    called = {"name": function["name"], "arguments": dict(arguments)}
    named = {"id": call["id"]} if call.get("id") else {}
    return named | {"type": "function", "function": called}


def identify_calls(messages):
    """The messages with an id in every call, and in every result that of its call.

    Gemma 4's template finds the name of a result by them. Calls without an id get one
    by their order.
    """
    identified: list[dict] = []
    open_calls: list[str] = []
    for message in messages:
        calls = message.get("tool_calls")
        if message["role"] == "tool" and open_calls:
            call = message.get("tool_call_id") or open_calls[0]
            open_calls = [each for each in open_calls if each != call]
            message = {**message, "tool_call_id": call}
        elif calls and isinstance(calls, list):
            calls = [{"id": f"call_{i}"} | call for i, call in enumerate(calls)]
            open_calls = [call["id"] for call in calls]
            message = {**message, "tool_calls": calls}
        elif message["role"] != "tool":
            open_calls = []
        identified.append(message)
    return identified
