"""Tools for tests: a schema in one line, and a second real tool."""

from helpers.tools.tool import Tool


def make(name, run, **kinds):
    """A Tool whose arguments, all required, are of these types: n="integer"."""
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    parameters = {"type": "object", "properties": properties, "required": list(kinds)}
    function = {"name": name, "description": "A toy.", "parameters": parameters}
    return Tool({"type": "function", "function": function}, run)
