"""Turns of real families, held to texts written by hand.

The texts follow the published formats that helpers/text/tokenizer.py names. In the
parts that `assert_turns` gets, what the model reads and what it writes take turns.
"""

import pytest
from family_tokenizers import (
    CALL,
    QWEN_HI,
    TOOLS,
    assert_turns,
    assistant,
    system,
    text_of,
    tool,
    user,
)

from helpers.text import chat

TWO_TURNS = [system("Be brief"), user("Hi"), assistant(" Yo\n"), user("Bye")]
TWO_TURNS += [assistant("Ciao")]


def header(role):
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n"


# What stands before the question, around an answer, and what ends a turn.
FORMS = {
    "gemma3_text": (
        "<bos><start_of_turn>user\nBe brief\n\n",
        "<start_of_turn>user\n",
        "<start_of_turn>model\n",
        "<end_of_turn>\n",
    ),
    "gemma4": (
        "<bos><|turn>system\nBe brief<turn|>\n<|turn>user\n",
        "<|turn>user\n",
        "<|turn>model\n",
        "<turn|>\n",
    ),
    "qwen2": (
        "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\n",
        "<|im_start|>user\n",
        "<|im_start|>assistant\n",
        "<|im_end|>\n",
    ),
    "llama": (
        f"<|begin_of_text|>{header('system')}Be brief<|eot_id|>{header('user')}",
        header("user"),
        header("assistant"),
        "<|eot_id|>",
    ),
}


@pytest.mark.parametrize("family", FORMS)
def test_two_turns_behind_a_system_message(families, family):
    begin, user_turn, model_turn, end = FORMS[family]
    learned, after = end.rstrip("\n"), "\n" if end.endswith("\n") else ""
    parts = [
        begin + "Hi" + end + model_turn,
        "Yo" + learned,
        after + user_turn + "Bye" + end + model_turn,
        "Ciao" + learned,
    ]
    got = chat.conversation_tokens(families[family], TWO_TURNS)
    assert_turns(families[family], got, *parts, *filter(None, [after]))


def test_qwen2_has_a_system_message_of_its_own(families):
    tokenizer = families["qwen2"]
    assert text_of(tokenizer, chat.prompt_tokens(tokenizer, "Hi")) == (
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
        "assistant.<|im_end|>\n" + QWEN_HI
    )


@pytest.mark.parametrize(
    "thinking, block", [(None, ""), (True, ""), (False, "<think>\n\n</think>\n\n")]
)
def test_qwen3_prompts_with_thinking_on_and_off(families, thinking, block):
    tokenizer = families["qwen3"]
    prompt = chat.prompt_tokens(tokenizer, "Hi", thinking)
    assert text_of(tokenizer, prompt) == QWEN_HI + block
    example = chat.example_tokens(tokenizer, "Hi", "Yo", thinking)
    assert_turns(tokenizer, example, QWEN_HI + block, "Yo<|im_end|>", "\n")


def test_qwen3_empty_think_block_is_the_prompts_only_with_thinking_off(families):
    tokenizer = families["qwen3"]
    messages = [user("Hi"), assistant("Yo")]
    block = "<think>\n\n</think>\n\n"
    yo = "Yo<|im_end|>"
    off = chat.conversation_tokens(tokenizer, messages, thinking=False)
    assert_turns(tokenizer, off, QWEN_HI + block, yo, "\n")
    on = chat.conversation_tokens(tokenizer, messages)
    assert_turns(tokenizer, on, QWEN_HI, block + yo, "\n")


QWEN_TOOLS = """\
<|im_start|>system
Be brief

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{"type": "function", "function": {"name": "lookup", "parameters": {}}}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
"""
QWEN_CALL = """<tool_call>
{"name": "lookup", "arguments": {"food": "milk"}}
</tool_call>"""


def shown(result):
    return f"<tool_response>\n{result}\n</tool_response>"


def test_qwen3_thinks_calls_a_tool_and_answers(families):
    tokenizer = families["qwen3"]
    messages = [
        system("Be brief"),
        user("Hi"),
        assistant("", reasoning_content="I look it up", tool_calls=[CALL]),
        tool("Milk has 6 4 kcal"),
        tool("Bye"),
        assistant("<think>\nHmm easy\n</think>\n\nMilk"),
    ]
    assert_turns(
        tokenizer,
        chat.conversation_tokens(tokenizer, messages, tools=TOOLS),
        QWEN_TOOLS + QWEN_HI,
        ("<think>\nI look it up\n</think>\n\n" + QWEN_CALL + "<|im_end|>"),
        "\n" + QWEN_HI.replace("Hi", shown("Milk has 6 4 kcal") + "\n" + shown("Bye")),
        "<think>\nHmm easy\n</think>\n\nMilk<|im_end|>",
        "\n",
    )


def test_qwen2_says_something_and_calls_two_tools(families):
    tokenizer = families["qwen2"]
    calls = assistant("I look it up", tool_calls=[CALL, CALL])
    messages = [system("Be brief"), user("Hi"), calls, tool("Milk"), assistant("Yo")]
    assert_turns(
        tokenizer,
        chat.conversation_tokens(tokenizer, messages, tools=TOOLS),
        QWEN_TOOLS + QWEN_HI,
        ("I look it up\n" + QWEN_CALL + "\n" + QWEN_CALL + "<|im_end|>"),
        "\n" + QWEN_HI.replace("Hi", shown("Milk")),
        "Yo<|im_end|>",
        "\n",
    )


LLAMA_TOOLS = """\
<|begin_of_text|><|start_header_id|>user<|end_header_id|>

Given the following functions, please respond with a JSON for a function call with its \
proper arguments that best answers the given prompt.

Respond in the format {"name": function name, "parameters": dictionary of argument \
name and its value}. Do not use variables.

{
    "type": "function",
    "function": {
        "name": "lookup",
        "parameters": {}
    }
}

Hi<|eot_id|>"""


def test_llama_calls_a_tool(families):
    tokenizer = families["llama"]
    messages = [user("Hi"), assistant(None, tool_calls=[CALL]), tool("Milk")]
    messages += [assistant("Yo")]
    assert_turns(
        tokenizer,
        chat.conversation_tokens(tokenizer, messages, tools=TOOLS),
        LLAMA_TOOLS + header("assistant"),
        ('{"name": "lookup", "parameters": {"food": "milk"}}<|eot_id|>'),
        (header("ipython") + "Milk<|eot_id|>" + header("assistant")),
        "Yo<|eot_id|>",
    )
