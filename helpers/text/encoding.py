"""Rendered text to token ids and back; only the template writes control tokens.

`<end_of_turn>` is one control token where the template writes it, and only characters
where a message spells it out: a user, or a tool's result, must not end a turn. After
rendering nobody can tell the two apart. So `escape` replaces what messages spell out
by stand-in characters before the template is applied, and `encode` puts it back as
plain text, the way `split_special_tokens` encodes it.
"""

import itertools
import json
import re
import threading
from collections import defaultdict
from typing import NamedTuple

import numpy as np

# Whether special tokens count is a setting of the tokenizer itself, which every call
# changes, so threads take turns.
_LOCK = threading.Lock()
# What families and people's prompts put around a thought. Gemma 4's are special tokens,
# but without them nobody could tell the thought from the answer, so they stay.
_NAMES = ("think", "thinking", "thought", "reasoning")
THOUGHT_MARKS = [(f"<{name}>", f"</{name}>") for name in _NAMES]
THOUGHT_MARKS += [("<|channel>", "<channel|>"), ("[THINK]", "[/THINK]")]
THOUGHT_MARKS += [("<start_working_out>", "<end_working_out>")]  # in Unsloth's GRPO
THOUGHT_MARKS += [("<seed:think>", "</seed:think>")]
THOUGHT_MARKS += [("<|START_THINKING|>", "<|END_THINKING|>")]
_BEGINS = "|".join(re.escape(begin) for begin, _ in THOUGHT_MARKS)
# At the end of a prompt. What a user spells out stands before the header of the answer,
# which has a control token in it.
OPENED = re.compile(rf"(?:{_BEGINS})[^<\[]*\Z")


class Controls(NamedTuple):
    """Patterns that find control tokens: `special` ones, and those and tags in `every`.

    A tag is an added token like `<tool_response>` that is not special and that the
    template writes. The model may write tags into its answers, and nobody else may.
    """

    special: re.Pattern
    every: re.Pattern


def controls_of(tokenizer) -> Controls:
    """The control tokens of a tokenizer and its template."""
    added = tokenizer.added_tokens_decoder.values()
    template = str(tokenizer.chat_template)
    special = {t.content for t in added if t.special}
    tags = {t.content for t in added if t.content[:1] == "<" and t.content in template}
    return Controls(_any_of(special), _any_of(special | tags))


def _any_of(tokens):
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def escape(controls, conversations, switches):
    """Replaces the control tokens that messages and tools spell out by stand-ins.

    Args:
      controls: from `controls_of`.
      conversations: lists of messages.
      switches: from `rendering.switches_of`.
    Returns:
      (conversations, switches, escaped): the safe ones, and a dict from each stand-in,
      one character that occurs nowhere in them, to the text it stands for.
    """
    everything = json.dumps([conversations, switches], ensure_ascii=False, default=str)
    private_use = map(chr, range(0xF0000, 0xFFFFE))
    unused = (character for character in private_use if character not in everything)
    stand_ins: dict[str, str] = defaultdict(lambda: next(unused))

    def stand_in(match):
        return stand_ins[match[0]]

    def safe(message):
        answer = message["role"] == "assistant"
        pattern = controls.special if answer else controls.every
        content = _substitute(message.get("content"), pattern, stand_in)
        message = _substitute(message, controls.every, stand_in)
        return message | {"content": content} if "content" in message else message

    conversations = [[safe(message) for message in each] for each in conversations]
    switches = _substitute(switches, controls.every, stand_in)
    return conversations, switches, {c: text for text, c in stand_ins.items()}


def _substitute(value, pattern, stand_in):
    """Replaces what the pattern finds in all strings of a JSON value."""
    if isinstance(value, str):
        return pattern.sub(stand_in, value)
    if isinstance(value, list | tuple):
        return [_substitute(item, pattern, stand_in) for item in value]
    if isinstance(value, dict):
        return {
            _substitute(key, pattern, stand_in): _substitute(item, pattern, stand_in)
            for key, item in value.items()
        }
    return value


def encode(tokenizer, texts, escaped=None):
    """Encodes rendered text, in which `<end_of_turn>` is one control token.

    Args:
      tokenizer: whose control tokens count.
      texts: list of str.
      escaped: what the stand-ins in them stand for, from `escape`.
    Returns:
      list of lists of token ids.
    """
    if not texts:
        return []
    if not escaped:
        with _LOCK:
            return tokenizer(texts, add_special_tokens=False)["input_ids"]
    as_text = {c: _control_as_text(tokenizer, text) for c, text in escaped.items()}
    cut = re.compile(f"([{''.join(as_text)}])")
    pieces = [cut.split(text) for text in texts]
    ids = iter(encode(tokenizer, [piece for row in pieces for piece in row[::2]]))
    rows = []
    for row in pieces:
        rows.append(list(next(ids)))
        for character in row[1::2]:
            rows[-1] += as_text[character] + next(ids)
    return rows


def encode_plain(tokenizer, texts):
    """Encodes what somebody wrote, in which `<end_of_turn>` is only characters."""
    if not texts:
        return []
    with _LOCK:
        encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
    return encoded["input_ids"]


def _control_as_text(tokenizer, text):
    """The ids of a spelled-out control token; a tag is only split when cut in two."""
    (ids,) = encode_plain(tokenizer, [text])
    if len(ids) > 1:
        return ids
    return sum(encode_plain(tokenizer, [text[:1], text[1:]]), [])


def decode(tokenizer, ids):
    """Decodes token ids to text, leaving out the special tokens.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      ids: list of int or integer array of one axis.
    Returns:
      str; bytes that are no UTF-8 show as the replacement character. What begins and
      ends a thought stays in it.
    """
    added = tokenizer.added_tokens_decoder.items()
    known = set(itertools.chain(*THOUGHT_MARKS))
    marks = {i: t.content for i, t in added if t.special and t.content in known}
    ids = np.asarray(ids, np.int64).tolist()
    pieces = []
    for mark, group in itertools.groupby(ids, lambda i: marks.get(i, "")):
        run = list(group)
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        text = mark * len(run) if mark else tokenizer.decode(run, **options)
        pieces.append(text)
    return "".join(pieces)


def opened_thoughts(tokenizer, prompts):
    """The thoughts that prompts open for their answers, such as "<think>\\n".

    DeepSeek's distilled models and Qwen3's of 2507 have such templates. Their answers
    begin inside of the thought, and only what opened it says that they do.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      prompts: lists of token ids, or integer arrays of one axis, without padding.
    Returns:
      list of str, one per prompt: what to put before its answers' text; "" for none.
    """
    ends = [np.asarray(prompt, np.int64)[-32:].tolist() for prompt in prompts]
    texts = tokenizer.batch_decode(ends, clean_up_tokenization_spaces=False)
    return [match[0] if (match := OPENED.search(text)) else "" for text in texts]


def continued(thought, answer):
    """The answer as it follows a prompt that opens its thought.

    Args:
      thought: what the prompt ends in, from `opened_thoughts`.
      answer: str, with or without the begin of the thought.
    Raises:
      ValueError: the answer does not end the thought.
    """
    end = next(end for begin, end in THOUGHT_MARKS if thought.startswith(begin))
    is_control = "|" in end or end[0] == "["  # here it would be text
    if end not in answer or is_control:
        raise ValueError(
            f"A prompt ends in {thought!r}: put behind it, {answer[:40]!r} would be "
            "learned as the model's thoughts. Let answers end a thought by </think>, "
            "or pass thinking=None or False, if the template knows it."
        )
    return answer.removeprefix(thought.rstrip()).lstrip()
