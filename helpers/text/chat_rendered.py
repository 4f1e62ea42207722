"""What a chat template made of a conversation: where answers stand, what is missing.

Used by `helpers.text.chat`, which turns the text into tokens and masks.
"""

import re

from helpers.text import chat_encoding as encoding
from helpers.text.template_limits import unknown_word

# The end of a think block, whose begin is not in the same text.
THINK_ENDS = re.compile(r"^(?:(?!<think>).)*</think>", re.DOTALL)
# What Gemma 4's larger models have at the end of a prompt, and in no answer.
THOUGHT = "<|channel>thought\n"
NO_THOUGHT = THOUGHT + "<channel|>"


def answer(tokenizer, messages, index, whole, switches, goes_on):
    """Where in the rendered `whole` the answer messages[index] begins, and its text.

    Args:
      goes_on: whether a later answer is learned, too.
    Returns:
      (place in `whole`, text, an empty thought that only the answer's prompt ends in).
    """
    before, up_to = (
        encoding.render(tokenizer, messages[:count], is_prompt, **switches)
        for count, is_prompt in ((index, True), (index + 1, False))
    )
    begin = before if up_to.startswith(before) else before.removesuffix(NO_THOUGHT)
    own, thought = up_to.removeprefix(begin), before.removeprefix(begin)
    if not up_to.startswith(begin) or thought and own.startswith(THOUGHT):
        raise ValueError(
            f"The prompt for message {index} ends in {before[-40:]!r}, but the "
            "template begins that answer otherwise. An answer that holds thinking "
            "needs thinking=None or True, one that holds none thinking=None or False."
        )
    if goes_on and thought or not whole.startswith(up_to):
        raise ValueError(
            f"The template writes message {index} differently once the conversation "
            "goes on (Qwen3 keeps a think block only in the last answer, Gemma 4 an "
            "empty one only in its prompt): the model would learn what it never has "
            "to write. Make one example per answer, conversation_tokens(tokenizer, "
            f"messages[:{index + 1}], ..., last_only=True)."
        )
    return len(begin), own, thought


def check_answers_follow_prompts(tokenizer, thinking=None, tools=None):
    """Raise where an answer put right behind its prompt would stand in a think block.

    Templates of models that always think open it in the prompt (DeepSeek's distilled
    ones, Qwen3's of 2507), and write an answer without thinking after its end. Behind
    an empty thought an answer stands well.
    """
    switches = encoding.switches_of(tokenizer, thinking, tools)
    marker = unknown_word()
    asked = [*encoding.probe(), {"role": "assistant", "content": marker}]
    prompt = encoding.render(tokenizer, asked[:1], **switches)
    whole = encoding.render(tokenizer, asked, False, **switches)
    begin = prompt.removesuffix(NO_THOUGHT)
    between = whole.removeprefix(begin).partition(marker)[0]
    if not whole.startswith(begin) or THINK_ENDS.search(between):
        raise ValueError(
            f"The prompt ends in {prompt[-40:]!r}, and the template writes an answer "
            f"without thinking as {whole[-60:]!r}: put behind the prompt, it would be "
            "learned as the model's thoughts. Pass thinking=False if the template "
            "knows it, or take an instruct model that does not always think."
        )


def check_no_thought_is_open(tokenizer, prompts):
    """Raise where a prompt, token ids, ends in the begin of Gemma 4's thoughts.

    Newer templates write it behind a result where the model is to think.
    """
    (begin,) = encoding.encode(tokenizer, [THOUGHT])
    if any(prompt[-len(begin) :] == begin for prompt in prompts):
        raise ValueError(
            f"A prompt ends in {THOUGHT!r}: put behind it, an answer would be learned "
            "as the model's thoughts. Pass thinking=None or False."
        )


def check_it_ends_once(own, index, end):
    """Raise where an answer's text does not hold its end-of-turn token just once."""
    if own.count(end) != 1:
        raise ValueError(
            f"The template writes message {index} as {own!r}, in which {end} is there "
            f"{own.count(end)} times, not once: where the answer ends is not clear. "
            "Take another template."
        )


def check_nothing_is_left_out(tokenizer, messages, learned, whole, switches):
    """Raise where a part of a message does not change what the template writes.

    Of earlier answers that are not learned the template may drop the thinking.
    """
    from jinja2 import TemplateError  # what lacks it is told so when it renders

    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index not in learned:
            continue
        for part in ("content", "reasoning_content", "tool_calls"):
            if not str(message.get(part) or "").strip():
                continue
            less = [*messages[:index], {**message, part: ""}, *messages[index + 1 :]]
            try:
                changes = encoding.render(tokenizer, less, False, **switches) != whole
            except TemplateError:  # results of a call that is gone, say
                changes = True
            if not changes:
                raise ValueError(
                    f"The template leaves out the {part} of message {index} (role "
                    f"{message['role']!r}). Write it into a content that the template "
                    "has, or take a model whose template knows it."
                )


def after_answer(tokenizer, messages, ended, marker):
    """Messages as they follow an answer, and the id that ends it.

    Where results stand in the model's own turn, one that opened its result gets them
    there; one that closed its turn gets them in a turn of the user's.

    Args:
      ended: id of the token that the model wrote last; None: what the template writes.
      marker: str that is to stand in the answer.
    Returns:
      (the answer and the messages, the id that the template writes after the answer).
    """
    call_end = encoding.call_end(tokenizer)
    turn_end = encoding.turn_end(tokenizer)[0][-1]
    plain = {"role": "assistant", "content": marker}
    results = any(message["role"] == "tool" for message in messages)
    if call_end is None or not results and ended != call_end:
        return [plain, *messages], turn_end
    if ended not in (None, call_end):
        shown = "\n".join(message["content"] for message in messages)
        return [plain, {"role": "user", "content": shown}], turn_end
    told = [message for message in messages if message["role"] == "tool"]
    calls = [_call_of(message, {}) for message in told[:-1]]
    calls.append(_call_of(told[-1] if told else {}, {"argument": marker}))
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    return [called, *messages], call_end


def _call_of(message, arguments):
    """A call whose result the message is: the template may look its name up there."""
    function = {"name": message.get("name") or "unknown", "arguments": arguments}
    own = {"id": message["tool_call_id"]} if message.get("tool_call_id") else {}
    return own | {"type": "function", "function": function}
