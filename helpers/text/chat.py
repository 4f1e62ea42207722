"""Text to tokens and back: the tokenizer, the chat template, and who said what.

A chat model reads one flat row of tokens. The *chat template* turns a conversation
into that row, the *tokenizer* cuts it into ids, and the *loss mask* remembers which
ids the model has to learn to write. All of them are read from the model's folder, so
the same calls serve the tiny model of this course and real Gemma, Qwen and Llama.

What this file does not do: read tool calls out of an answer
  (`helpers.tools.tool_calls`).
"""

import numpy as np

from helpers.text import chat_encoding as encoding
from helpers.text.conversations import conversation_tokens, turn_tokens
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
]

# What ends a text in the families whose turns end with the other token: a tokenizer's
# eos_token is only one of the two.
TEXT_END = {
    "<end_of_turn>": "<eos>",
    "<|im_end|>": "<|endoftext|>",
    "<|eot_id|>": "<|end_of_text|>",
}


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
        {"type": "text", "text": ...}.
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
    controls = encoding.controls_of(tokenizer)
    switches = encoding.switches_of(tokenizer, thinking, tools, vision)
    texts, defused = [], {}
    for index, messages in enumerate(map(_messages, questions)):
        messages, safe, spelled = encoding.defused(controls, messages, switches)
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
      ValueError: not as many answers as questions.
    """
    if len(questions) != len(answers):
        raise ValueError(
            f"{len(questions)} questions but {len(answers)} answers: pass one answer "
            "per question."
        )
    if not questions:
        return []
    prompts = prompts_tokens(tokenizer, questions, thinking, tools, vision)
    end, after = encoding.turn_end(tokenizer)
    answers = encoding.plain(tokenizer, [answer.strip() for answer in answers])
    examples = []
    for prompt, own in zip(prompts, answers, strict=True):
        mask = [0] * len(prompt) + [1] * (len(own + end)) + [0] * len(after)
        examples.append((prompt + own + end + after, mask))
    return examples


def eos_ids(tokenizer):
    """Return the ids that end an answer: end-of-turn first, then end-of-text.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
    Returns:
      tuple of int without repeats.
    """
    end = encoding.turn_end(tokenizer)[0][-1]
    of_family = TEXT_END.get(tokenizer.convert_ids_to_tokens(end))
    text_end = tokenizer.get_added_vocab().get(of_family)
    ids = [end, tokenizer.eos_token_id, text_end]
    return tuple(dict.fromkeys(i for i in ids if i is not None))


def decode(tokenizer, ids):
    """Decode token ids to text, leaving out the special tokens.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      ids: list of int or integer array of one axis.
    Returns:
      str; bytes that are no UTF-8 show as the replacement character.
    """
    return tokenizer.decode(
        np.asarray(ids, np.int64).tolist(),
        skip_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )


def _messages(question):
    if isinstance(question, str):
        return [{"role": "user", "content": question}]
    return question
