"""Whether messages are such that nothing of them can get lost without a word."""


def require_messages(messages):
    """Refuses a message of which a chat template would leave out something.

    Templates look at role and content only: a text under another name, such as "value",
    is an empty turn to them, and they pass over parts of kinds that they do not know,
    such as "image_url" or "audio".

    Args:
      messages: list of {"role", "content"}; a content is a str, or a list of parts.
        Of an assistant's it may be missing where there are "tool_calls".
    Returns:
      messages.
    Raises:
      ValueError: saying which message, and what to write instead.
    """
    if not isinstance(messages, list | tuple):
        raise ValueError(
            f"Messages are {messages!r:.80}: pass a str, or a list of messages "
            '{"role": "user", "content": …}.'
        )
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(
                f"Message {index} is {message!r:.80}: a message is a dict with a "
                '"role" and a "content".'
            )
        if isinstance(message.get("content"), list | tuple):
            for part in message["content"]:
                _require_part(part, index)
        elif not isinstance(message.get("content"), str) and not _acts(message):
            others = [name for name in message if name not in ("role", "content")]
            beside = f" Beside it there is {others}." if others else ""
            raise ValueError(
                f"The content of message {index} (role {message['role']!r}) is "
                f"{message.get('content')!r:.60}.{beside} Write what is said under "
                '"content", as a str or a list of parts.'
            )
    return messages


def _acts(message):
    """Whether it is an assistant's that calls or thinks, and says nothing."""
    acts = message.get("tool_calls") or message.get("reasoning_content")
    return message["role"] == "assistant" and message.get("content") is None and acts


def _require_part(part, index):
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "image" and not (kind == "text" and isinstance(part.get("text"), str)):
        raise ValueError(
            f"A part of message {index} is {part!r:.80}. A part is "
            '{"type": "text", "text": …} or {"type": "image"}; the picture itself is '
            "passed beside the messages, as pictures=."
        )
