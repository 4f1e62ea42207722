"""Whole conversations to tokens, and which of them the model has to learn to write.

The mask is derived from the template itself, whatever it is: an answer is what the
template writes after the prompt for it (the messages before, rendered with the
generation prompt), up to the control token that ends the turn.
"""

from helpers.text import chat_encoding as encoding


def conversation_tokens(
    tokenizer, messages, thinking=None, tools=None, *, vision=None, last_only=False
):
    """Encode a conversation and mark all that the assistant wrote in it.

    Every answer begins where `prompt_tokens` of the messages before it ends. Hence the
    empty think block that Qwen3's template puts before the last answer is the prompt's
    (0) with thinking=False, and the model's own (1) otherwise.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      messages: list of {"role", "content"}; an assistant's may have "tool_calls" and
        "reasoning_content". White space around a learned content is dropped.
      thinking, tools, vision: see `helpers.text.chat.prompt_tokens`.
      last_only: learn the last answer only; earlier ones are part of its prompt.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on each answer
      (its content, tool calls and end-of-turn token), 0 on everything else, tool
      results included.
    Raises:
      ValueError: nobody answers; the template leaves out a part of an answer, or
        writes an answer differently once the conversation goes on.
    """
    answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if not answers or answers[0] == 0:
        raise ValueError(
            "The conversation has no message of role 'assistant', or begins with one: "
            "there is no answer to a prompt in it. Put a question before an answer."
        )
    learned = answers[-1:] if last_only else answers
    messages = [_trimmed(m) if i in learned else m for i, m in enumerate(messages)]
    switches = encoding.switches_of(tokenizer, thinking, tools, vision)
    controls = encoding.controls_of(tokenizer)
    messages, switches, spelled = encoding.defused(controls, messages, switches)
    whole = encoding.render(tokenizer, messages, False, **switches)
    end = encoding.turn_end(tokenizer)[0][-1]
    starts = []
    for index in learned:
        start, own = _answer(tokenizer, messages, index, whole, switches)
        _check_it_ends_once(own, index, tokenizer.convert_ids_to_tokens(end))
        starts.append(start)
    _check_nothing_is_left_out(tokenizer, messages, learned, whole, switches)
    pieces = [whole[a:b] for a, b in zip([0, *starts], [*starts, None], strict=True)]
    first, *others = encoding.encode(tokenizer, pieces, spelled)
    tokens, mask = list(first), [0] * len(first)
    for ids in others:
        own = ids.index(end) + 1
        tokens += ids
        mask += [1] * own + [0] * (len(ids) - own)
    return tokens, mask


def turn_tokens(tokenizer, messages, thinking=None, tools=None):
    """Encode the turns between two answers, such as the results of tools.

    The ids of prompt, answer and its end-of-turn token, as they were sampled, go on
    with these: nothing that the model wrote is decoded and encoded again.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      messages: list of messages, none of them the assistant's; see
        `helpers.tools.tool_calls.Grammar.results`.
      thinking, tools: as in the prompt, see `helpers.text.chat.prompt_tokens`.
    Returns:
      list of token ids: what follows an answer's end-of-turn token, up to where the
      next answer begins.
    Raises:
      ValueError: the template leaves out a message.
    """
    switches = encoding.switches_of(tokenizer, thinking, tools)
    answered = [*encoding.PROBE, {"role": "assistant", "content": _MARKER}, *messages]
    controls = encoding.controls_of(tokenizer)
    answered, switches, spelled = encoding.defused(controls, answered, switches)
    whole = encoding.render(tokenizer, answered, False, **switches)
    _check_nothing_is_left_out(tokenizer, answered, [], whole, switches)
    text = encoding.render(tokenizer, answered, **switches).partition(_MARKER)[2]
    (ids,) = encoding.encode(tokenizer, [text], spelled)
    end = encoding.turn_end(tokenizer)[0][-1]
    return ids[ids.index(end) + 1 :]


_MARKER = "\ue000"  # a private character: no template and no tool's schema has it


def _trimmed(message):
    content = message.get("content")
    return {**message, "content": content.strip()} if content else message


def _answer(tokenizer, messages, index, whole, switches):
    """Where in the rendered `whole` the answer messages[index] begins, and its text."""
    before, up_to = (
        encoding.render(tokenizer, messages[:count], is_prompt, **switches)
        for count, is_prompt in ((index, True), (index + 1, False))
    )
    if not up_to.startswith(before):
        raise ValueError(
            f"The prompt for message {index} ends in {before[-40:]!r}, but the "
            "template begins that answer otherwise. An answer that holds thinking "
            "needs thinking=None or True."
        )
    if not whole.startswith(up_to):
        raise ValueError(
            f"The template writes message {index} differently once the conversation "
            "goes on (Qwen3 keeps a think block only in the last answer): the model "
            "would learn what it never has to write. Make one example per answer, "
            f"conversation_tokens(tokenizer, messages[:{index + 1}], ..., "
            "last_only=True)."
        )
    return len(before), up_to[len(before) :]


def _check_it_ends_once(own, index, end):
    if own.count(end) != 1:
        raise ValueError(
            f"The template writes message {index} as {own!r}, in which {end} is there "
            f"{own.count(end)} times, not once: where the answer ends is not clear. "
            "Take another template."
        )


def _check_nothing_is_left_out(tokenizer, messages, learned, whole, switches):
    """Raise where a part of a message does not change what the template writes.

    Of earlier answers that are not learned the template may drop the thinking.
    """
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index not in learned:
            continue
        for part in ("content", "reasoning_content", "tool_calls"):
            if not str(message.get(part) or "").strip():
                continue
            less = [*messages[:index], {**message, part: ""}, *messages[index + 1 :]]
            if encoding.render(tokenizer, less, False, **switches) == whole:
                raise ValueError(
                    f"The template leaves out the {part} of message {index} (role "
                    f"{message['role']!r}). Write it into a content that the template "
                    "has, or take a model whose template knows it."
                )
