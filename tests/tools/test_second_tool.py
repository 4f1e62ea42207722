"""A second tool beside nutrition: grammars, templates, rollouts, the assistant."""

import json

import numpy as np
import pytest
from family_tokenizers import assistant, user
from tiny_models import model as make
from toy_tools import GRAMS

from helpers.app.chat import converse, portions
from helpers.batches import prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.text import chat
from helpers.tools.calls import Call, Verdict
from helpers.tools.grammars import GRAMMARS, HERMES
from helpers.tools.nutrition import TOOL
from helpers.tools.tool import trace

TOOLS = [TOOL, GRAMS]
PIZZA = Call("lookup_nutrition", {"food": "pizza", "grams": 142})
OUNCES = Call("to_grams", {"amount": 5, "unit": "ounces"})  # 141.7 g
NOBODYS = Call("eval", {"amount": 5})
KCAL = 381  # 268 * 1.42 = 380.56


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_conversation_calls_one_after_the_other(name):
    """Results reach the model, each as that of its tool."""
    grammar = GRAMMARS[name]
    turns = [grammar.render([OUNCES, PIZZA]), grammar.render([PIZZA]), f"#### {KCAL}"]
    done = trace(grammar, turns, TOOLS)
    assert [call for call, _ in done.calls] == [OUNCES, PIZZA, PIZZA]
    assert done.calls[0][1] == {"grams": 142} and done.calls[2][1]["kcal"] == KCAL
    shown = [text for role, text in done.segments if role == "tool"]
    assert "142" in shown[0] and str(KCAL) in shown[-1]


def test_a_template_with_tools_is_told_of_both(families):
    use, tokenizer = ToolUse(HERMES, TOOLS), families["qwen3"]
    rows = [{"question": "Hi"}]
    with_tools = {"batch": 1, "seed": 0, "buckets": (1024,), "tools": use.schemas}
    batch = next(prompt_batches.prompts(rows, tokenizer, **with_tools))
    text = tokenizer.decode(batch["prompt"][0][batch["prompt_mask"][0] > 0])
    for tool in TOOLS:
        assert json.dumps(tool.schema, ensure_ascii=False) in text
    messages = [user("Hi"), HERMES.message([OUNCES, PIZZA])]
    messages += HERMES.results([{"grams": 142}, {"kcal": KCAL}], [OUNCES, PIZZA])
    tokens, _ = chat.conversation_tokens(
        tokenizer, [*messages, assistant("Yo")], tools=use.schemas, last_only=True
    )
    assert HERMES.render([OUNCES, PIZZA]) in tokenizer.decode(tokens)


class Chatty:
    """Qwen's grammar in which a random model calls, by the length of a turn."""

    name, schemas, results = HERMES.name, HERMES.schemas, HERMES.results

    def parse(self, text):
        calls = [(), (PIZZA, OUNCES), (OUNCES, NOBODYS)]
        return Verdict(calls[len(text.encode()) % 3], text=text)


def test_rollouts_run_both(families, monkeypatch):
    """Token by token: what the model wrote, and between it what both tools gave."""
    tokenizer, traces = families["qwen3"], []
    often = (*chat.eos_ids(tokenizer), *range(9, len(tokenizer), 3))
    monkeypatch.setattr(chat, "eos_ids", lambda tokenizer: often)

    def reward(prompts, completions, **_):
        traces.extend(completions)
        return [0.0] * (len(completions) - 1) + [1.0]

    use = ToolUse(Chatty(), TOOLS, turns=3, max_result_tokens=200)
    rows = [{"question": "Hi"}, {"question": "Bye"}]
    shape = {"batch": 2, "seed": 0, "buckets": (1024,), "tools": use.schemas}
    rollouts = Rollouts(
        make("qwen3", vocab=len(tokenizer)),
        prompt_batches.prompts(rows, tokenizer, **shape),
        reward,
        tokenizer,
        group=8,
        max_tokens=5,
        mask_truncated=False,
        tools=use,
    )
    batch = next(rollouts)
    results = {call.name: result for trace in traces for call, result in trace.calls}
    assert results["to_grams"] == {"grams": 142}
    assert results["lookup_nutrition"]["kcal"] == KCAL
    assert "Call lookup_nutrition or to_grams" in results["eval"]["error"]
    for index, done in enumerate(traces):
        tokens = batch["completion"].reshape(16, -1)[index]
        mask = batch["loss_mask"].reshape(16, -1)[index]
        last = int(np.flatnonzero(mask)[-1])
        read = tokenizer.decode(tokens[:last][mask[:last] == 0])
        shown = [text for role, text in done.segments if role == "tool"]
        for text in shown[: len(done.turns) - 1]:
            assert text in read
    state = json.loads(json.dumps(rollouts.get_state()))
    assert rollouts.get_state() == state
    assert set(state["run"]["tools"]) == {"lookup_nutrition", "to_grams"}


class Scripted:
    """A backend that weighs, looks up, asks for what there is not, and answers."""

    name = "scripted"

    def __init__(self):
        self.turns = [Verdict((OUNCES,)), Verdict((PIZZA, NOBODYS)), Verdict(text="ok")]
        self.results = []

    def begin(self, question, picture):
        return self

    def next_turn(self):
        return self.turns.pop(0)

    def append_results(self, verdict, results):
        self.results += results


def test_the_assistant_runs_both_and_logs_foods_only():
    backend = Scripted()
    events = list(converse(backend, "?", None, TOOLS))
    kinds = [event.kind for event in events]
    assert kinds == ["call", "result"] * 3 + ["answer"]
    assert backend.results[0] == {"grams": 142}
    assert backend.results[1]["kcal"] == KCAL
    assert "or to_grams" in backend.results[2]["error"]
    (portion,) = portions(events)
    assert portion["food"] == "pizza" and portion["kcal"] == KCAL
