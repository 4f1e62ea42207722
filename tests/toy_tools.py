"""Tools for tests: a schema in one line, a second real tool, and who calls often."""

import dataclasses
import zlib
from collections.abc import Callable

from helpers.text import chat
from helpers.tools.calls import Call, Verdict
from helpers.tools.tool import Tool, schema_of


def make(name, run, **kinds):
    """A Tool whose arguments, all required, are of these types: n="integer"."""
    arguments = {key: {"type": kind} for key, kind in kinds.items()}
    return Tool(schema_of(name, "A toy.", **arguments), run)


def to_grams(amount, unit):
    """A second tool: a weight in grams."""
    return {"grams": round(amount * {"ounces": 28.3495, "pounds": 453.592}[unit])}


GRAMS = Tool(
    schema_of(
        "to_grams",
        "A weight in grams.",
        amount={"type": "integer", "minimum": 1, "maximum": 1000},
        unit={"type": "string", "enum": ["ounces", "pounds"]},
    ),
    to_grams,
)

TWICE = make("twice", lambda n: {"twice": 2 * n}, n="integer")


@dataclasses.dataclass
class Chatty:
    """A grammar in which a random model calls `TWICE` with about half of its turns."""

    show: Callable = lambda result, call=None: str(result["twice"])
    name = "chatty"

    def parse(self, text):
        if zlib.crc32(text.encode()) % 2:
            return Verdict(text=text)
        return Verdict(calls=(Call("twice", {"n": len(text)}),))

    def results(self, results, calls=()):
        return [{"role": "user", "content": self.show(results[0])}]

    def schemas(self, tools):
        return None


def often_ends(tokenizer, real=chat.eos_ids):
    """For `chat.eos_ids`: a sixth of all tokens end a turn, in which it may call."""
    return (*real(tokenizer), *range(20, len(tokenizer), 6))
