"""Recognises the shape of a record, and makes a row of the course of it.

| shape | columns of the record |
|---|---|
| question and answer | `question`, `answer`; or names as in `NAMES` (GSM8K, MATH) |
| Alpaca | `instruction`, `input`, `output`; `system` |
| prompt and completion | `prompt`, `completion`: texts, or lists of messages |
| OpenAI | `messages` of `role` and `content`; `tools` |
| ShareGPT | `conversations` of `from` and `value`; `system`, `tools` |
| preferences | `chosen`, `rejected`, often a `prompt`: texts or messages |
| OpenAI's preferences | `input`, `preferred_output`, `non_preferred_output` |

A row has a "question", a text or the messages before the last answer, and an "answer",
a text. Where a conversation has more to learn than that text, it has "messages", too:
several answers, tool calls or reasoning, with the "tools" if there are any. A row of
preferences has "chosen" and "rejected" instead of the answer.
"""

import ast
import contextlib
import json
import numbers
import unicodedata
from collections.abc import Mapping

from helpers.batches import preference_pairs
from helpers.batches.preference_pairs import SIDES
from helpers.rewards.functions import GIVEN
from helpers.text.messages import require_messages

NAMES = {  # ours: names that other data sets use, the likeliest first
    "question": ("prompt", "instruction", "problem", "query", "input", "user"),
    "answer": ("completion", "response", "solution", "output", "target")
    + ("assistant", "ground_truth", "final_answer"),
    "messages": ("conversations", "conversation", "dialog", "dialogue", "chat"),
    "system": ("system_prompt",),
    "tools": ("functions",),
    "chosen": ("preferred_output",),  # OpenAI's, for DPO
    "rejected": ("non_preferred_output",),
}
CONTEXT = ("input", "context", "passage")  # joined to an instruction, as in Alpaca
PICTURES = ("image", "images", "picture", "pictures")
CONTENT = ("content", "value", "tool_calls", "function_call")  # of a message
RESERVED = (*GIVEN, "messages", "tools")  # other columns of these names get another
INDEX = ("__index_level_", "Unnamed: ")  # pandas' row labels, which are no column
UNREADABLE = (ValueError, SyntaxError, RecursionError, MemoryError)
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
    if any(not is_empty(x) and x for x in map(record.rest.get, PICTURES)):
        raise Unusable("a picture, and rows here are text: leave out the column")
    is_judged = {*record.rest} == {"prompt", "completion", "label"}  # TRL's for KTO
    if is_judged and record.rest["label"] in (False, "False", "false"):
        raise Unusable("an answer whose label says that it is bad")
    row = _pair(record) if record.is_pair else _answered(record)
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
        for name in ("reward_model", "input"):  # verl's; OpenAI's, for DPO
            if isinstance(self.rest.get(name), Mapping):
                self.rest |= self.rest.pop(name)
        answers = self.rest.get("answers")
        if isinstance(answers, Mapping) and answers.get("text"):  # SQuAD's
            self.rest["answer"] = self.rest.pop("answers")["text"][0]
        self.columns = columns
        self.is_pair = all(self.name(side) in self.rest for side in SIDES)

    def name(self, ours) -> str:
        """Their name for one of our columns, ours if there is none."""
        if self.columns.get(ours):
            return self.columns[ours]
        filled = [name for name, value in self.rest.items() if not is_empty(value)]
        known = {name.strip().casefold(): name for name in filled}
        names = (ours, *NAMES.get(ours, ()))
        return next((known[name] for name in names if name in known), ours)

    def get(self, ours):
        return _opened(self.rest.get(self.name(ours)))

    def take(self, ours):
        return _opened(self.rest.pop(self.name(ours), None))


def _turns(record):
    """The messages of a record's conversation or prompt, and whether it is the first.

    A column of messages may hold a conversation beside a pair's prompt, or another one
    than the columns that the user named.
    """
    has_prompt = record.is_pair and record.get("question")
    has_other = has_prompt or "question" in record.columns
    is_chat = not has_other and is_conversation(record.get("messages"))
    if is_chat:
        turns = _messages(record.take("messages"))
    else:
        turns = _prompt(record) if has_prompt or not record.is_pair else []
    if isinstance(record.get("system"), str) and record.get("system").strip():
        system = _message(record.take("system").strip(), "system")
        turns = turns if turns[:1] == [system] else [system, *turns]
    return turns, is_chat


def _prompt(record):
    """The messages of a record's question."""
    name, prompt = record.name("question"), record.take("question")
    if is_conversation(prompt):
        return _messages(prompt)
    prompt = _text(name, prompt)
    asks = name.strip().casefold() in ("question", *NAMES["question"])
    contexts = [n for n in record.rest if n.strip().casefold() in CONTEXT]
    contexts = [n for n in contexts if isinstance(record.rest[n], str)]
    if asks and "question" not in record.columns:  # as in Alpaca
        texts = [prompt, *map(record.rest.pop, contexts)]
        prompt = "\n\n".join(text for text in texts if text.strip())
    if isinstance(record.rest.get("history"), list) and record.rest["history"]:
        raise Unusable('turns in the column "history": write all of them as "messages"')
    return [_message(prompt, "user")]


def _pair(record):
    """The row of a record of preferences."""
    turns, _ = _turns(record)
    names = {side: record.name(side) for side in SIDES}
    sides = {side: record.take(side) for side in SIDES}
    for side, value in sides.items():
        sides[side] = value if is_conversation(value) else _text(names[side], value)
    try:
        pair = preference_pairs.explicit(record.rest | {"question": turns} | sides)
    except ValueError as error:
        raise Unusable(str(error)) from error
    return {name: pair[name] for name in ("question", *SIDES)}


def _answered(record):
    """The row of another record: question, answer, and where it says more, messages."""
    turns, is_chat = _turns(record)
    start = 0 if is_chat else len(turns)  # what is learned begins here
    is_whole = is_chat and turns[-1]["role"] == "assistant"
    if record.columns.get("answer", "") is None:
        if is_empty(record.rest.get("answer") or None):
            record.rest.pop("answer", None)  # it would be an empty one to learn
        return {"question": turns[:-1] if is_whole else turns}
    # Beside a whole conversation, other names than ours are of something else.
    is_ours = is_whole and "answer" not in record.columns
    name = "answer" if is_ours else record.name("answer")
    answer = _opened(record.rest.pop(name, None))
    if is_conversation(answer):
        turns, answer = turns + _messages(answer), None
    elif not is_empty(answer) and not is_whole:
        turns = [*turns, _message(_text(name, answer), "assistant")]
    learned = [
        i for i, m in enumerate(turns) if m["role"] == "assistant" and "weight" not in m
    ]
    if not learned or learned[-1] < start:
        raise Unusable(f'no text in the column "{name}"')
    calls = turns[learned[-1]].get("tool_calls")
    *before, last = turns = turns[: learned[-1] + 1]
    text = last["content"] if isinstance(last["content"], str) else ""
    if is_empty(answer):
        answer = text or (json.dumps(calls) if calls else "")
    row = {"question": before, "answer": _text(name, answer)}
    roles = [m["role"] for m in turns]
    if "user" in roles:
        start = max(start, roles.index("user"))  # no answer to nobody, as a greeting
    tools = _tools(record)
    is_plain = last | {"content": text.strip()} == _message(row["answer"], "assistant")
    if tools or "assistant" in roles[start:-1] or not is_plain:
        row["messages"] = [
            m | {"weight": 0} if i < start and m["role"] == "assistant" else m
            for i, m in enumerate(turns)
        ]
    return row | ({"tools": tools} if tools else {})


def _question(turns):
    """A text where the messages are one text of a user's, else the messages."""
    if isinstance(turns, str):
        return _text("question", turns)
    text = _text("question", as_text(turns))
    is_text = len(turns) == 1 and turns[0] == _message(turns[0]["content"], "user")
    return text if is_text and isinstance(turns[0]["content"], str) else turns


def _message(content, role):
    return {"role": role, "content": content}


def _messages(value):
    """Messages in OpenAI's form, from any form of one or several."""
    try:
        return require_messages([value] if isinstance(value, Mapping) else value)
    except ValueError as error:
        raise Unusable(str(error)) from error


def _opened(value, accepts=is_conversation):
    """Objects that a table holds as text, as JSON or as Python writes them."""
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(*UNREADABLE):
                opened = read(value.strip())
                return opened if accepts(opened) else value
    return value


def _is_tools(value):
    is_list = isinstance(value, list) and len(value) > 0
    return is_list and all(isinstance(x, Mapping) for x in value)


def _tools(record):
    """Takes a record's tools, as OpenAI's schemas; None if it has none."""
    tools = _opened(record.rest.get(record.name("tools")), _is_tools)
    if not _is_tools(tools):
        return None  # or a column of another meaning
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
