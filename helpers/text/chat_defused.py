"""Control tokens that people spell out, which must stay text: stand-ins for them.

A template writes `<end_of_turn>` and means it. A message that holds these letters does
not, and after the template nobody can tell the two apart: so what messages and tools
spell out is replaced before, and `chat_encoding.encode` puts it back as plain text.
"""

import json
import re
from collections import defaultdict
from typing import NamedTuple


class Controls(NamedTuple):
    """Patterns that find control tokens: the special ones; those and the tags.

    A tag is an added token of the kind `<tool_response>`, not special, that the
    template writes. A model may write tags into its answers, and nobody else may.
    """

    special: re.Pattern
    every: re.Pattern


def controls_of(tokenizer):
    """Return the Controls of a tokenizer and its template."""
    added = tokenizer.added_tokens_decoder.values()
    template = str(tokenizer.chat_template)
    special = {t.content for t in added if t.special}
    tags = {t.content for t in added if t.content[:1] == "<" and t.content in template}
    return Controls(_any_of(special), _any_of(special | tags))


def _any_of(tokens):
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def defused(controls, messages, switches):
    """Put stand-ins for the control tokens that messages and tools spell out.

    Args:
      controls: from `controls_of`.
      messages: list of messages.
      switches: from `switches_of`.
    Returns:
      (messages, switches, spelled): the safe ones, and a dict from each stand-in, one
      character that occurs nowhere in them, to what it stands for.
    """
    everything = json.dumps([messages, switches], ensure_ascii=False, default=str)
    private_use = map(chr, range(0xF0000, 0xFFFFE))
    unused = (character for character in private_use if character not in everything)
    stand_ins: dict[str, str] = defaultdict(lambda: next(unused))

    def safe(value, pattern):
        return _replaced(value, pattern, lambda found: stand_ins[found[0]])

    safe_messages = []
    for message in messages:
        safe_messages.append(safe(message, controls.every))
        if "content" in message:
            own = message.get("role") == "assistant"
            pattern = controls.special if own else controls.every
            content = _apart(safe(message["content"], pattern), pattern, stand_ins)
            safe_messages[-1]["content"] = content
    safe_switches = safe(switches, controls.every)
    spelled = {character: text for text, character in stand_ins.items()}
    return safe_messages, safe_switches, spelled


def _replaced(value, pattern, stand_in):
    """Replace what the pattern finds in all strings of a JSON value."""
    if isinstance(value, str):
        return pattern.sub(stand_in, value)
    if isinstance(value, list | tuple):
        return [_replaced(item, pattern, stand_in) for item in value]
    if isinstance(value, dict):
        return {
            _replaced(key, pattern, stand_in): _replaced(item, pattern, stand_in)
            for key, item in value.items()
        }
    return value


def _apart(content, pattern, stand_ins):
    """A list of parts, none of which spells a control token with the next ones.

    A template writes the texts of parts one right after the other, as they are or
    without the white space around them; what is between them it may leave out.
    """
    if not isinstance(content, list | tuple):
        return content
    texts = {i: _text(p) for i, p in enumerate(content) if isinstance(_text(p), str)}
    for trimmed in (False, True):
        while True:
            shown = {i: x.strip() if trimmed else x for i, x in texts.items()}
            found = pattern.search("".join(shown.values()))
            if found is None:
                break
            index, begun = _begins(shown, found.start())
            before, _, after = texts[index].rpartition(begun)
            texts[index] = before + stand_ins[begun] + after
    apart = list(content)
    for index, text in texts.items():
        is_text = isinstance(content[index], str)
        apart[index] = text if is_text else {**content[index], "text": text}
    return apart


def _begins(shown, place):
    """Which of the joined texts holds a place, and what it says from there on."""
    for index, text in shown.items():
        if place < len(text):
            return index, text[place:]
        place -= len(text)
    raise AssertionError("the place is in none of them")


def _text(part):
    """What a part of a content says, if it says anything."""
    return part.get("text") if isinstance(part, dict) else part
