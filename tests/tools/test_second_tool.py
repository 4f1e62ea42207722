"""A second tool beside nutrition: grammars, templates, rollouts, the assistant."""

import dataclasses
import functools
import json

import fake_openai
import numpy as np
import pytest
import toy_tools
from family_tokenizers import assistant, user
from tiny_models import model as make
from toy_tools import GRAMS

from helpers.app.assistant import converse, portions
from helpers.app.openai_server import OpenAIServer
from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.text import chat
from helpers.tools import nutrition, tiny_calls
from helpers.tools.calls import GEMMA3, GEMMA4, HERMES, Call, Verdict
from helpers.tools.nutrition import TOOL
from helpers.tools.tool import trace

TOOLS = [TOOL, GRAMS]
TINY = tiny_calls.grammar(
    [nutrition.TINY_SHORT, toy_tools.GRAMS_IN_SHORT],
)
GRAMMARS = {"hermes": HERMES, "gemma3": GEMMA3, "gemma4": GEMMA4, "tiny": TINY}
PIZZA = Call("lookup_nutrition", {"food": "pizza", "grams": 142})
OUNCES = Call("to_grams", {"amount": 5, "unit": "ounces"})  # 141.7 g
NOBODYS = Call("eval", {"amount": 5})
KCAL = 381  # 268 * 1.42 = 380.56
every_grammar = pytest.mark.parametrize("name", GRAMMARS)


@every_grammar
def test_every_grammar_writes_and_reads_calls_of_both(name):
    grammar = GRAMMARS[name]
    for calls in ((OUNCES,), (PIZZA, OUNCES), (OUNCES, PIZZA)):
        assert grammar.parse(f"Hm. {grammar.render(calls)}") == Verdict(
            calls, text="Hm."
        )


@every_grammar
def test_a_conversation_calls_one_after_the_other(name):
    """Results reach the model, each as its own tool's."""
    grammar = GRAMMARS[name]
    turns = [grammar.render([OUNCES]), grammar.render([PIZZA]), f"#### {KCAL}"]
    done = trace(grammar, turns, TOOLS)
    assert [call for call, _ in done.calls] == [OUNCES, PIZZA]
    assert done.calls[0][1] == {"grams": 142} and done.calls[1][1]["kcal"] == KCAL
    told = [text for role, text in done.segments if role == "tool"]
    assert "142" in told[0] and "kcal" not in told[0] and str(KCAL) in told[1]
    if name == "tiny":
        assert told == ["grams 142", f"kcal {KCAL}"]


@pytest.mark.parametrize("name", ["hermes", "gemma3", "gemma4"])
def test_a_call_of_neither_is_told_which_there_are(name):
    grammar = GRAMMARS[name]
    done = trace(grammar, [grammar.render([NOBODYS]), "Sorry."], TOOLS)
    ((_, result),) = done.calls
    assert "'eval'. Call lookup_nutrition or to_grams." in result["error"]
    assert "lookup_nutrition or to_grams" in done.segments[1][1]


def test_the_tiny_model_is_told_both_forms():
    assert TINY.form == "<<lookup pizza 150>> or <<weigh 5 ounces>>"
    error = TINY.parse("<<weigh ounces>>").error
    assert "it is not weigh, whole amount and a unit," in error
    error = TINY.parse("<<eval 5>>").error
    assert "lookup, a food and whole grams or weigh, whole amount" in error
    with pytest.raises(ValueError, match="only knows lookup_nutrition.* or to_grams"):
        TINY.render([NOBODYS])


def test_what_the_tiny_model_could_not_write_is_refused():
    short, other = nutrition.TINY_SHORT, toy_tools.GRAMS_IN_SHORT
    two_texts = toy_tools.make("f", dict, a="string", b="string")
    for shorts in (
        [],
        [short, short],
        [short, other._replace(word="lookup")],
        [short._replace(word="Look up")],
        [short._replace(example="150 pizza")],
        [tiny_calls.Short("f", two_texts.schema, "a b", "x")],
    ):
        with pytest.raises(ValueError, match="one Short per tool|could be read again"):
            tiny_calls.grammar(shorts)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_template_with_tools_is_told_of_both(families, family):
    use = ToolUse(HERMES, TOOLS)
    rows = [{"question": "Hi"}]
    with_tools = {"batch": 1, "seed": 0, "buckets": (1024,), "tools": use.schemas}
    batch = next(prompt_batches.prompts(rows, families[family], **with_tools))
    text = families[family].decode(batch["prompt"][0][batch["prompt_mask"][0] > 0])
    for tool in TOOLS:
        assert json.dumps(tool.schema, ensure_ascii=False) in text
    messages = [user("Hi"), HERMES.message([OUNCES, PIZZA])]
    messages += HERMES.results([{"grams": 142}, {"kcal": KCAL}], [OUNCES, PIZZA])
    answered = [*messages, assistant("Yo")]
    tokens, _ = chat.conversation_tokens(
        families[family], answered, tools=use.schemas, last_only=True
    )
    assert HERMES.render([OUNCES, PIZZA]) in families[family].decode(tokens)


def test_a_template_without_tools_is_told_of_none():
    for grammar in (GEMMA3, TINY):
        assert ToolUse(grammar, TOOLS).schemas is None
    with pytest.raises(ValueError, match="no tool to use"):
        ToolUse(HERMES, [])


class Chatty:
    """A family's grammar in which a random model calls, by the length of a turn."""

    def __init__(self, grammar):
        self.grammar, self.name = grammar, grammar.name
        self.schemas, self.results = grammar.schemas, grammar.results

    def parse(self, text):
        calls = [(), (PIZZA, OUNCES), (OUNCES, NOBODYS)]
        return Verdict(calls[len(text.encode()) % 3], text=text)


@functools.cache
def policy(family, vocab):
    if family == "gemma4":
        return make("gemma4_text", vocab_size=vocab)
    return make(family, vocab=vocab)


@pytest.mark.parametrize(
    "family, grammar",
    [
        ("gemma3_text", TINY),
        ("gemma3_text", GEMMA3),
        ("gemma4", GEMMA4),
        ("qwen3", HERMES),
    ],
    ids=["tiny", "gemma3", "gemma4", "hermes"],
)
def test_rollouts_run_both(families, family, grammar, monkeypatch):
    """Token by token: what the model said, and between it what both tools gave."""
    tokenizer, seen = families[family], []
    real = chat.eos_ids(tokenizer)
    often = (*real, *range(9, len(tokenizer), 3))
    monkeypatch.setattr(chat, "eos_ids", lambda tokenizer: often)

    def keep(prompts, completions, **_):
        seen.extend(completions)
        return [0.0] * (len(completions) - 1) + [1.0]

    use = ToolUse(Chatty(grammar), TOOLS, turns=3, max_result_tokens=260)
    rows = [{"question": "Hi"}, {"question": "Bye"}]
    shape = {"batch": 2, "seed": 0, "buckets": (1024,), "tools": use.schemas}
    rollouts = Rollouts(
        policy(family, len(tokenizer)),
        prompt_batches.prompts(rows, tokenizer, **shape),
        keep,
        tokenizer,
        group=16,
        max_tokens=5,
        mask_truncated=False,
        tools=use,
    )
    batch = next(rollouts)
    results = {call.name: result for trace in seen for call, result in trace.calls}
    assert results["to_grams"] == {"grams": 142}
    assert results["lookup_nutrition"]["kcal"] == KCAL
    assert "Call lookup_nutrition or to_grams" in results["eval"]["error"]
    for index, done in enumerate(seen):
        tokens = batch["completion"].reshape(32, -1)[index]
        mask = batch["loss_mask"].reshape(32, -1)[index]
        last = int(np.flatnonzero(mask)[-1])
        heard = tokenizer.decode(tokens[:last][mask[:last] == 0])
        told = [text for role, text in done.segments if role == "tool"]
        for text in told[: len(done.turns) - 1]:
            assert text in heard
    state = json.loads(json.dumps(rollouts.get_state()))
    assert rollouts.get_state() == state
    assert set(state["run"]["tools"]) == {"lookup_nutrition", "to_grams"}


def test_another_schema_and_another_tool_make_another_run():
    def described(*tools):
        return ToolUse(HERMES, tools).describe()

    schema = json.loads(json.dumps(GRAMS.schema).replace("A weight", "The weight"))
    reworded = dataclasses.replace(GRAMS, schema=schema)
    other = dataclasses.replace(GRAMS, run=lambda amount, unit: {"grams": 0})
    runs = [described(TOOL, tool) for tool in (GRAMS, reworded, other)]
    assert runs[0] != runs[1] and runs[0] != runs[2] and runs[1] != runs[2]
    assert described(TOOL, GRAMS) == runs[0] != described(TOOL)


class Scripted:
    """A backend that weighs, looks up, asks for what there is not, and answers."""

    name = "scripted"

    def __init__(self):
        self.turns = [Verdict((OUNCES,)), Verdict((PIZZA, NOBODYS)), Verdict(text="ok")]
        self.told = []

    def begin(self, question, picture):
        return self

    def next_turn(self):
        return self.turns.pop(0)

    def append_results(self, verdict, results):
        self.told += results


def test_the_assistant_runs_both_and_logs_foods_only():
    backend = Scripted()
    events = list(converse(backend, "?", None, TOOLS))
    kinds = [event.kind for event in events]
    assert kinds == ["call", "result"] * 3 + ["answer"]
    assert backend.told[0] == {"grams": 142} and backend.told[1]["kcal"] == KCAL
    assert "or to_grams" in backend.told[2]["error"]
    (portion,) = portions(events)
    assert portion["food"] == "pizza" and portion["kcal"] == KCAL


def test_what_another_tool_says_of_food_is_no_portion():
    """It has no nutrients, and could not be logged."""
    plan = toy_tools.make("plan", lambda: {"food": "pizza", "grams": 3, "kcal": 1})
    backend = Scripted()
    backend.turns = [Verdict((Call("plan"),)), Verdict(text="ok")]
    events = list(converse(backend, "?", None, [TOOL, plan]))
    assert events[1].result["food"] == "pizza" and portions(events) == []


def test_a_server_is_told_of_both_and_may_call_both():
    asked = [
        fake_openai.call(OUNCES.arguments, name="to_grams", identity="a"),
        fake_openai.call(PIZZA.arguments, identity="b"),
    ]
    replies = fake_openai.message(None, asked), fake_openai.message("402.")
    with fake_openai.serving(*replies) as (fake, address):
        server = OpenAIServer(address, "m", tools=TOOLS)
        events = list(converse(server, "?", None, TOOLS))
    assert [event.kind for event in events] == ["call", "result"] * 2 + ["answer"]
    sent = fake.requests[0][2]["tools"]
    assert sent == [tool.schema for tool in TOOLS]
    told = fake.requests[1][2]["messages"][2:]
    assert json.loads(told[0]["content"]) == {"grams": 142}
    assert json.loads(told[1]["content"])["kcal"] == KCAL
