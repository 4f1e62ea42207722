"""Rendered conversations to tokens: what the template wrote, and what people wrote.

`<end_of_turn>` is one control token where the template writes it, and only characters
where a message spells it out: a user, or a tool's result, must not end a turn.
Spelled-out control tokens are replaced by stand-ins before the template is applied
(`chat_defused`); the rendered text is cut there, and the cut pieces are encoded on
their own.
"""

import re
import threading

from helpers.text.template_limits import unknown_word

# What ends a call in families whose results stand in the model's own turn, by what ends
# a turn: models of these families write it whatever their template says.
CALL_END = {"<turn|>": "<|tool_response>"}
# Whether special tokens count is a switch of the tokenizer itself, which every call
# sets: those of two threads take turns.
_SWITCHED = threading.Lock()


def probe() -> list[dict]:
    """A question to look at a template with, which it cannot know."""
    return [{"role": "user", "content": unknown_word()}]


def render(tokenizer, messages, add_generation_prompt=True, vision=None, **switches):
    """Apply the chat template; `switches` are its own, like tools. Returns str.

    Where it writes an image, `vision` (the model's `config.vision`) says what stands
    there: a begin, so many image tokens and an end.

    Raises:
      ValueError: there is an image, and no `vision`; or the template takes a content as
        one text, and gets a list of parts.
    """
    if vision is None and _images(messages):
        raise ValueError(
            f"The messages have {len(_images(messages))} images, and the model would be"
            " asked without them. Pass vision=model.config.vision, and to who makes"
            " batches pictures=, too; or leave the images out."
        )
    text = _applied(tokenizer, messages, add_generation_prompt, **switches)
    return text if vision is None else _expanded(tokenizer, text, messages, vision)


def _applied(tokenizer, messages, add_generation_prompt=True, **switches):
    """What the template writes."""

    def written(messages):
        return tokenizer.apply_chat_template(
            identified(messages),
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            **switches,
        )

    lists = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    try:
        text = written(messages)
    except Exception as error:
        if lists and _succeeds(written, [_in_one_text(m) for m in messages]):
            raise ValueError(_NO_PARTS.format(lists[0])) from error
        raise
    if shown := [parts for parts in lists if parts and str(parts) in text]:
        raise ValueError(_NO_PARTS.format(shown[0]))
    if unseen := _unwritten(written, messages):
        raise ValueError(_NO_PARTS.format(unseen[0]))
    return text


def _unwritten(written, messages):
    """Lists of parts whose texts a template passes over, as Qwen3's own does."""
    word, found = unknown_word(), []
    for index, message in enumerate(messages):
        parts = message.get("content")
        if message["role"] not in ("system", "user") or not isinstance(parts, list):
            continue
        marked = [part | {"text": word} if _has_text(part) else part for part in parts]
        told = {**message, "content": marked}
        asked = [*messages[:index], told, *messages[index + 1 :]]
        if marked != parts and word not in written(asked):
            found.append(parts)
    return found


def _has_text(part):
    return isinstance(part, dict) and bool(str(part.get("text") or "").strip())


_NO_PARTS = (
    "A content is a list of parts, {!r:.80}, and this chat template takes one text "
    "only. Pass a str, the texts of the parts joined; or take a model whose template "
    "knows parts (Gemma 3 and 4)."
)


def _succeeds(function, *arguments):
    try:
        function(*arguments)
    except Exception:
        return False
    return True


def _in_one_text(message):
    """The message, its parts' texts joined."""
    if not isinstance(message.get("content"), list):
        return message
    parts = message["content"]
    texts = [p.get("text") or "" if isinstance(p, dict) else str(p) for p in parts]
    return {**message, "content": "".join(texts)}


def identified(messages):
    """The messages, in which every call has an id and every result that of its call.

    Gemma 4's template finds the name of a result by them; where there are none, it
    takes the name of the last call. What has no id gets one by its order.
    """
    found: list[dict] = []
    open_calls: list[str] = []
    for message in messages:
        calls = message.get("tool_calls")
        if message["role"] == "tool" and open_calls:
            own = message.get("tool_call_id") or open_calls[0]
            open_calls = [each for each in open_calls if each != own]
            message = {**message, "tool_call_id": own}
        elif calls and isinstance(calls, list):
            calls = [{"id": f"call_{i}"} | call for i, call in enumerate(calls)]
            open_calls = [call["id"] for call in calls]
            message = {**message, "tool_calls": calls}
        elif message["role"] != "tool":
            open_calls = []
        found.append(message)
    return found


def _expanded(tokenizer, text, messages, vision):
    """What the template wrote, with all tokens of each image of the messages."""
    ids = vision.marker, vision.begin_token, vision.image_token, vision.end_token
    marker, begin, soft, end = tokenizer.convert_ids_to_tokens(ids)
    parts = _images(messages)
    first, *pieces = text.split(marker)
    if len(pieces) != len(parts):
        raise ValueError(
            f"The messages have {len(parts)} images, and the chat template wrote "
            f"{len(pieces)} of them. Take the template of the model's own folder."
        )
    for part, piece in zip(parts, pieces, strict=True):
        image = f"{begin}{soft * vision.takes(part)}{end}"
        first += f"{vision.around}{image}{vision.around}{piece}"
    return first


def _images(messages):
    """The parts of the messages that are images, a list."""
    contents = [m.get("content") for m in messages]
    parts = [part for own in contents if isinstance(own, list) for part in own]
    return [part for part in parts if part.get("type") == "image"]


def can_think(tokenizer):
    """Whether its template writes another prompt for a model that is to think first."""
    asked = probe()
    on, off = (render(tokenizer, asked, enable_thinking=x) for x in (True, False))
    return on != off


def switches_of(tokenizer, thinking, tools, vision=None):
    """Return what to call `render` with for each of them; None: nothing.

    Raises:
      ValueError: the template writes the same with and without it.
    """
    switches = {}
    if vision is not None:
        marker = tokenizer.convert_ids_to_tokens(vision.marker)
        if marker is None or marker not in _with_image(tokenizer):
            raise ValueError(
                f"This chat template writes no {marker} for an image: take the "
                "template of a model that sees (Gemma 3 4B or larger, Gemma 4)."
            )
        switches["vision"] = vision
    if thinking is not None:
        if not can_think(tokenizer):
            raise ValueError(
                f"thinking={thinking} was asked for, but this chat template writes the "
                "same prompt with thinking on and off. Leave thinking=None, or take a "
                "model whose template has the switch (Qwen3)."
            )
        switches["enable_thinking"] = bool(thinking)
    if tools:
        asked = probe()
        if render(tokenizer, asked, tools=tools) == render(tokenizer, asked):
            raise ValueError(
                "tools were given, but this chat template leaves them out. Describe "
                "them in the first message, or take a model whose template has tools "
                "(Qwen2.5, Qwen3, Llama 3.1)."
            )
        _require_results(tokenizer)
        switches["tools"] = tools
    return switches


def _require_results(tokenizer):
    """Raises where the template puts results where the family's models do not."""
    end = turn_end(tokenizer)[0][-1]
    of_family = CALL_END.get(tokenizer.convert_ids_to_tokens(end))
    known = tokenizer.get_added_vocab().get(of_family)
    if known is not None and call_end(tokenizer) != known:
        raise ValueError(
            f"The model opens a result with {of_family} in its own turn, and this chat "
            "template writes results elsewhere, as the first revision of Gemma 4's did."
            " Take the template of a newer revision of the model's folder."
        )


def _with_image(tokenizer):
    """What the template writes for an image; "" where it knows of none."""
    try:
        return _applied(tokenizer, [{"role": "user", "content": [{"type": "image"}]}])
    except ImportError:  # of Jinja: that is not the template's fault
        raise
    except Exception:  # it adds a list to text, say: templates fail in any way
        return ""


def encode(tokenizer, texts, spelled=None):
    """Encode rendered text, in which `<end_of_turn>` is one control token.

    Args:
      tokenizer: whose control tokens count.
      texts: list of str.
      spelled: what the stand-ins in them stand for, from `chat_defused.defused`.
    Returns:
      list of lists of token ids.
    """
    if not texts:
        return []
    if not spelled:
        with _SWITCHED:
            return tokenizer(texts, add_special_tokens=False)["input_ids"]
    plain = {c: _plain_control(tokenizer, text) for c, text in spelled.items()}
    cut = re.compile(f"([{''.join(plain)}])")
    rows = []
    for text in texts:
        pieces = cut.split(text)
        ids = iter(encode(tokenizer, pieces[::2]))
        rows.append(list(next(ids)))
        for character in pieces[1::2]:
            rows[-1] += plain[character] + next(ids)
    return rows


def plain(tokenizer, texts):
    """Encode what somebody wrote, in which `<end_of_turn>` is only characters."""
    if not texts:
        return []
    with _SWITCHED:
        found = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
    return found["input_ids"]


def _plain_control(tokenizer, text):
    """Encode a spelled-out control token; a tag is only split when cut in two."""
    (ids,) = plain(tokenizer, [text])
    if len(ids) > 1:
        return ids
    return sum(plain(tokenizer, [text[:1], text[1:]]), [])


def turn_end(tokenizer):
    """Return the ids that the template writes after an answer, in two lists.

    The first ends with the control token that ends the turn, and is learned; the
    second is what follows it, the model never writes it.

    Raises:
      ValueError: there is no control token among them.
    """
    marker = unknown_word()
    messages = [*probe(), {"role": "assistant", "content": marker}]
    closing = render(tokenizer, messages, False).rpartition(marker)[2]
    (ids,) = encode(tokenizer, [closing])
    added = tokenizer.added_tokens_decoder
    for count, token in enumerate(ids, start=1):
        if token in added and added[token].special:
            return ids[:count], ids[count:]
    raise ValueError(
        f"The chat template writes {closing!r} after an answer, in which there is no "
        "control token: a model trained on it could not stop. Use an instruct "
        "model's template."
    )


def call_end(tokenizer):
    """The id that the template writes after a call which awaits its result, or None.

    It is that of the begin of a result, in the families whose results stand in the
    model's own turn (Gemma 4): the model writes it, and stops. None: a call ends as
    every turn does, or the template knows of no calls.
    """
    marker = unknown_word()
    calls = [{"type": "function", "function": {"name": marker, "arguments": {}}}]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    try:
        text = render(tokenizer, [*probe(), called], False)
    except ImportError:  # of Jinja: that is not the template's fault
        raise
    except Exception:  # it refuses calls: templates fail in any way
        return None
    (ids,) = encode(tokenizer, [text.rpartition(marker)[2]])
    added = tokenizer.added_tokens_decoder
    special = [i for i in ids if i in added and added[i].special]
    if not special or turn_end(tokenizer)[0][-1] in special:
        return None
    return special[-1]
