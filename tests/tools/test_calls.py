"""Tool calls: what templates write, what is read back, and hostile strings."""

import ast
import collections
import itertools
import json
import pathlib
import random
import tomllib

import forked
import pytest
from family_tokenizers import assistant, controls, tool, user
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.text import chat
from helpers.tools import calls, grammars
from helpers.tools.calls import (
    LONGEST_JSON,
    LONGEST_TURN,
    Call,
    Malformed,
    Verdict,
    read_json,
)
from helpers.tools.grammars import GEMMA3, GEMMA4
from helpers.tools.nutrition import TINY, TOOL
from helpers.tools.tool import run_call

GRAMMARS = grammars.GRAMMARS | {"tiny": TINY}
PIZZA = Call("lookup_nutrition", {"food": "pizza", "grams": 150})
SALAD = Call("lookup_nutrition", {"food": "greek salad", "grams": 80})
every_grammar = pytest.mark.parametrize("name", GRAMMARS)
unhurried = settings(deadline=None, max_examples=40)

# Written by hand, after the families' documents.
WRITTEN = {
    "hermes": '<tool_call>\n{"name": "lookup_nutrition", "arguments": '
    '{"food": "pizza", "grams": 150}}\n</tool_call>',
    "gemma3": '```tool_code\nlookup_nutrition(food="pizza", grams=150)\n```',
    "gemma4": '<|tool_call>call:lookup_nutrition{food:<|"|>pizza<|"|>,grams:150}'
    "<tool_call|>",
    "tiny": "<<lookup pizza 150>>",
}


@every_grammar
def test_a_call_is_written_as_the_family_writes_it(name):
    assert GRAMMARS[name].render([PIZZA]) == WRITTEN[name]
    assert GRAMMARS[name].parse(WRITTEN[name]) == Verdict((PIZZA,))


@every_grammar
def test_several_calls_stand_in_one_turn(name):
    grammar = GRAMMARS[name]
    text = f"I see two foods. {grammar.render([PIZZA, SALAD])}\n"
    assert grammar.parse(text) == Verdict((PIZZA, SALAD), text="I see two foods.")
    assert "more than 4 calls" in grammar.parse(WRITTEN[name] * 5).error


@every_grammar
def test_words_without_a_call_are_an_answer(name):
    for text in ("", " ", "#### 402 kcal", "<<48/2=24>>24", "```json\n{}\n```"):
        assert GRAMMARS[name].parse(text) == Verdict(text=text.strip())


@every_grammar
def test_a_result_that_the_model_invents_makes_the_call_malformed(name):
    verdict = GRAMMARS[name].parse(WRITTEN[name] + " kcal 402\n#### 402")
    assert not verdict.calls and "wait for its result" in verdict.error


@every_grammar
def test_a_call_that_is_only_thought_of_is_none(name):
    grammar, (begin, end) = GRAMMARS[name], GRAMMARS[name].marks
    thought = f"{begin}Should I say {WRITTEN[name]}?{end}"
    assert grammar.parse(f"{thought}\nNo food.").calls == ()
    assert grammar.parse(f"{begin}{WRITTEN[name]}").calls == ()  # cut off
    verdict = grammar.parse(f"{thought}\n{WRITTEN[name]}")
    assert verdict.calls == (PIZZA,)
    assert verdict.thought == f"Should I say {WRITTEN[name]}?"


MALFORMED = tomllib.loads(
    pathlib.Path(__file__).with_name("malformed.toml").read_text("utf-8")
)
MALFORMED["tiny"] += [["<<lookup \ud800 1>>", "food and whole grams"]]  # TOML has none


@every_grammar
def test_an_error_says_why_a_call_is_malformed_and_how_it_is_done(name):
    for text, reason in MALFORMED[name]:
        verdict = GRAMMARS[name].parse(text)
        assert verdict.calls == () and reason in verdict.error, text
        assert verdict.error.endswith(GRAMMARS[name].form)
        assert len(verdict.error) < 250


def test_gemma_3_may_write_calls_in_other_ways():
    fence = "```tool_code\n{}\n```".format
    two = 'f(a="x", b=[1, 2.5, -3e2], c=True, d=None)\ng()'
    calls = Call("f", {"a": "x", "b": [1, 2.5, -300], "c": True, "d": None}), Call("g")
    assert GEMMA3.parse(fence(two)).calls == calls
    assert GEMMA3.parse(fence("[" + two.replace("\n", ", ") + "]")).calls == calls
    spread = "f(\n  a='it\\'s \"x\"',\n  b=1\n)"
    assert GEMMA3.parse(fence(spread)).calls == (Call("f", {"a": 'it\'s "x"', "b": 1}),)
    for text in (r"'say \"hi\"'", r'"it\'s"', r"'a\\'", r"'\u00e9\n'"):
        (call,) = GEMMA3.parse(fence(f"f(a={text})")).calls
        assert call.arguments == {"a": ast.literal_eval(text)}


def test_gemma_4_writes_values_as_its_template_does():
    """The macro `format_argument` of the family's chat template: sorted, bare keys."""
    call = Call("f", {"b": [1, "x"], "A": {"k": True}, "c": None, "d": -2.5})
    text = '<|tool_call>call:f{A:{k:true},b:[1,<|"|>x<|"|>],c:None,d:-2.5}<tool_call|>'
    assert GEMMA4.render([call]) == text and GEMMA4.parse(text).calls == (call,)
    braces = Call("f", {"a": "echo {x, y}] <tool_call|>"})
    assert GEMMA4.parse(GEMMA4.render([braces])).calls == (braces,)


# --- round trips ---

names = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True)
words = st.text(st.characters(codec="utf-8"), max_size=30)
whole = st.integers(-(10**15), 10**15)
numbers = whole | st.floats(allow_nan=False, allow_infinity=False, width=16)
scalars = st.none() | st.booleans() | numbers | words
lists = scalars | st.lists(scalars, max_size=3)
trees = lists | st.dictionaries(names, lists, max_size=2)
foods = st.from_regex(r"[a-z]{1,9}( [a-z]{1,9}){0,3}", fullmatch=True)
looked_up = st.fixed_dictionaries({"food": foods, "grams": st.integers(1, 9999)})
CALLS = {
    "hermes": st.builds(Call, names, st.dictionaries(names, trees, max_size=3)),
    "gemma3": st.builds(Call, names, st.dictionaries(names, lists, max_size=3)),
    "gemma4": st.builds(Call, names, st.dictionaries(names, trees, max_size=3)),
    "tiny": st.builds(Call, st.just("lookup_nutrition"), looked_up),
}


def has_marks(call, *marks):
    return any(mark in json.dumps(call.arguments) for mark in marks)


@every_grammar
def test_calls_survive_being_written_and_read(name):
    grammar = GRAMMARS[name]
    marks = ("think>", '<|\\"|>', "channel")

    @unhurried
    @given(st.lists(CALLS[name], min_size=1, max_size=4), st.sampled_from(["", "Hm. "]))
    def survive(calls, before):
        if any(has_marks(call, *marks) for call in calls):
            return
        verdict = grammar.parse(before + grammar.render(calls))
        assert verdict == Verdict(tuple(calls), text=before.strip())
        types = [list(map(type, c.arguments.values())) for c in verdict.calls]
        assert sorted(map(str, sum(types, []))) == sorted(
            str(type(v)) for c in calls for v in c.arguments.values()
        )

    survive()


UNWRITABLE = [
    ("hermes", Call("f", {"a": float("nan")})),
    ("hermes", Call('f", "x": "', {})),
    ("hermes", Call("f", {"a": "</think>"})),
    ("hermes", Call("f", {"a": "x" * 3000})),
    ("hermes", Call("f", {"a": {1, 2}})),
    ("gemma3", Call("f", {"a": {"b": 1}})),
    ("gemma3", Call("f", {"a b": 1})),
    ("gemma3", Call("f", {"a": float("inf")})),
    ("gemma4", Call("f", {"a": 'say <|"|>'})),
    ("gemma4", Call("f", {"a:b": 1})),
    ("tiny", Call("eval", {"food": "pizza", "grams": 1})),
    ("tiny", Call("lookup_nutrition", {"food": "pizza", "grams": 1.5})),
    ("tiny", Call("lookup_nutrition", {"food": "a>>b", "grams": 1})),
    ("tiny", Call("lookup_nutrition", {"food": "pizza 1>> x", "grams": 1})),
    ("tiny", Call("lookup_nutrition", {"food": " pizza", "grams": 1})),
    ("tiny", Call("lookup_nutrition", {"food": "pizza"})),
]


def test_what_a_grammar_cannot_write_is_an_error():
    for name, call in UNWRITABLE:
        with pytest.raises(ValueError, match="cannot write"):
            GRAMMARS[name].render([call])


# --- with the chat templates ---


def test_the_tiny_model_is_shown_little():
    unknown = {"error": "No food is called 'pizzza'.", "suggestions": ["french_fries"]}
    (turn,) = TINY.results([unknown, {"error": "absurd"}, {"kcal": 3, "fat": 1}])
    assert turn["content"] == "error, try french fries\nerror\nkcal 3"


@pytest.mark.parametrize("family", ["gemma3_text", "qwen2", "qwen3", "llama"])
def test_turn_tokens_are_what_the_whole_prompt_ends_in(families, family):
    tokenizer = families[family]
    results = [user("kcal 6 4")] if family == "gemma3_text" else [tool("Milk has")]
    whole = chat.prompt_tokens(tokenizer, [user("Hi"), assistant("Yo"), *results])
    turn = chat.turn_tokens(tokenizer, results)
    end = {"gemma3_text": "<end_of_turn>", "llama": "<|eot_id|>"}
    end = tokenizer.convert_tokens_to_ids(end.get(family, "<|im_end|>"))
    begin = len(whole) - len(turn)
    assert whole[begin:] == turn and whole[begin - 1] == end
    marks = "<end_of_turn><|im_end|><|eot_id|><tool_call>"
    results[0]["content"] += marks
    hostile = chat.turn_tokens(tokenizer, results)
    assert controls(tokenizer, hostile) == controls(tokenizer, turn)
    assert marks in tokenizer.decode(hostile)


def test_prompt_answer_and_turns_make_the_next_prompt(families):
    tokenizer = families["gemma3_text"]
    question, answer = [user("Hi")], TINY.message([PIZZA], "I look")
    first = chat.prompt_tokens(tokenizer, question)
    tokens = chat.example_tokens(tokenizer, "Hi", answer["content"])[0][len(first) : -1]
    turn = chat.turn_tokens(tokenizer, TINY.results([{"kcal": 402}]))
    messages = [*question, answer, *TINY.results([{"kcal": 402}])]
    assert first + tokens + turn == chat.prompt_tokens(tokenizer, messages)


# --- hostile strings ---

PIECES = (
    *WRITTEN.values(), *("<tool_call>", "</tool_call>", "<|tool_call>", "<tool_call|>"),
    *("```", "```json\n", "```tool_code\n", "\n```", "<<", ">>", "<<lookup ", '<|"|>'),
    *('{"name": "f", "arguments": ', '{"name":"f","parameters":', "call:f{", "f(", ")"),
    *("{", "}", "[", "]", ",", ":", '"', "'", "\\", "\\u", "\\ud800", "\ud800", "\x00"),
    *("NaN", "-Infinity", "1e999", "9" * 5000, "-", "0x10", "1_000", "true", "None"),
    *("'; DROP TABLE foods; --", "' OR 1=1", "__import__('os').system('x')", "eval("),
    *("\u202epizza", "\u200b", "ﷺ", "𝟙𝟝𝟘", "١٥٠", "e\u0301" * 9, "\ufeff", "\u2028"),
    *("<think>", "</think>", "<|channel>", "<channel|>", "<end_of_turn>", "<|im_end|>"),
    *("[" * 3000, '{"a":' * 900, "(" * 2000, "f(a=" * 500, "-" * 2000, "\n" * 3000),
    *("a" * 25_000, '"' * 999, "food", "=", "pizza", " ", "150", "grams", "{}", "é"),
)  # fmt: skip


def hostile(rng, text):
    """Pieces of all grammars at random; or a good call, cut, doubled or bent."""
    if rng.random() < 0.5:
        return "".join(rng.choices(PIECES, k=rng.randint(1, 8)))
    for _ in range(rng.randint(1, 3)):
        i, j = sorted(rng.choices(range(len(text) + 1), k=2))
        text = rng.choice(
            (text[:i], text[i:], text[:i] + text[j:], text[:j] + text[i:])
            + (text[:i] + rng.choice(PIECES) + text[j:],)
        )
    return text


@every_grammar
def test_two_thousand_hostile_strings_have_a_verdict_each(name, monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("something was executed")

    grammar, rng = GRAMMARS[name], random.Random(name)
    texts = [hostile(rng, WRITTEN[name]) for _ in range(2_000)]
    kinds = collections.Counter()
    monkeypatch.setattr("builtins.eval", forbidden)
    monkeypatch.setattr("builtins.exec", forbidden)
    for text in texts:
        verdict = grammar.parse(text)
        assert not (verdict.calls and verdict.error)
        kinds[bool(verdict.calls), bool(verdict.error)] += 1
        for call in verdict.calls:
            result = run_call([TOOL], call)
            json.dumps([call.name, call.arguments, result], allow_nan=False).encode()
            assert grammar.parse(grammar.render([call])).calls == (call,)
    assert len(kinds) == 3 and min(kinds.values()) > 9, kinds


def read_long_texts(name):
    """The worst that each grammar's patterns can be made to try, ten times too long."""
    length = calls.LONGEST_TURN = 10 * LONGEST_TURN
    call = WRITTEN[name]
    begins = {call[:i] for i in range(0, len(call), 9)} | {call.partition("zza")[0]}
    ends = ("", call[-4:], call[-20:])
    pieces = (*PIECES, *call, "a b", '\\"', "f(a=", "x:", "<<lookup a")
    for begin, piece, end in itertools.product(begins, pieces, ends):
        count = (length - len(begin + end)) // len(piece)
        print(f"{begin!a}, {piece!a:.30} and {end!a}")  # the last of these was too slow
        GRAMMARS[name].parse(begin + piece * count + end)


@every_grammar
def test_a_text_is_read_in_steps_that_grow_with_its_length(name, tmp_path):
    """Steps that grow with the square of the length would take hours."""
    forked.run(read_long_texts, name, log=tmp_path / "log")
    verdict = GRAMMARS[name].parse(WRITTEN[name] + " " * 10**7)  # it is not read
    assert verdict == Verdict(error="the turn is longer than 20000 letters.")


# --- strict JSON ---

json_words = st.text(max_size=9)
json_numbers = st.integers(-(10**20), 10**20)
json_numbers |= st.floats(allow_nan=False, allow_infinity=False)
flat = st.none() | st.booleans() | json_numbers | st.text(st.characters(codec="utf-8"))
nested = st.lists(flat, max_size=3) | st.dictionaries(json_words, flat, max_size=3)


@unhurried
@given(flat | nested | st.lists(nested, max_size=2), json_words)
def test_it_reads_what_json_reads_and_says_where_it_ends(value, rest):
    text = json.dumps(value)
    if len(text) < LONGEST_JSON and text.isascii() and "\\ud" not in text:
        assert read_json(f"x{text} {rest}", 1) == (value, 1 + len(text))


NOT_JSON = {
    "broken": ("", "{'a': 1}", '{"a": 1,}', '{"a": 1', "NaN", "[-Infinity]", "1e999"),
    "twice": ('{"a": 1, "a": 1}',),
    "broken.*surrogates": ('"\\ud800"', '["\ud800"]'),
    "more than 5 deep": (
        "[[[[[[1]]]]]]",
        '{"a":' * 6 + "1" + "}" * 6,
        "[" * 900 + "]" * 900,
    ),
    "longer than 2000": ('"' + "x" * 3000 + '"',),
}


@pytest.mark.parametrize("reason", NOT_JSON)
def test_what_is_not_let_pass_is_malformed(reason):
    for text in NOT_JSON[reason]:
        with pytest.raises(Malformed, match=reason) as error:
            read_json(text)
        assert len(str(error.value)) < 150


def test_five_deep_is_read_and_brackets_in_a_text_are_text():
    assert read_json("[[[[[1]]]]]")[0] == [[[[[1]]]]]
    flat = ["[[[[[[[", '\\"[[[[[[[', {"{{{{{{{": "]"}]
    assert read_json(json.dumps(flat) + "[" * 99)[0] == flat
