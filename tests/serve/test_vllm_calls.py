"""Calls through vLLM's protocol, whole and streamed, without vLLM."""

import dataclasses
import importlib.util
import itertools
import json
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.runtime.platform import ROOT
from helpers.tools.nutrition import TINY

ANY = types.SimpleNamespace(tool_choice="auto")
NONE = types.SimpleNamespace(tool_choice="none")
PIECES = ("<<lookup pizza 150>>", "<<lookup apple pie 20>>", "<<", "<", ">>", " ", "\n")
PIECES += (
    "I see it.",
    "<<lookup",
    "<<48/2=24>>",
    "<think>",
    "</think>",
    "é",
    "<<x 1>>",
)
turns = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)


def record(called, /, **fields):
    """A message of vLLM's protocol: names and defaults."""
    with_types = [(k, object, dataclasses.field(default=x)) for k, x in fields.items()]
    return dataclasses.make_dataclass(called, with_types, kw_only=True)


class Manager:
    """Keeps parsers by their names, as vLLM's does."""

    parsers: dict = {}

    @classmethod
    def register_module(cls, name):
        return lambda parser: cls.parsers.setdefault(name, parser)


class Base:
    """What our parser inherits."""

    def __init__(self, tokenizer, tools=None):
        self.model_tokenizer = tokenizer


@pytest.fixture(scope="module")
def parser():
    """The parser's class, with stand-ins for what it has of vLLM."""
    numbers = itertools.count()
    protocol = types.SimpleNamespace(
        DeltaMessage=record("DeltaMessage", content=None, tool_calls=()),
        DeltaToolCall=record(
            "DeltaToolCall", index=None, id=None, type=None, function=None
        ),
        DeltaFunctionCall=record("DeltaFunctionCall", name=None, arguments=None),
        FunctionCall=record("FunctionCall", name=None, arguments=None),
        ExtractedToolCallInformation=record(
            "Extracted", tools_called=None, tool_calls=None, content=None
        ),
    )
    tool_call = record("ToolCall", id=None, function=None)
    protocol.ToolCall = lambda function: tool_call(
        id=f"call-{next(numbers)}", function=function
    )
    base = types.SimpleNamespace(ToolParser=Base, ToolParserManager=Manager)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "vllm.entrypoints.generate.base.protocol", protocol)
        patch.setitem(sys.modules, "vllm.tool_parsers.abstract_tool_parser", base)
        for room in ("helpers.runtime", "helpers.tools"):  # which it replaces
            patch.setitem(sys.modules, room, sys.modules[room])
        patch.setattr(sys, "path", [*sys.path])
        file = ROOT / "scripts" / "vllm_calls.py"
        spec = importlib.util.spec_from_file_location("vllm_calls", file)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return Manager.parsers["tiny"]


def as_pairs(calls):
    """Calls as (name, arguments)."""
    return [(c.function.name, json.loads(c.function.arguments)) for c in calls]


def streamed(parser, turn, cuts, request=ANY):
    """(text, calls, the text before the end) of a turn that comes in pieces."""
    one, text, at = parser(None), "", 0
    for end in [*sorted({min(cut, len(turn)) for cut in cuts}), len(turn)]:
        fresh, at = turn[at:end], end  # what vLLM gives such a parser: the delta alone
        delta = one.extract_tool_calls_streaming("", fresh, fresh, [], [], [], request)
        text += delta.content if delta else ""
    before, last = text, one.finish_streaming()
    calls = list(last.tool_calls) if last else []
    return text + ((last.content if last else "") or ""), calls, before


@given(turn=turns)
def test_a_turn_is_what_the_grammar_says_of_it(parser, turn):
    whole, verdict = parser(None).extract_tool_calls(turn, ANY), TINY.parse(turn)
    expected = [(call.name, call.arguments) for call in verdict.calls]
    assert as_pairs(whole.tool_calls) == expected
    assert whole.tools_called is bool(expected)
    assert whole.content == ((verdict.text or None) if expected else turn)


@given(turn=turns, cuts=st.lists(st.integers(0, 60), max_size=12))
def test_a_stream_says_what_the_whole_turn_says(parser, turn, cuts):
    whole = parser(None).extract_tool_calls(turn, ANY)
    text, calls, before = streamed(parser, turn, cuts)
    assert as_pairs(calls) == as_pairs(whole.tool_calls)
    assert [call.index for call in calls] == list(range(len(calls)))
    assert len({call.id for call in calls}) == len(calls)
    if not calls:
        assert text == turn, "nothing is lost, whatever looked like a call"
    elif "think>" not in turn:
        assert text.strip() == (whole.content or "")
        assert "<<lookup" not in before


def test_text_comes_while_it_is_written(parser):
    turn = "48 / 2 = <<48/2=24>> and then <<lookup pizza 150>>"
    _, calls, before = streamed(parser, turn, range(len(turn)))
    assert before == "48 / 2 = <<48/2=24>> and then" and len(calls) == 1


def test_a_request_without_tools_gets_text(parser):
    turn = "<<lookup pizza 150>>"
    whole = parser(None).extract_tool_calls(turn, NONE)
    assert (whole.content, whole.tools_called) == (turn, False)
    assert streamed(parser, turn, [4, 9], NONE)[:2] == (turn, [])
