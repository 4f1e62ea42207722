"""Text to tokens and back: the tokenizer, the chat template, and who said what.

A chat model reads one flat row of tokens. The *chat template* turns a conversation
into that row, the *tokenizer* cuts it into ids, and the *loss mask* remembers which
ids the model has to learn to write. All three live here, and all of them are read
from the model's folder, so the same calls serve the tiny model of this course and
real Gemma, Qwen or Llama folders.

What this file does not do: tool calls (they come with the food lessons) and
thinking blocks (a Qwen3 prompt is left open for the model to think or not).
"""

import json
import re
from pathlib import Path

import numpy as np

from helpers.tokenizer import tokenizer_class, train_tokenizer

__all__ = [
    "decode",
    "eos_ids",
    "example_tokens",
    "examples_tokens",
    "load_tokenizer",
    "prompt_tokens",
    "prompts_tokens",
    "save_tokenizer",
    "train_tokenizer",
]


def load_tokenizer(folder):
    """Load the tokenizer of a model folder, this course's or a real model's.

    Args:
      folder: path with tokenizer.json, tokenizer_config.json and a chat template.
    Returns:
      A transformers.PreTrainedTokenizerFast.
    Raises:
      FileNotFoundError: no such folder, or no tokenizer.json in it.
      ValueError: a file of the tokenizer cannot be read, which one is said; or it has
        no chat template.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Give the folder of a saved model; "
            "`make tiny` makes the course's own under data/tiny."
        )
    if not (folder / "tokenizer.json").is_file():
        raise FileNotFoundError(
            f"{folder} has no tokenizer.json. Download the whole model folder, or "
            "save one there with tokenizer.save_pretrained(folder)."
        )
    try:
        tokenizer = tokenizer_class().from_pretrained(folder, local_files_only=True)
    except Exception as error:  # tokenizers has no class of its own for its errors
        name, reason = _damaged(folder) or ("tokenizer.json", repr(error))
        raise ValueError(
            f"{folder / name} cannot be read ({reason}). Cut off while it was written? "
            "Delete it, and fetch or make the model folder again."
        ) from error
    if not tokenizer.chat_template:
        raise ValueError(
            f"The tokenizer in {folder} has no chat template (base models often have "
            "none). Use the instruct model's folder, or set tokenizer.chat_template "
            "= helpers.tokenizer.CHAT_TEMPLATE and save it."
        )
    return tokenizer


def save_tokenizer(tokenizer, folder):
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      folder: path, made if missing. transformers 4 and 5, vLLM and others read it.
    Raises:
      OSError: a file cannot be written.
    """
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:  # tokenizers says "(os error 28)", in a bare Exception
        found = re.search(r"\(os error (\d+)\)$", str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), str(error), str(folder)) from error
    path = Path(folder) / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    # transformers 5 writes its own new name of this class, which 4 does not know.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def prompt_tokens(tokenizer, question):
    """Encode what the model reads before it answers.

    Equal to `apply_chat_template(..., add_generation_prompt=True)`, except that a
    control token *spelled out* in a message stays plain text: a user who types
    `<end_of_turn>` does not end the turn.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
    Returns:
      list of token ids, ending where the answer begins.
    """
    return prompts_tokens(tokenizer, [question])[0]


def prompts_tokens(tokenizer, questions):
    """Encode many prompts at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
    Returns:
      list of lists of token ids, see `prompt_tokens`.
    """
    control = _control_pattern(tokenizer)
    texts, defused = [], {}
    for index, messages in enumerate(map(_messages, questions)):
        if any(control.search(message["content"]) for message in messages):
            defused[index] = _defused(tokenizer, messages, control)
        else:
            texts.append(_render(tokenizer, messages))
    usual = iter(_controls(tokenizer, texts))
    return [defused.get(i) or next(usual) for i in range(len(questions))]


def example_tokens(tokenizer, question, answer):
    """Encode one demonstration and mark what the model has to learn.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      question: str, or a list of {"role", "content"} messages.
      answer: str; white space around it is dropped, as Gemma's template does.
    Returns:
      (tokens, loss_mask): two lists of int of one length. The mask is 1 on the
      answer and the end-of-turn token that closes it, 0 on everything else.
    """
    return examples_tokens(tokenizer, [question], [answer])[0]


def examples_tokens(tokenizer, questions, answers):
    """Encode many demonstrations at once; the same result as one by one, faster.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      questions: list of str or of message lists.
      answers: list of str, one per question.
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
    prompts = prompts_tokens(tokenizer, questions)
    end, after = _turn_end(tokenizer)
    examples = []
    for prompt, own in zip(
        prompts, _plain(tokenizer, [a.strip() for a in answers]), strict=True
    ):
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
    ids = [_turn_end(tokenizer)[0][-1], tokenizer.eos_token_id]
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


def _damaged(folder):
    """The name of a tokenizer file that cannot be parsed, and why; None: all can."""
    for path in sorted(folder.glob("*token*.json")) + sorted(folder.glob("*.jinja")):
        try:
            text = path.read_text("utf-8")
            if path.suffix == ".json" and not isinstance(json.loads(text), dict):
                return path.name, "it holds no JSON object"
        except ValueError as error:
            return path.name, error
    return None


def _messages(question):
    if isinstance(question, str):
        return [{"role": "user", "content": question}]
    return question


def _render(tokenizer, messages, add_generation_prompt=True):
    return tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=add_generation_prompt
    )


def _defused(tokenizer, messages, control):
    """Encode a prompt whose messages spell out control tokens, as plain text.

    Each spelled-out token is replaced by a stand-in before the template is applied;
    the rendered text is cut there, and the cut pieces are encoded on their own.
    """
    everything = "".join(message["content"] for message in messages)
    private_use = map(chr, range(0xE000, 0xF900))
    stand_in = next(c for c in private_use if c not in everything)
    spelled = control.findall(everything)
    safe = [{**m, "content": control.sub(stand_in, m["content"])} for m in messages]
    first, *others = _controls(tokenizer, _render(tokenizer, safe).split(stand_in))
    ids = list(first)
    for text, other in zip(_plain(tokenizer, spelled), others, strict=True):
        ids += text + other
    return ids


def _controls(tokenizer, texts):
    """Encode template text, in which `<end_of_turn>` is one control token."""
    if not texts:
        return []
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def _plain(tokenizer, texts):
    """Encode what somebody wrote, in which `<end_of_turn>` is only characters."""
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
    return encoded["input_ids"]


def _control_pattern(tokenizer):
    """Return the pattern that finds the tokenizer's control tokens in a text."""
    added = tokenizer.added_tokens_decoder.values()
    control = sorted((t.content for t in added if t.special), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, control)) or r"(?!)")


def _turn_end(tokenizer):
    """Return the ids that the template writes after an answer, in two lists.

    The first ends with the control token that ends the turn, and is learned; the
    second is what follows it, the model never writes it.
    """
    marker = "ANSWER"
    messages = [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": marker},
    ]
    closing = _render(tokenizer, messages, False).rpartition(marker)[2]
    (ids,) = _controls(tokenizer, [closing])
    added = tokenizer.added_tokens_decoder
    for count, token in enumerate(ids, start=1):
        if token in added and added[token].special:
            return ids[:count], ids[count:]
    raise ValueError(
        f"The chat template writes {closing!r} after an answer, in which there is no "
        "control token: a model trained on it could not stop. Use an instruct "
        "model's template."
    )
