"""Chat templates applied to conversations, and what their text says about turns.

Everything is derived from the template itself: what ends a turn, whether it can think,
where an answer begins. Checks here refuse conversations that the template would change
or shorten, because the model would then learn something else than the data says.
"""

import itertools
import re

from jinja2 import TemplateError

from helpers.text.encoding import encode

MARKER = "\ue000"  # a private character that no template contains
QUESTION = {"role": "user", "content": "Hi"}
# The end of a think block that begins in an earlier text.
THINK_ENDS = re.compile(r"^(?:(?!<think>).)*</think>", re.DOTALL)
# Gemma 4's larger models end a prompt with an empty thought, which no answer has.
THOUGHT = "<|channel>thought\n"
NO_THOUGHT = THOUGHT + "<channel|>"


def require_messages(messages):
    """The messages, in which texts beside each other are one.

    It refuses those of which a chat template would silently leave out something.

    Args:
      messages: list of {"role", "content"}; a content is a str or a list of parts. An
        assistant's may be missing where there are "tool_calls".
    Returns:
      The messages. A content without an image is a str, which every template knows.
    Raises:
      ValueError: naming the message, and what to write instead.
    """
    for index, message in enumerate(messages):
        if not _is_message(message):
            raise ValueError(
                f'Message {index} is {message!r:.120}. A message is {{"role": …, '
                '"content": …}. The content is a str, or a list of parts {"type": '
                '"text", "text": …} and {"type": "image"}; the picture itself is passed'
                " beside the messages, as pictures=."
            )
    return [_joined(message) for message in messages]


def _joined(message):
    """The message with one text where several parts follow each other."""
    if not isinstance(message.get("content"), list | tuple):
        return message
    parts: list[dict] = []
    for kind, group in itertools.groupby(message["content"], lambda p: p["type"]):
        if kind == "text":
            text = "".join(part["text"] for part in group)
            parts.append({"type": kind, "text": text})
        else:
            parts += group
    has_image = any(part["type"] == "image" for part in parts)
    content = parts if has_image else "".join(part["text"] for part in parts)
    return {**message, "content": content}


def _is_message(message):
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    content = message.get("content")
    if content is None:
        acts = message.get("tool_calls") or message.get("reasoning_content")
        return message["role"] == "assistant" and bool(acts)
    if isinstance(content, list | tuple):
        return all(map(_is_part, content))
    return isinstance(content, str)


def _is_part(part):
    kind = part.get("type") if isinstance(part, dict) else None
    return kind == "image" or kind == "text" and isinstance(part.get("text"), str)


def render(tokenizer, messages, add_generation_prompt=True, vision=None, **switches):
    """Applies the chat template; `switches` are its own, like tools. Returns str.

    Where the template writes an image, `vision` (the model's `config.vision`) says what
    stands there: a begin token, the image tokens and an end token.

    Raises:
      ValueError: there is an image and no `vision`, or the template leaves it out.
    """
    images = _images(messages)
    if vision is None and images:
        raise ValueError(
            f"The messages have {len(images)} images. Pass vision=model.config.vision, "
            "and pictures= to whatever makes batches; or leave the images out."
        )
    text = tokenizer.apply_chat_template(
        identify_calls(messages),
        tokenize=False,
        add_generation_prompt=add_generation_prompt,
        **switches,
    )
    if vision is None:
        return text
    ids = vision.marker, vision.begin_token, vision.image_token, vision.end_token
    marker, begin, soft, end = tokenizer.convert_ids_to_tokens(ids)
    first, *pieces = text.split(marker)
    if len(pieces) != len(images):
        raise ValueError(
            f"The messages have {len(images)} images, and the chat template wrote "
            f"{len(pieces)} of them. Take the template of the model's own folder."
        )
    for image, piece in zip(images, pieces, strict=True):
        tokens = f"{begin}{soft * vision.takes(image)}{end}"
        first += f"{vision.around}{tokens}{vision.around}{piece}"
    return first


def _images(messages):
    """The parts of the messages that are images."""
    contents = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    return [part for parts in contents for part in parts if part["type"] == "image"]


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


def can_think(tokenizer):
    """Whether its template has a switch that lets the model think first."""
    on, off = (render(tokenizer, [QUESTION], enable_thinking=x) for x in (True, False))
    return on != off


def switches_of(tokenizer, thinking, tools, vision=None):
    """What to pass to `render` for thinking, tools and vision; None: nothing.

    Raises:
      ValueError: the template writes the same with and without it.
    """
    switches = {}
    if vision is not None:
        marker = tokenizer.convert_ids_to_tokens(vision.marker)
        image = {"role": "user", "content": [{"type": "image"}]}
        try:
            written = tokenizer.apply_chat_template([image], tokenize=False)
        except (TypeError, TemplateError):  # as templates without parts have it
            written = ""
        if marker is None or marker not in written:
            raise ValueError(
                f"This chat template writes no {marker} for an image: take the "
                "template of a model that sees (Gemma 3 4B or larger, Gemma 4)."
            )
        switches["vision"] = vision
    if thinking is not None:
        if not can_think(tokenizer):
            raise ValueError(
                f"You set thinking={thinking}, but this chat template writes the same "
                "prompt with thinking on and off. Leave thinking=None (Qwen3 has it)."
            )
        switches["enable_thinking"] = bool(thinking)
    if tools:
        with_tools = render(tokenizer, [QUESTION], tools=tools)
        if with_tools == render(tokenizer, [QUESTION]):
            raise ValueError(
                "tools were given, but this chat template leaves them out. Take a "
                "model whose template has tools: Qwen2.5, Qwen3, Llama 3.1 or Gemma 4."
            )
        switches["tools"] = tools
    return switches


def turn_end(tokenizer):
    """The ids that the template writes after an answer, in two lists.

    The first ends with the control token that ends the turn, and is learned. The second
    is what follows it, which the model never writes.

    Raises:
      ValueError: there is no control token among them.
    """
    messages = [QUESTION, {"role": "assistant", "content": MARKER}]
    closing = render(tokenizer, messages, False).rpartition(MARKER)[2]
    (ids,) = encode(tokenizer, [closing])
    added = tokenizer.added_tokens_decoder
    for count, token in enumerate(ids, start=1):
        if token in added and added[token].special:
            return ids[:count], ids[count:]
    raise ValueError(
        f"The chat template writes {closing!r} after an answer and no control token."
        " A model trained on it could not stop: use an instruct model's template."
    )


def call_end(tokenizer):
    """The id that the template writes after a call which awaits its result, or None.

    In families whose results stand in the model's own turn (Gemma 4) it is the begin of
    a result: the model writes it and stops. None: a call ends as every turn does, or
    the template has no calls.
    """
    calls = [{"type": "function", "function": {"name": MARKER, "arguments": {}}}]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    try:
        text = render(tokenizer, [QUESTION, called], False)
    except (TypeError, ValueError, TemplateError):  # it has no calls
        return None
    (ids,) = encode(tokenizer, [text.rpartition(MARKER)[2]])
    added = tokenizer.added_tokens_decoder
    special = [i for i in ids if i in added and added[i].special]
    if not special or turn_end(tokenizer)[0][-1] in special:
        return None
    return special[-1]


def answer_place(tokenizer, messages, index, whole, switches, is_last):
    """Where in the rendered `whole` the answer messages[index] begins, and its text.

    Args:
      is_last: whether no later answer is learned.
    Returns:
      (place in `whole`, text, an empty thought that only the answer's prompt ends in).
    """
    before = render(tokenizer, messages[:index], **switches)
    up_to = render(tokenizer, messages[: index + 1], False, **switches)
    begin = before if up_to.startswith(before) else before.removesuffix(NO_THOUGHT)
    text, thought = up_to.removeprefix(begin), before.removeprefix(begin)
    if not up_to.startswith(begin) or thought and text.startswith(THOUGHT):
        raise ValueError(
            f"The prompt for message {index} ends in {before[-40:]!r}, but the "
            "template begins that answer otherwise. An answer that holds thinking "
            "needs thinking=None or True, one that holds none thinking=None or False."
        )
    if not is_last and thought or not whole.startswith(up_to):
        raise ValueError(
            f"The template writes message {index} differently once the conversation "
            "goes on (Qwen3 writes a think block only in the last answer, Gemma 4 an "
            "empty one only in its prompt): the model would learn what it never has "
            "to write. Make one example per answer, conversation_tokens(tokenizer, "
            f"messages[:{index + 1}], ..., last_only=True)."
        )
    return len(begin), text, thought


def check_answers_follow_prompts(tokenizer, thinking=None, tools=None):
    """Raises where an answer right behind its prompt would stand in a think block.

    Templates of models that always think open the block in the prompt (DeepSeek's
    distilled ones, Qwen3's of 2507), and write an answer without thinking after its
    end. An answer may follow an empty thought.
    """
    switches = switches_of(tokenizer, thinking, tools)
    messages = [QUESTION, {"role": "assistant", "content": MARKER}]
    whole = render(tokenizer, messages, False, **switches)
    _, text, _ = answer_place(tokenizer, messages, 1, whole, switches, True)
    if THINK_ENDS.search(text.partition(MARKER)[0]):
        raise ValueError(
            f"The template ends a thought in front of an answer, {whole[-60:]!r}: an "
            "answer alone would be learned as the model's thoughts. Pass thinking=False"
            " if the template knows it, or take a model that does not always think."
        )


def check_nothing_is_left_out(tokenizer, messages, learned, whole, switches):
    """Raises where a part of a message does not change what the template writes.

    The template may drop the thinking of earlier answers that are not learned.
    """
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index not in learned:
            continue
        for part in ("content", "reasoning_content", "tool_calls"):
            if not str(message.get(part) or "").strip():
                continue
            less = [*messages[:index], {**message, part: ""}, *messages[index + 1 :]]
            try:
                changes = render(tokenizer, less, False, **switches) != whole
            except TemplateError:  # e.g. a result whose call is gone
                changes = True
            if not changes:
                raise ValueError(
                    f"The template leaves out the {part} of message {index} (role "
                    f"{message['role']!r}). Write it into a content that the template "
                    "has, or take a model whose template knows it."
                )


def after_answer(tokenizer, messages, ended):
    """Messages as they follow an answer that contains MARKER, and the id that ends it.

    Where results stand in the model's own turn, an answer that ended with the begin of
    a result gets them there; one that ended its turn gets them in a user's turn.

    Args:
      ended: id of the token that the model wrote last; None: what the template writes.
    Returns:
      (the answer and the messages, the id that the template writes after the answer).
    """
    call, turn = call_end(tokenizer), turn_end(tokenizer)[0][-1]
    plain = {"role": "assistant", "content": MARKER}
    results = [message for message in messages if message["role"] == "tool"]
    if call is None or not results and ended != call:
        return [plain, *messages], turn
    if ended not in (None, call):
        shown = "\n".join(message["content"] for message in messages)
        return [plain, {"role": "user", "content": shown}], turn
    calls = [_call_of(message, {}) for message in results[:-1]]
    calls.append(_call_of(results[-1] if results else {}, {"argument": MARKER}))
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    return [called, *messages], call


def _call_of(message, arguments):
    """The call whose result a message is: templates may look its name up there."""
    function = {"name": message.get("name") or "unknown", "arguments": arguments}
    call_id = {"id": message["tool_call_id"]} if message.get("tool_call_id") else {}
    return call_id | {"type": "function", "function": function}
