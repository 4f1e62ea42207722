"""Chat templates applied to conversations, and what their text says about turns.

Everything is derived from the template itself: what ends a turn, whether it can think,
where an answer begins. Checks here refuse conversations that the template would change
or shorten, because the model would then learn something else than the data says.
"""

import datetime
import functools
import json

from jinja2 import TemplateError

from helpers.text.encoding import encode
from helpers.text.messages import THOUGHTS, identify_calls

MARKER, UNKNOWN = "\ue000", "\ue001"  # private characters that no template contains
QUESTION = {"role": "user", "content": "Hi"}
# Gemma 4's larger models end a prompt with an empty thought, which no answer has.
THOUGHT = "<|channel>thought\n"
NO_THOUGHT = THOUGHT + "<channel|>"
# Llama 3.2's template and others write today's date, so a run would have other prompts
# after midnight. Here it is always this one, which they write where there is no clock.
TODAY = datetime.date(2024, 7, 26)
PARTS = {f"%{x}": TODAY.strftime(f"%{x}") for x in "aAbBcdHIjmMpSxXyY"}
PARTS |= {"%-d": str(TODAY.day), "%-m": str(TODAY.month)}
# A macro, since a template may hold the format in a variable.
CLOCK = "".join(f"|replace({x!r}, {part!r})" for x, part in PARTS.items())
CLOCK = f"{{% macro strftime_now(format) %}}{{{{ format{CLOCK} }}}}{{% endmacro %}}\n"


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
    as_text = takes_text(tokenizer, str(tokenizer.chat_template))
    text = _applied(tokenizer, messages, as_text, add_generation_prompt, **switches)
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


def _applied(tokenizer, messages, as_text, add_generation_prompt=False, **switches):
    """The chat template's text; `as_text` is whether arguments of calls are JSON."""
    template = tokenizer.get_chat_template(tools=switches.get("tools"))
    undated = CLOCK + template if "strftime_now" in template else template
    return tokenizer.apply_chat_template(
        [_in_form(message, as_text) for message in identify_calls(messages)],
        chat_template=undated,
        tokenize=False,
        add_generation_prompt=add_generation_prompt,
        **switches,
    )


def _in_form(message, as_text):
    """A message with its thought under all names; its calls' arguments may be JSON."""
    if thought := message.get("reasoning_content"):
        message = message | dict.fromkeys(THOUGHTS, thought)
    if not as_text or not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        calls.append(call | {"function": call["function"] | {"arguments": arguments}})
    return message | {"tool_calls": calls}


@functools.lru_cache(maxsize=32)
def takes_text(tokenizer, template):
    """Whether the chat template takes arguments of calls as JSON, as DeepSeek's do.

    Others write a dict as JSON, and would make JSON of JSON.

    Args:
      template: the tokenizer's. Each is tried once.
    """
    function = {"name": MARKER, "arguments": {"key": UNKNOWN}}
    calls = [{"type": "function", "function": function}]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    try:
        text = _applied(tokenizer, [QUESTION, called], False)
    except (TypeError, ValueError, TemplateError) as error:
        return isinstance(error, TypeError)  # a text and a dict are not added
    return "'key'" in text  # as Python writes a dict


def _images(messages):
    """The parts of the messages that are images."""
    contents = [m["content"] for m in messages if isinstance(m.get("content"), list)]
    return [part for parts in contents for part in parts if part["type"] == "image"]


def can_think(tokenizer):
    """Whether its template has a switch that lets the model think first."""
    on, off = (render(tokenizer, [QUESTION], enable_thinking=x) for x in (True, False))
    return on != off


def switches_of(tokenizer, thinking, tools, vision=None):
    """What to pass to `render` for thinking, tools and vision; None: nothing.

    Raises:
      ValueError: the template writes the same with and without it, or a generation
        prompt.
    """
    check_generation_prompt(tokenizer, str(tokenizer.chat_template))
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


@functools.lru_cache(maxsize=32)
def drops_thoughts(tokenizer, template, role="user"):
    """Whether a thought, or a prompt's empty one, is gone once the next turn is read.

    Then the next prompt does not go on from what was sampled.

    Args:
      template: the tokenizer's. Each is tried once.
      role: of the turn after the answer, "user" or "tool".
    """
    prompt, reply = render(tokenizer, [QUESTION]), {"role": role, "content": MARKER}
    calls = {"tool_calls": [_call_of(reply, {})]} if role == "tool" else {}
    answers = [{"content": "", "reasoning_content": UNKNOWN}]
    # Where control tokens mark a thought, it cannot stand in a content.
    if "<channel|>" not in tokenizer.get_added_vocab():
        answers.append({"content": f"<think>\n{UNKNOWN}\n</think>\n\n"})
    for answer in answers:
        messages = [QUESTION, {"role": "assistant", **answer, **calls}, reply]
        text = render(tokenizer, messages)
        if UNKNOWN in text and text.startswith(prompt):
            return False
    return True


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
    """Raises where an answer right behind its prompt would lack a header.

    It may follow an empty thought, or stand in the place of one.
    """
    switches = switches_of(tokenizer, thinking, tools)
    messages = [QUESTION, {"role": "assistant", "content": MARKER}]
    whole = render(tokenizer, messages, False, **switches)
    _, text, _ = answer_place(tokenizer, messages, 1, whole, switches, True)
    header = text.partition(MARKER)[0]
    if header.replace("<think>\n\n</think>", "").strip():
        raise ValueError(
            f"The template writes {header!r} before an answer, and a prompt ends "
            "without it. Learn whole conversations, by conversation_tokens."
        )


@functools.lru_cache(maxsize=32)
def check_generation_prompt(tokenizer, template):
    """Raises where the template takes no notice of `add_generation_prompt`.

    The model would have to write the header of its answer, or would read one too many.
    Templates without such a header, like Mistral's, need none.

    Args:
      template: the tokenizer's. Each is checked once.
    """
    prompt = render(tokenizer, [QUESTION])
    if prompt != render(tokenizer, [QUESTION], False):
        return
    turns = [QUESTION, {"role": "assistant", "content": MARKER}, QUESTION]
    answered = render(tokenizer, turns[:2], False)
    begin = answered.partition(MARKER)[0]
    is_prefix = render(tokenizer, turns, False).startswith(answered)
    if begin.strip() != prompt.strip() or not is_prefix:
        raise ValueError(
            "This chat template ignores add_generation_prompt. Let its prompts end in "
            f"what answers begin behind, {begin[-40:]!r}, by a last line like "
            "{% if add_generation_prompt %}{{ … }}{% endif %} in chat_template.jinja."
        )


def check_nothing_is_left_out(tokenizer, messages, learned, switches):
    """Raises where a part of a message does not change what the template writes.

    The template may drop the thinking of earlier answers that are not learned.
    """

    whole = render(tokenizer, messages, False, **switches)

    def render_with(index, change):
        changed = [*messages[:index], messages[index] | change, *messages[index + 1 :]]
        try:
            return render(tokenizer, changed, False, **switches)
        except TemplateError:  # e.g. a result whose call is gone
            return None

    for index, message in enumerate(messages):
        parts = ["content", "tool_calls", "reasoning_content"]
        if message["role"] == "assistant" and index not in learned:
            parts = ["tool_calls"]
        changes = [(p, {p: ""}) for p in parts if str(message.get(p) or "").strip()]
        thought, _, rest = str(message["content"]).rpartition("</think>")
        if index in learned and thought.replace("<think>", "").strip():
            changes.append(("thought in the content", {"content": rest}))
        for part, change in changes:
            if render_with(index, change) == whole:
                raise ValueError(
                    f"The template leaves out the {part} of message {index} (role "
                    f"{message['role']!r}). Write it into a content that the template "
                    "has, or take a model whose template knows it."
                )
        written = message["role"] == "tool" and render_with(index, {"role": UNKNOWN})
        if written and written.replace(UNKNOWN, "tool") == whole:
            raise ValueError(
                f"The template knows no tools: it makes the role of message {index} a "
                "header like any other. Write the result into a turn of the user's."
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
