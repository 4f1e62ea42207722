"""A second tool beside nutrition: in grammars and in templates."""

import json

import pytest
from family_tokenizers import assistant, user
from toy_tools import GRAMS

from helpers.batches import prompt_batches
from helpers.generation.tool_use import ToolUse
from helpers.text import chat
from helpers.tools.calls import Call
from helpers.tools.grammars import GRAMMARS, HERMES
from helpers.tools.nutrition import TOOL
from helpers.tools.tool import trace

TOOLS = [TOOL, GRAMS]
PIZZA = Call("lookup_nutrition", {"food": "pizza", "grams": 142})
OUNCES = Call("to_grams", {"amount": 5, "unit": "ounces"})  # 141.7 g
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


def test_a_template_with_tools_writes_both(families):
    use, tokenizer = ToolUse(HERMES, TOOLS), families["qwen3"]
    rows = [{"question": "Hi"}]
    with_tools = {"batch": 1, "seed": 0, "buckets": (1024,), "environment": use}
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
