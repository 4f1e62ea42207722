"""Tools for tests: a schema in one line, a second real tool, and who calls often."""

import zlib

from helpers.text import chat
from helpers.tools.calls import Call, Verdict
from helpers.tools.environment import Step
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


class Echo:
    """An environment whose opening depends on the seed, and replies on the turn."""

    def reset(self, row, seed):
        return [{"role": "user", "content": f"{row['question'][:9]}{seed % 1000}"}]

    def step(self, completion):
        return Step(
            [{"role": "user", "content": completion[:1]}], reward=len(completion)
        )


def often_ends(tokenizer, real=chat.eos_ids):
    """For `chat.eos_ids`: a sixth of all tokens end a turn, in which it may call."""
    return (*real(tokenizer), *range(20, len(tokenizer), 6))
