"""Text to tokens and back: the tokenizer, the chat template, and who said what.

A chat model reads one flat row of tokens. The *chat template* turns a conversation
into that row, the *tokenizer* cuts it into ids, and the *loss mask* remembers which
ids the model has to learn to write. All of them are read from the model's folder, so
the same calls serve the tiny model of this course and real Gemma, Qwen and Llama.

The mask of a whole conversation is derived from the template itself: an answer is what
the template writes after the prompt for it (the messages before, rendered with the
generation prompt), up to the control token that ends the turn.

What this file does not do: read tool calls out of an answer
  (`helpers.tools.calls`).
"""

import copy

from helpers.text import chat_defused
from helpers.text import chat_encoding as encoding
from helpers.text import chat_rendered as rendered
from helpers.text.chat_messages import require_messages
from helpers.text.decoding import decode
from helpers.text.tokenizer import train_tokenizer
from helpers.text.tokenizer_files import load_tokenizer, save_tokenizer

__all__ = [
    "conversation_tokens",
    "decode",
    "eos_ids",
    "example_tokens",
    "examples_tokens",
    "load_tokenizer",
    "prompt_tokens",
    "prompts_tokens",
    "save_tokenizer",
    "train_tokenizer",
    "turn_tokens",
    "without_thinking",
]

# What ends a text in the families whose turns end with the other token: a tokenizer's
# eos_token is only one of the two.
TEXT_END = {
    "<end_of_turn>": "<eos>",
    "<|im_end|>": "<|endoftext|>",
    "<|eot_id|>": "<|end_of_text|>",
    "<turn|>": "<eos>",
}


def without_thinking(tokenizer):
    """The tokenizer with a template that never lets the model think first.

    What is trained, sampled and graded with it all begin in the empty think block, and
    so does what is saved with it and served elsewhere.

    Args:
      tokenizer: from `load_tokenizer`; stays as it is.
    Returns:
      a copy of it; the same one where its template has no such switch.
    """
    if not encoding.can_think(tokenizer):
        return tokenizer
    settled = copy.deepcopy(tokenizer)
    settled.chat_template = "{%- set enable_thinking = false -%}\n" + (
        tokenizer.chat_template
    )
    return settled


def prompt_tokens(tokenizer, question, thinking=None, tools=None, vision=None):
    """Encode what the model reads before it answers.

    Equal to `apply_chat_template(..., add_generation_prompt=True)`, except that a
    control token *spelled out* in a message stays plain text: a user who types
    `<end_of_turn>` does not end the turn. So do tags that the template writes, like
    Qwen's `<tool_response>`, except in an earlier answer of the model's own.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
      thinking: True or False asks the template to let the model think or not; with
        False, Qwen3's prompt ends in an empty think block. None: its own habit.
      tools: list of JSON schemas of functions; None: none.
      vision: the model's `config.vision`; a content may then be a list of parts,
        {"type": "image"} (the picture itself goes beside the tokens) and
        {"type": "text", "text": ...}. For Gemma 4 an image says the picture's "shape",
        [height, width] in pixels, see `batches.images.shaped`.
    Returns:
      list of token ids, ending where the answer begins.
    Raises:
      ValueError: the template takes no notice of `thinking`, `tools` or images.
    """
    return prompts_tokens(tokenizer, [question], thinking, tools, vision)[0]


def prompts_tokens(tokenizer, questions, thinking=None, tools=None, vision=None):
    """Encode many prompts at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
      thinking, tools, vision: of all of them, see `prompt_tokens`.
    Returns:
      list of lists of token ids, see `prompt_tokens`.
    """
    controls = chat_defused.controls_of(tokenizer)
    switches = encoding.switches_of(tokenizer, thinking, tools, vision)
    texts, defused = [], {}
    for index, messages in enumerate(map(_messages, questions)):
        messages, safe, spelled = chat_defused.defused(controls, messages, switches)
        text = encoding.render(tokenizer, messages, **safe)
        if spelled:
            (defused[index],) = encoding.encode(tokenizer, [text], spelled)
        else:
            texts.append(text)
    usual = iter(encoding.encode(tokenizer, texts))
    return [defused.get(i) or next(usual) for i in range(len(questions))]


def example_tokens(tokenizer, question, answer, thinking=None, tools=None, vision=None):
    """Encode one demonstration and mark what the model has to learn.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
      answer: str; white space around it is dropped, as Gemma's template does.
      thinking, tools, vision: see `prompt_tokens`; they change the prompt only.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on the
      answer and the end-of-turn token that closes it, 0 on everything else.
    """
    switches = thinking, tools, vision
    return examples_tokens(tokenizer, [question], [answer], *switches)[0]


def examples_tokens(
    tokenizer, questions, answers, thinking=None, tools=None, vision=None
):
    """Encode many demonstrations at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
      answers: list of str, one per question.
      thinking, tools: of all of them, see `prompt_tokens`.
    Returns:
      list of (tokens, loss_mask), see `example_tokens`.
    Raises:
      ValueError: not as many answers as questions; or the prompt leaves a think block
        open, in which an answer would stand.
    """
    if len(questions) != len(answers):
        raise ValueError(
            f"{len(questions)} questions but {len(answers)} answers: pass one answer "
            "per question."
        )
    if not questions:
        return []
    rendered.check_answers_follow_prompts(tokenizer, thinking, tools)
    prompts = prompts_tokens(tokenizer, questions, thinking, tools, vision)
    rendered.check_no_thought_is_open(tokenizer, prompts)
    end, after = encoding.turn_end(tokenizer)
    answers = encoding.plain(tokenizer, [answer.strip() for answer in answers])
    examples = []
    for prompt, own in zip(prompts, answers, strict=True):
        mask = [0] * len(prompt) + [1] * (len(own + end)) + [0] * len(after)
        examples.append((prompt + own + end + after, mask))
    return examples


def conversation_tokens(
    tokenizer, messages, thinking=None, tools=None, *, vision=None, last_only=False
):
    """Encode a conversation and mark all that the assistant wrote in it.

    Every answer begins where `prompt_tokens` of the messages before it ends. Hence the
    empty think block that Qwen3's template puts before the last answer is the prompt's
    (0) with thinking=False, and the model's own (1) otherwise; the empty thought that
    Gemma 4's larger models read is the prompt's.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      messages: list of {"role", "content"}; an assistant's may have "tool_calls" and
        "reasoning_content". White space around a learned content is dropped.
      thinking, tools, vision: see `prompt_tokens`.
      last_only: learn the last answer only; earlier ones are part of its prompt.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on each answer
      (its content, tool calls and the token that ends it), 0 on everything else, tool
      results included.
    Raises:
      ValueError: nobody answers; the template leaves out a part of an answer, or
        writes an answer differently once the conversation goes on.
    """
    require_messages(messages)
    answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if not answers or answers[0] == 0:
        raise ValueError(
            "The conversation has no message of role 'assistant', or begins with one: "
            "there is no answer to a prompt in it. Put a question before an answer."
        )
    learned = answers[-1:] if last_only else answers
    messages = [_trimmed(m) if i in learned else m for i, m in enumerate(messages)]
    switches = encoding.switches_of(tokenizer, thinking, tools, vision)
    controls = chat_defused.controls_of(tokenizer)
    messages, switches, spelled = chat_defused.defused(controls, messages, switches)
    whole = encoding.render(tokenizer, messages, False, **switches)
    turn_end = encoding.turn_end(tokenizer)[0][-1]
    call_end = encoding.call_end(tokenizer) or turn_end
    starts, ends = [], []
    for index in learned:
        start, own, thought = rendered.answer(
            tokenizer, messages, index, whole, switches, index != learned[-1]
        )
        calls = messages[index].get("tool_calls")
        end = call_end if calls else turn_end
        if calls and messages[index].get("content") and call_end != turn_end:
            raise ValueError(
                f"Message {index} has words beside its call. This family's model opens "
                "the result right after a call: leave the words out."
            )
        rendered.check_it_ends_once(own, index, tokenizer.convert_ids_to_tokens(end))
        starts.append(start)
        ends.append(end)
    rendered.check_nothing_is_left_out(tokenizer, messages, learned, whole, switches)
    pieces = [whole[a:b] for a, b in zip([0, *starts], [*starts, None], strict=True)]
    pieces[-2] += thought  # of the last answer; no other may have one
    first, *others = encoding.encode(tokenizer, pieces, spelled)
    tokens, mask = list(first), [0] * len(first)
    for ids, end in zip(others, ends, strict=True):
        own = ids.index(end) + 1
        tokens += ids
        mask += [1] * own + [0] * (len(ids) - own)
    return tokens, mask


def turn_tokens(tokenizer, messages, thinking=None, tools=None, ended=None):
    """Encode the turns between two answers, such as the results of tools.

    The ids of prompt, answer and its end-of-turn token, as they were sampled, go on
    with these: nothing that the model wrote is decoded and encoded again.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      messages: list of messages, none of them the assistant's; see
        `helpers.tools.calls.Grammar.results`.
      thinking, tools: as in the prompt, see `prompt_tokens`.
      ended: id of the token that ended the answer; None: the one that the template
        writes there. Where results stand in the model's own turn (Gemma 4) and it has
        closed that turn, they are a turn of the user's.
    Returns:
      list of token ids: what follows the token that ended the answer, up to where the
      next answer begins.
    Raises:
      ValueError: the template leaves out a message.
    """
    switches = encoding.switches_of(tokenizer, thinking, tools)
    require_messages(messages)
    told, end = rendered.after_answer(tokenizer, messages, ended, _MARKER)
    answered = [*encoding.probe(), *told]
    controls = chat_defused.controls_of(tokenizer)
    answered, switches, spelled = chat_defused.defused(controls, answered, switches)
    whole = encoding.render(tokenizer, answered, False, **switches)
    rendered.check_nothing_is_left_out(tokenizer, answered, [], whole, switches)
    text = encoding.render(tokenizer, answered, **switches).partition(_MARKER)[2]
    (ids,) = encoding.encode(tokenizer, [text], spelled)
    return ids[ids.index(end) + 1 :]


def eos_ids(tokenizer):
    """Return the ids that end an answer: end-of-turn first, end-of-text, end of a call.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
    Returns:
      tuple of int without repeats.
    """
    end = encoding.turn_end(tokenizer)[0][-1]
    turn_end, added = tokenizer.convert_ids_to_tokens(end), tokenizer.get_added_vocab()
    of_family = [
        added.get(ends.get(turn_end)) for ends in (TEXT_END, encoding.CALL_END)
    ]
    ids = [end, tokenizer.eos_token_id, *of_family, encoding.call_end(tokenizer)]
    return tuple(dict.fromkeys(i for i in ids if i is not None))


def _messages(question):
    if isinstance(question, str):
        return [{"role": "user", "content": question}]
    return require_messages(question)


_MARKER = "\ue000"  # a private character: no template and no tool's schema has it


def _trimmed(message):
    content = message.get("content")
    return {**message, "content": content.strip()} if content else message
