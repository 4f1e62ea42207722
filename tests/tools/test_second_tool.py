"""A second tool beside nutrition: grammars, templates, rollouts, the assistant."""

import json

import numpy as np
import pytest
import toy_tools
from family_tokenizers import assistant, user
from tiny_models import model as make
from toy_tools import GRAMS

from helpers.app.chat import converse, portions
from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.text import chat
from helpers.tools import grammars, nutrition
from helpers.tools.calls import Call, Verdict
from helpers.tools.grammars import GEMMA3, GEMMA4, HERMES
from helpers.tools.nutrition import TOOL
from helpers.tools.tool import trace

TOOLS = [TOOL, GRAMS]
TINY = grammars.tiny_grammar(
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
        [grammars.Short("f", two_texts.schema, "a b", "x")],
    ):
        with pytest.raises(ValueError, match="one Short per tool|could be read again"):
            grammars.tiny_grammar(shorts)


@pytest.mark.parametrize("family", ["qwen3"])
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


class Chatty:
    """A family's grammar in which a random model calls, by the length of a turn."""

    def __init__(self, grammar):
        self.grammar, self.name = grammar, grammar.name
        self.schemas, self.results = grammar.schemas, grammar.results

    def parse(self, text):
        calls = [(), (PIZZA, OUNCES), (OUNCES, NOBODYS)]
        return Verdict(calls[len(text.encode()) % 3], text=text)


@pytest.mark.parametrize(
    "family, grammar",
    [("gemma3_text", TINY), ("qwen3", HERMES)],
    ids=["tiny", "hermes"],
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
        make(family, vocab=len(tokenizer)),
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
