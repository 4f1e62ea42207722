"""Gemma 4 calls a tool in the loop: every token and its mask, as the format says."""

import json

import jax
import numpy as np
import pytest
import toy_tools
from scripted_model import Scripted

from helpers.batches import prompt_batches
from helpers.generation.sampling import row_keys
from helpers.generation.tool_use import ToolUse
from helpers.text import chat
from helpers.tools.calls import Call
from helpers.tools.grammars import GEMMA4

CALL = "<|tool_call>call:add{n:1}<tool_call|>"
OPENED = CALL + "<|tool_response>"
SUM = 'response:add{value:<|"|>{"sum": 7}<|"|>}<tool_response|>'
BROKEN = "<|tool_call>call:add(n=1)<tool_call|>"
ERROR = json.dumps({"error": GEMMA4.parse(BROKEN).error})
THOUGHT = "<|channel>thought\nHmm<channel|>"
USER, MODEL = "\n<|turn>user\n", "<turn|>\n<|turn>model\n"
# What each member writes, and the results between, in turn.
ANSWERS = {
    "called": [OPENED, SUM, "Yo<turn|>"],
    "thought first": [THOUGHT + OPENED, SUM, "Yo<turn|>"],
    "two calls": [CALL + OPENED, SUM + "<|tool_response>" + SUM, "Yo<turn|>"],
    "called twice": [OPENED, SUM, OPENED, SUM, "Yo<eos>"],
    "closed a broken call": [BROKEN + "<turn|>", USER + ERROR + MODEL, "Yo<turn|>"],
    "a broken call": [
        BROKEN + "<|tool_response>",
        f'response:unknown{{value:<|"|>{ERROR}<|"|>}}<tool_response|>',
        "Yo<turn|>",
    ],
    "no call": ["Hi <|tool_response>"],
    "an answer": ["Yo<turn|>"],
}


def encoded(tokenizer, piece):
    """Control tokens as such; those that the error spells, as characters."""
    before, *after = piece.split(ERROR)
    ids = tokenizer(before, add_special_tokens=False)["input_ids"]
    for part in after:
        spelled = {"add_special_tokens": False, "split_special_tokens": True}
        ids += tokenizer(ERROR, **spelled)["input_ids"]
        ids += tokenizer(part, add_special_tokens=False)["input_ids"]
    return ids


@pytest.fixture(scope="module")
def answered(families):
    """{case: (Answers, member, expected tokens, expected mask)}."""
    tokenizer, budget = families["gemma4"], 80
    use = ToolUse(
        GEMMA4,
        [toy_tools.make("add", lambda n: {"sum": 7}, n="integer")],
        max_result_tokens=400,
    )
    width, expected = use.width(budget), {}
    script = np.full((1, len(ANSWERS), width), len(tokenizer) - 1)
    for member, (name, pieces) in enumerate(ANSWERS.items()):
        ids = [encoded(tokenizer, piece) for piece in pieces]
        mask = [1 - i % 2 for i, piece in enumerate(ids) for _ in piece]
        expected[name] = sum(ids, []), mask
        tokens = np.where(np.array(mask) > 0, expected[name][0], len(tokenizer) - 1)
        script[0, member, : len(tokens)] = tokens
    question = chat.prompt_tokens(tokenizer, "Hi", tools=use.schemas)
    prompt, real = prompt_batches.pad_prompts([question], (len(question),))
    model = Scripted(script, [len(question)], len(tokenizer))
    keys = row_keys(jax.random.key(0), 0, 1, len(ANSWERS))
    batch = {"prompt": prompt, "prompt_mask": real}
    limits = {"max_tokens": budget, "temperature": 0.0}
    done = use.answers(model, tokenizer, batch, keys, **limits)
    return {
        name: (done, member, *expected[name]) for member, name in enumerate(ANSWERS)
    }


@pytest.mark.parametrize("name", ANSWERS)
def test_each_token_and_its_mask(answered, name):
    done, member, tokens, mask = answered[name]
    assert done.tokens[0, member][: len(tokens)].tolist() == tokens
    assert done.mask[0, member][: len(mask)].tolist() == mask
    assert not done.mask[0, member][len(mask) :].any()
    assert done.ended[0, member]
    assert not done.logprobs[0, member][done.mask[0, member] == 0].any()


def test_demonstrations_are_what_the_loop_makes(families, answered):
    """The same conversation as messages: the same tokens, the same mask."""
    tokenizer = families["gemma4"]
    tool = toy_tools.make("add", lambda n: {"sum": 7}, n="integer")
    call = Call("add", {"n": 1})
    for name, count in (("called", 1), ("two calls", 2)):
        calls = [call] * count
        messages = [
            {"role": "user", "content": "Hi"},
            GEMMA4.message(calls),
            *GEMMA4.results([{"sum": 7}] * count, calls),
            {"role": "assistant", "content": "Yo"},
        ]
        taught, learned = chat.conversation_tokens(
            tokenizer, messages, tools=[tool.schema]
        )
        prompt = chat.prompt_tokens(tokenizer, "Hi", tools=[tool.schema])
        _, _, tokens, mask = answered[name]
        after = tokenizer("\n", add_special_tokens=False)["input_ids"]
        assert taught == prompt + tokens + after
        assert learned == [0] * len(prompt) + mask + [0]
