"""Tools, and how model families write their calls."""

from helpers.tools import calculator, nutrition
from helpers.tools.calls import Call
from helpers.tools.environment import Environment, Step
from helpers.tools.grammars import GEMMA3, GEMMA4, HERMES
from helpers.tools.nutrition import TINY
from helpers.tools.tool import Tool, trace

__all__ = [
    "Call",  # one call: a name and arguments
    "Environment",  # what a model's turns do
    "GEMMA3",  # a grammar
    "GEMMA4",  # a grammar
    "HERMES",  # the grammar of Qwen
    "Step",  # what one of them did
    "TINY",  # the grammar of the tiny model
    "Tool",  # what a model may call: a schema, and what runs
    "calculator",  # the calculator in the middle of an answer
    "nutrition",  # the nutrition tool
    "trace",  # a conversation with its calls
]
