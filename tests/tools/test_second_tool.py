"""A second tool beside nutrition, in the template of a family that shows tools."""

import json

from family_tokenizers import assistant, user
from toy_tools import GRAMS

from helpers.batches import prompt_batches
from helpers.generation.tool_use import ToolUse
from helpers.text import chat
from helpers.tools.calls import Call
from helpers.tools.grammars import HERMES
from helpers.tools.nutrition import TOOL

TOOLS = [TOOL, GRAMS]
PIZZA = Call("lookup_nutrition", {"food": "pizza", "grams": 142})
OUNCES = Call("to_grams", {"amount": 5, "unit": "ounces"})  # 141.7 g
KCAL = 381  # 268 * 1.42 = 380.56


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
