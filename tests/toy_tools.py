"""Tools for tests: a schema in one line, and a second real tool."""

from helpers.tools.tiny_calls import Short
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
