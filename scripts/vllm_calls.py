"""A tool parser for vLLM: calls as the course's tiny models write them.

vLLM loads this file in its own environment, by `--tool-parser-plugin`; the grammar is
the one of `helpers.tools`, so that both read the same turns alike.
"""

import json
import pathlib
import sys
import types

from vllm.entrypoints.generate.base.protocol import (
    DeltaMessage,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
# The doors of these rooms bring JAX, which is not here; the grammar needs none of it.
for room in ("runtime", "tools"):
    door = types.ModuleType(f"helpers.{room}")
    door.__path__ = [str(ROOT / "helpers" / room)]
    sys.modules[door.__name__] = door
sys.modules["helpers.runtime"].ROOT = ROOT

from helpers.tools.nutrition import TINY  # noqa: E402


@ToolParserManager.register_module("tiny")
class TinyParser(ToolParser):
    """Reads <<lookup pizza 150>>; a call that cannot be read stays text."""

    supports_required_and_named = False

    def extract_tool_calls(self, model_output, request):
        """The calls of a whole turn."""
        verdict = TINY.parse(model_output)
        calls = [
            ToolCall(
                function=FunctionCall(name=c.name, arguments=json.dumps(c.arguments))
            )
            for c in verdict.calls
        ]
        content = (verdict.text or None) if calls else model_output
        return ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=content
        )

    def extract_tool_calls_streaming(
        self, previous_text, current_text, delta_text, *_, **__
    ):
        """Text as it comes: nobody here asks for calls in a stream."""
        return DeltaMessage(content=delta_text)
