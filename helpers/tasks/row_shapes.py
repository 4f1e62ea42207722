"""Recognises the shape of a record, and makes a row of the course of it.

| shape | columns of the record |
|---|---|
| question and answer | `question`, `answer`; or names as in `NAMES` (GSM8K, MATH) |
| Alpaca | `instruction`, `input`, `output`; `system`, `history` |
| prompt and completion | `prompt`, `completion`: texts, or lists of messages |
| OpenAI | `messages` of `role` and `content`; `tools` |
| ShareGPT | `conversations` of `from` and `value`; `system`, `tools` |
| preferences | `chosen`, `rejected`, often a `prompt`: texts or messages |

A row has a "question", a text or the messages before the last answer, and an "answer",
a text. Where a conversation has more to learn than that text, it has "messages", too:
several answers, tool calls or reasoning, with the "tools" if there are any. A row of
preferences has "chosen" and "rejected" instead of the answer.
"""

import ast
import json
import numbers
import re
import unicodedata
from collections.abc import Mapping

from helpers.batches import preference_pairs
from helpers.batches.preference_pairs import SIDES
from helpers.text.messages import require_messages

NAMES = {  # ours: names that other data sets use, the likeliest first
    "question": ("prompt", "instruction", "problem", "query", "input", "user"),
    "answer": ("completion", "response", "solution", "output", "target")
    + ("assistant", "ground_truth", "final_answer"),
    "chosen": ("preferred_output",),
    "rejected": ("non_preferred_output",),
    "messages": ("conversations", "conversation", "dialog", "dialogue", "chat"),
    "system": ("system_prompt",),
    "tools": ("functions",),
}
CONTEXT = ("input", "context", "passage")  # joined to an instruction, as in Alpaca
CONTENT = ("content", "value", "tool_calls", "function_call")  # of a message
# Of every reward: no names for columns.
ARGUMENTS = ("self", "prompts", "completions", "completion_ids")
RESERVED = (*ARGUMENTS, "messages", "tools")
INDEX = ("__index_level_", "Unnamed: ")  # pandas' row labels, which are no column
UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")  # controls, joiners and blanks of Unicode


class Unusable(ValueError):
    """Why one row cannot be used, with the fix."""


def is_conversation(value) -> bool:
    """Whether a value is a message or a list of them, in any data set's form."""
    first = value[0] if isinstance(value, list) and value else value
    fields = first.keys() if isinstance(first, Mapping) else set()
    return bool({"role", "from"} & fields) and bool({*CONTENT} & fields)


def is_empty(value) -> bool:
    """Whether a cell is empty: null, NaN, or what pandas puts there."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Real) and bool(value != value)


def as_text(question) -> str:
    """The words of a question, which may be messages."""
    if isinstance(question, str):
        return question
    return "\n\n".join(str(message.get("content") or "") for message in question)


def row_of(record, columns) -> dict:
    """The row of one record, see the top of this file.

    Args:
      record: dict of any shape.
      columns: {our name: theirs}; {"answer": None} asks for no answer.
    Raises:
      Unusable: why there is none.
    """
    if isinstance(record, Unusable):
        raise record
    if isinstance(record, list) and is_conversation(record):
        record = {"messages": record}
    if not isinstance(record, Mapping) or not all(isinstance(n, str) for n in record):
        raise Unusable("no object with named columns")
    record = _Record(record, columns)
    turns, start = _turns(record)
    make = _pair if record.is_pair else _answered
    row = make(record, turns, start)
    row["question"] = _question(row["question"])
    for name, value in record.rest.items():
        if name not in row or row[name] != value:
            row[f"{name}_" if name in (*RESERVED, *row) else name] = value
    return row


class _Record:
    """One record, from which our columns are taken one by one.

    Attributes:
      rest: {their name: value} of what has not been taken.
      columns: {our name: theirs}, as the user gave them.
      is_pair: whether it holds a chosen and a rejected answer.
    """

    def __init__(self, record, columns):
        self.rest = {n: x for n, x in record.items() if not n.startswith(INDEX)}
        if isinstance(self.rest.get("reward_model"), Mapping):  # verl's
            self.rest |= self.rest.pop("reward_model")
        self.columns = columns
        self.is_pair = all(self.name(side) in self.rest for side in SIDES)

    def name(self, ours) -> str:
        """Their name for one of our columns, ours if there is none."""
        if self.columns.get(ours):
            return self.columns[ours]
        known = {
            n.strip().casefold(): n for n, x in self.rest.items() if not is_empty(x)
        }
        return next((known[n] for n in (ours, *NAMES[ours]) if n in known), ours)

    def get(self, ours):
        return _opened(self.rest.get(self.name(ours)))

    def take(self, ours):
        return _opened(self.rest.pop(self.name(ours), None))


def _turns(record):
    """(messages, start): those from `start` on hold what is to be learned."""
    turns: list[dict] = []
    start: int | None = 0  # None: behind all that is asked
    has_prompt = record.is_pair and record.get("question")
    is_chat = is_conversation(record.get("messages"))
    if is_chat and not has_prompt and "question" not in record.columns:
        turns = _messages(record.take("messages"))
    elif has_prompt or not record.is_pair:
        earlier = record.rest.get("history")  # LLaMA-Factory's pairs
        if isinstance(earlier, list) and all(map(_is_turn, earlier)):
            for asked, answer in record.rest.pop("history"):
                turns += [_said(asked, "user"), _said(answer, "assistant")]
        name, asked = record.name("question"), record.take("question")
        if isinstance(asked, Mapping):  # OpenAI's preferences
            asked = asked.get("messages", asked)
        if not is_conversation(asked):
            asked = _text(name, asked)
            if name in NAMES["question"] and not record.columns:
                asked = _with_context(record.rest, asked)
        start = 0 if turns else None
        turns += _messages(asked)
    if isinstance(record.get("system"), str):
        system = record.take("system").strip()
        if system and [m["role"] for m in turns[:1]] != ["system"]:
            turns = [_said(system, "system"), *turns]
    return turns, len(turns) if start is None else start


def _is_turn(value):
    return isinstance(value, list) and [type(x) for x in value] == [str, str]


def _with_context(rest, asked):
    """An instruction with the text it is about, as in Alpaca."""
    for beside in CONTEXT:
        if isinstance(rest.get(beside), str):
            text = rest.pop(beside)
            asked = f"{asked}\n\n{text}" if text.strip() else asked
    return asked


def _pair(record, turns, _):
    """The question and the two answers of a row of preferences."""
    sides = {}
    for side in SIDES:
        name, value = record.name(side), record.take(side)
        is_chat = is_conversation(value)
        sides[side] = _messages(value) if is_chat else _text(name, value)
    asked = {"question": turns} if turns else {}
    try:
        pair = preference_pairs.explicit(record.rest | asked | sides)
    except ValueError as error:
        raise Unusable(str(error)) from error
    return {name: pair[name] for name in ("question", *SIDES)}


def _answered(record, turns, start):
    """The question and the answer, and the whole conversation where that says more."""
    name = record.name("answer")
    is_whole = start == 0 and turns[-1]["role"] == "assistant"
    if is_whole and "answer" not in record.columns:
        name = "answer"  # what rewards compare with: no name of another thing
    if "answer" in record.columns and record.columns["answer"] is None:
        return {"question": turns[:-1] if is_whole else turns}
    answer = _opened(record.rest.pop(name, None))
    if is_conversation(answer):
        turns, answer = turns + _messages(answer), None
    if is_empty(answer):
        answers = [i for i, m in enumerate(turns) if m["role"] == "assistant"]
        learned = [i for i in answers if turns[i].get("weight") != 0]
        if not learned or learned[-1] < start:
            raise Unusable(f'no text in the column "{name}"')
        whole = turns[: learned[-1] + 1]
        last = whole[-1]
        answer = last.get("content") or ""
        if last.get("tool_calls") and not answer:
            answer = json.dumps(last["tool_calls"])
    elif is_whole:
        whole = turns
    else:
        whole = [*turns, _said(_text(name, answer), "assistant")]
    answer = _text(name, answer)
    row = {"question": whole[:-1], "answer": answer}
    last = whole[-1] | {"content": str(whole[-1].get("content") or "").strip()}
    roles = [message["role"] for message in whole]
    if "user" in roles:
        start = max(start, roles.index("user"))  # no answer to nobody, as a greeting
    has_more = any(m["role"] == "assistant" for m in whole[start:-1])
    if (tools := _tools(record)) or has_more or last != _said(answer, "assistant"):
        row["messages"] = [
            m | {"weight": 0} if i < start and m["role"] == "assistant" else m
            for i, m in enumerate(whole)
        ]
    if tools:
        row["tools"] = tools
    return row


def _question(turns):
    """A text where the messages are one text of a user's, else the messages."""
    if isinstance(turns, str):
        return _text("question", turns)
    text = _text("question", as_text(turns))
    is_text = len(turns) == 1 and turns[0] == _said(turns[0]["content"], "user")
    return text if is_text and isinstance(turns[0]["content"], str) else turns


def _said(content, role):
    return {"role": role, "content": content}


def _messages(value):
    """Messages in OpenAI's form, from a user's text or any form of messages."""
    if isinstance(value, str):
        return [_said(value, "user")]
    messages = [value] if isinstance(value, Mapping) else value
    try:
        return require_messages(messages)
    except ValueError as error:
        raise Unusable(str(error)) from error


def _opened(value):
    """Messages that a table holds as text, as JSON or as Python writes them."""
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        listed = re.sub(r"\}\s+(?=\{')", "}, ", value)  # NumPy writes no commas
        for read, text in ((json.loads, value), (ast.literal_eval, listed.strip())):
            try:
                opened = read(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            return opened if is_conversation(opened) else value
    return value


def _tools(record):
    """Takes a record's tools, as OpenAI's schemas; None if it has none."""
    tools = record.rest.get(record.name("tools"))
    try:
        tools = json.loads(tools) if isinstance(tools, str) else tools
    except (ValueError, RecursionError):
        return None  # a column of another meaning
    is_list = isinstance(tools, list) and len(tools) > 0
    if not is_list or not all(isinstance(tool, Mapping) for tool in tools):
        return None
    record.take("tools")
    return [
        tool if "function" in tool else {"type": "function", "function": tool}
        for tool in tools
    ]


def _text(name, value) -> str:
    """A cell as stripped text; numbers and true or false as JSON writes them."""
    if isinstance(value, numbers.Number) and not is_empty(value):
        value = str(value).lower() if isinstance(value, bool) else str(value)
    if is_empty(value):
        raise Unusable(f'no text in the column "{name}"')
    if not isinstance(value, str):
        raise Unusable(f'a list or an object in the column "{name}": write its text')
    value = value.strip()
    try:
        value.encode("utf-8")
    except UnicodeError:  # half of a character pair
        raise Unusable("no UTF-8 text") from None
    if "\0" in value or all(unicodedata.category(c) in UNSEEN for c in value):
        raise Unusable(f"the {name} is empty or cannot be seen")
    return value
