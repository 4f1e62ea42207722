"""Tools, and how model families write their calls."""

from helpers.tools import (
    calculator,  # the calculator in the middle of an answer
    nutrition,  # the nutrition tool
)
from helpers.tools.calls import Call  # one call: a name and arguments
from helpers.tools.environment import (
    Environment,  # what a model's turns do
    Step,  # what one of them did
)
from helpers.tools.grammars import (
    GEMMA3,  # a grammar
    GEMMA4,  # a grammar
    HERMES,  # the grammar of Qwen
)
from helpers.tools.nutrition import TINY  # the grammar of the tiny model
from helpers.tools.tool import (
    Tool,  # what a model may call: a schema, and what runs
    trace,  # a conversation with its calls
)
