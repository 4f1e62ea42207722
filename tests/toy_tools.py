"""Tools for tests: a schema in one line, a second real tool, and who calls often."""

import zlib

from helpers.text import chat
from helpers.tools.calls import Call, Verdict
from helpers.tools.grammars import Short
from helpers.tools.tool import Tool


def make(name, run, **kinds):
    """A Tool whose arguments, all required, are of these types: n="integer"."""
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    parameters = {"type": "object", "properties": properties, "required": list(kinds)}
    function = {"name": name, "description": "A toy.", "parameters": parameters}
    return Tool({"type": "function", "function": function}, run)


def to_grams(amount, unit):
    """A second tool: a weight in grams."""
    return {"grams": round(amount * {"ounces": 28.3495, "pounds": 453.592}[unit])}


GRAMS = Tool(
    {
        "type": "function",
        "function": {
            "name": "to_grams",
            "description": "A weight in grams.",
            "parameters": {
                "type": "object",
                "properties": {
                    "amount": {"type": "integer", "minimum": 1, "maximum": 1000},
                    "unit": {"type": "string", "enum": ["ounces", "pounds"]},
                },
                "required": ["amount", "unit"],
                "additionalProperties": False,
            },
        },
    },
    to_grams,
)
GRAMS_IN_SHORT = Short("weigh", GRAMS.schema, example="5 ounces", field="grams")

TWICE = make("twice", lambda n: {"twice": 2 * n}, n="integer")


class Chatty:
    """A grammar in which a random model calls `TWICE` with about half of its turns."""

    name = "chatty"

    def parse(self, text):
        if zlib.crc32(text.encode()) % 2:
            return Verdict(text=text)
        return Verdict(calls=(Call("twice", {"n": len(text)}),))

    def results(self, results, calls=()):
        return [{"role": "user", "content": str(results[0]["twice"])}]

    def schemas(self, tools):
        return None


def often_ends(tokenizer, real=chat.eos_ids):
    """For `chat.eos_ids`: a sixth of all tokens end a turn, in which it may call."""
    return (*real(tokenizer), *range(20, len(tokenizer), 6))
