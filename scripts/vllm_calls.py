"""A tool parser for vLLM: calls as the course's tiny models write them.

vLLM loads this file in its own environment, by `--tool-parser-plugin`; the grammar is
the one of `helpers.tools`, so that both read the same turns alike.
"""

import json
import pathlib
import sys
import types

from vllm.entrypoints.generate.base.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
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
    """Reads <<lookup pizza 150>>; a call that cannot be read stays text.

    vLLM makes one for each answer. Whether a turn holds calls is known at its end, so
    in a stream whatever may be one is held back until then.
    """

    supports_required_and_named = False
    # vLLM then gives each delta alone, and calls `finish_streaming` after the last one.
    engine_based_streaming = True

    def __init__(self, tokenizer, tools=None):
        super().__init__(tokenizer, tools)
        self._request, self._turn, self._sent = None, "", ""

    def extract_tool_calls(self, model_output, request):
        """The calls of a whole turn; none for a request that wants none."""
        wanted = getattr(request, "tool_choice", None) != "none"
        verdict = TINY.parse(model_output)
        calls = [
            ToolCall(
                function=FunctionCall(name=c.name, arguments=json.dumps(c.arguments))
            )
            for c in verdict.calls
            if wanted
        ]
        content = (verdict.text or None) if calls else model_output
        return ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=content
        )

    def extract_tool_calls_streaming(
        self,
        previous_text,
        current_text,
        delta_text,
        previous_token_ids,
        current_token_ids,
        delta_token_ids,
        request,
    ):
        """What has come of the text, up to where a call may begin."""
        self._request, self._turn = request, self._turn + delta_text
        call = TINY.begin.search(self._turn)
        sure = self._turn[: call.start()] if call else self._turn
        sure = sure.rstrip().removesuffix("<").rstrip()
        fresh = sure[len(self._sent) :]
        self._sent += fresh
        return DeltaMessage(content=fresh) if fresh else None

    def finish_streaming(self):
        """The calls of the turn that was streamed, or the text that was held back."""
        parsed = self.extract_tool_calls(self._turn, self._request)
        if not parsed.tools_called:
            rest = self._turn[len(self._sent) :]
            return DeltaMessage(content=rest) if rest else None
        calls = [
            DeltaToolCall(
                index=i,
                id=call.id,
                type="function",
                function=DeltaFunctionCall(
                    name=call.function.name, arguments=call.function.arguments
                ),
            )
            for i, call in enumerate(parsed.tool_calls)
        ]
        return DeltaMessage(tool_calls=calls)
