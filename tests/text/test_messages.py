"""What people write in messages, and what templates do with it, token by token.

The templates here have the forms of those in the folders of Qwen2.5, Qwen3's thinking
models, Llama 3.2, SmolLM2, Mistral and DeepSeek's distilled models, in short.
"""

import datetime
import json

import family_tokenizers
import numpy as np
import pytest
import transformers.utils.chat_template_utils as clock
from family_tokenizers import CALL, assert_turns, assistant, system, tool, user

from helpers import batches
from helpers.batches.prompt_batches import pad_prompts
from helpers.evaluation import evaluator
from helpers.evaluation.answers import Answer
from helpers.generation.environment_use import Conversation
from helpers.generation.sampling import Completions, Dialogue
from helpers.generation.tool_use import ToolUse
from helpers.rewards import correct, extract_lenient, extract_strict, format_reward
from helpers.rewards.functions import answer_text
from helpers.tasks import custom_rows, instructions
from helpers.text import chat
from helpers.tools.grammars import HERMES

FAMILIES = tuple(family_tokenizers.SPECIAL)
CHATML = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + (m.content or '') }}"
    "{%- for c in m.tool_calls or [] %}"
    "{{- '<tool_call>' + c.function.name + c.function.arguments | tojson }}"
    "{%- endfor %}{{- '<|im_end|>\n' }}{%- endfor %}"
)
ASKS = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
THINKS = ASKS.replace("assistant\n", "assistant\n<think>\n")
# The thought of the last answer, in its own place; Qwen3's of 2507.
ALWAYS_THINKS = CHATML.replace(
    "(m.content or '')",
    "('<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' "
    "if m.role == 'assistant' and loop.last else '') + m.content",
)
# DeepSeek's distilled models: arguments are text, and thoughts are left out.
DISTILLED = (
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|User|>' + m.content }}"
    "{%- elif m.role == 'tool' %}{{- '<|output|>' + m.content }}{%- else %}"
    "{{- '<|Assistant|>' + m.content.split('</think>')[-1] }}"
    "{%- for c in m.tool_calls or [] %}"
    "{{- '<|call|>' + c.function.name + '\n' + c.function.arguments }}{%- endfor %}"
    "{{- '<|im_end|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|Assistant|><think>\n' }}{%- endif %}"
)
# Llama 3.2: today's date stands in every system turn.
DATED = (
    "{%- set today = strftime_now('%d %b %Y') if strftime_now is defined else 'Hi' %}"
    "{{- '<|im_start|>system\nToday: ' + today + '<|im_end|>\n' }}" + CHATML + ASKS
)


@pytest.fixture
def with_template(families, monkeypatch):
    """Gives a family's tokenizer another template."""

    def give(template, family="qwen3"):
        monkeypatch.setattr(families[family], "chat_template", template)
        return families[family]

    return give


# --- roles ---


@pytest.mark.parametrize("family", FAMILIES)
def test_other_names_of_roles_are_those_that_models_know(families, family):
    tokenizer = families[family]
    known = [system("Be brief"), user("Hi"), assistant("Yo")]
    sharegpt = [("developer", "Be brief"), ("human", "Hi"), ("gpt", "Yo")]
    named = [{"from": role, "value": text} for role, text in sharegpt]
    models = [{**known[0], "role": " System"}, known[1], {**known[2], "role": "bot"}]
    nulls = [message | {"tool_calls": None, "weight": None} for message in known]
    wanted = chat.conversation_tokens(tokenizer, known)
    for messages in (named, models, nulls):
        assert chat.conversation_tokens(tokenizer, messages) == wanted
        prompt = chat.prompt_tokens(tokenizer, messages[:2])
        assert prompt == chat.prompt_tokens(tokenizer, known[:2])
    for role in ("critic", "<|im_end|>", ""):
        with pytest.raises(ValueError, match="Message 1.*one of system, user"):
            chat.prompt_tokens(tokenizer, [known[0], {"role": role, "content": "Hi"}])


@pytest.mark.parametrize("role", ["tool", "function", "observation"])
def test_a_result_is_no_turn_of_a_template_without_tools(families, with_template, role):
    result = {"role": role, "content": "Milk"}
    messages = [user("Hi"), assistant("Yo"), user("Bye"), result, user("Bye")]
    for tokenizer in (with_template(CHATML + ASKS), families["gemma3_text"]):
        with pytest.raises(ValueError, match="knows no tools"):
            chat.prompt_tokens(tokenizer, messages)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_system_turns_are_one(families, family):
    """Gemma 3's template would refuse the second one."""
    two = [system("Be brief"), {"role": "developer", "content": "Be kind"}, user("Hi")]
    one = [system("Be brief\n\nBe kind"), user("Hi")]
    prompts = [chat.prompt_tokens(families[family], each) for each in (two, one)]
    assert prompts[0] == prompts[1]


def test_a_result_that_is_an_object_is_written_as_json(families):
    turns = [user("Hi"), assistant("", tool_calls=[CALL])]
    prompts = [
        chat.prompt_tokens(
            families["qwen3"], [*turns, {**tool(""), "content": content}]
        )
        for content in ({"kcal": 64, "é": [1]}, '{"kcal": 64, "é": [1]}')
    ]
    assert prompts[0] == prompts[1]


def test_what_a_prompt_would_lose_is_said(with_template):
    no_system = "{% for m in messages if m.role != 'system' %}{{ m.content }}"
    tokenizer = with_template(no_system + "<|im_end|>{% endfor %}" + ASKS)
    with pytest.raises(ValueError, match=r"leaves out the content of message 0"):
        chat.prompts_tokens(tokenizer, ["Hi", [system("Be brief"), user("Hi")]])
    with pytest.raises(ValueError, match=r"leaves out the tool_calls of message 1"):
        called = assistant("Yo", tool_calls=[CALL])
        chat.prompt_tokens(tokenizer, [user("Hi"), called, user("Bye")])


# --- weights, thoughts ---


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "weight", [{"weight": 0}, {"weight": 0.0}, {"train": False}, {"loss": False}]
)
def test_an_answer_of_no_weight_is_read_and_not_learned(families, family, weight):
    tokenizer = families[family]
    messages = [user("Hi"), assistant("Yo"), user("Bye"), assistant("Ciao")]
    wanted = chat.conversation_tokens(tokenizer, messages, last_only=True)
    messages[1] |= weight
    assert chat.conversation_tokens(tokenizer, messages) == wanted
    messages[3] |= weight
    with pytest.raises(ValueError, match="no answer to a prompt"):
        chat.conversation_tokens(tokenizer, messages)


def test_weights_of_the_last_answer_and_weights_that_mean_nothing_here(families):
    tokenizer = families["llama"]
    messages = [assistant("Hmm", weight=0), user("Hi"), assistant("Yo")]
    messages += [user("Bye"), assistant("Ciao", weight=0)]
    tokens, mask = chat.conversation_tokens(tokenizer, messages)
    learned = [token for token, one in zip(tokens, mask, strict=True) if one]
    assert tokenizer.decode(learned) == "Yo<|eot_id|>"
    for weight in ({"weight": 0.5}, {"weight": "0"}, {"train_detail": [{"train": 0}]}):
        with pytest.raises(ValueError, match="Message 4 has the weight .*not 0 or 1"):
            chat.conversation_tokens(
                tokenizer, [*messages[:4], assistant("Ciao", **weight)]
            )


@pytest.mark.parametrize("name", ["reasoning_details", "thinking_blocks"])
def test_a_thought_in_pieces_is_an_error(families, name):
    messages = [user("Hi"), assistant("Yo", **{name: [{"text": "Hmm"}]})]
    with pytest.raises(ValueError, match="Message 1.*A thought is a str"):
        chat.conversation_tokens(families["qwen3"], messages)


def test_qwen3_learns_an_answer_before_one_of_no_weight(families):
    tokenizer = families["qwen3"]
    messages = [user("Hi"), assistant("Yo"), user("Bye"), assistant("Ciao", weight=0)]
    (row,) = custom_rows.check([{"messages": messages}]).rows
    parts = family_tokenizers.QWEN_HI, "Yo<|im_end|>", "\n"
    assert_turns(tokenizer, *custom_rows.examples([row], tokenizer), *parts)


@pytest.mark.parametrize(
    "name", ["reasoning_content", "reasoning", "thinking", "thought"]
)
def test_thoughts_are_written_where_the_template_has_them(
    families, name, with_template
):
    messages = [user("Hi"), assistant("Yo", **{name: "Hmm easy"})]
    thought = "Hmm easy\n</think>\n\nYo<|im_end|>"
    qwen = families["qwen3"]
    hi = family_tokenizers.QWEN_HI
    parts = hi, "<think>\n" + thought, "\n"
    assert_turns(qwen, chat.conversation_tokens(qwen, messages), *parts)
    anthropics = [{"type": "thinking", "thinking": "Hmm easy", "signature": "c2ln"},
                  {"type": "text", "text": "Yo"}]  # fmt: skip
    in_parts = [user("Hi"), {"role": "assistant", "content": anthropics}]
    assert_turns(qwen, chat.conversation_tokens(qwen, in_parts), *parts)
    for family in ("gemma3_text", "qwen2", "llama", "gemma4"):
        with pytest.raises(ValueError, match="leaves out the reasoning_content"):
            chat.conversation_tokens(families[family], messages)
    named = CHATML.replace("(m.content", f"(m.{name} or '') + (m.content")
    other = with_template(named + ASKS)
    parts = hi, "Hmm easyYo<|im_end|>", "\n"
    assert_turns(other, chat.conversation_tokens(other, messages), *parts)
    always = with_template(ALWAYS_THINKS + THINKS)
    parts = hi + "<think>\n", thought, "\n"
    assert_turns(always, chat.conversation_tokens(always, messages), *parts)


# --- calls ---

ARGUMENTS = ({"food": "milk"}, '{"food": "milk"}', json.dumps('{"food": "milk"}'))
FORMS = [
    {"tool_calls": [{"id": "1", "type": "function", "function": CALL["function"]}]},
    {"tool_calls": [CALL["function"]]},
    {"tool_calls": json.dumps([CALL])},
    *({"tool_calls": [{"name": "lookup", "arguments": x}]} for x in ARGUMENTS),
    *({"function_call": {"name": "lookup", "arguments": x}} for x in ARGUMENTS),
]


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "gemma4", "tojson"])
def test_calls_in_any_form_are_written_once(families, family, with_template):
    own = "{%- if m.role == 'tool' %}{{- '<|im_start|>user\n' + m.content }}{%- else %}"
    template = CHATML.replace("messages %}", "messages %}" + own, 1)
    template = template.replace("{{- '<|im_end|>", "{%- endif %}{{- '<|im_end|>")
    is_own = family == "tojson"
    tokenizer = with_template(template + ASKS) if is_own else families[family]
    results = [tool("Milk"), {"role": "function", "content": "Milk"}]
    results += [{"from": "observation", "value": "Milk"}]
    plain = [user("Hi"), assistant("", tool_calls=[CALL]), tool("Milk")]
    wanted = chat.conversation_tokens(tokenizer, plain[:2])
    learned = [t for t, one in zip(*wanted, strict=True) if one]
    assert tokenizer.decode(learned).count("milk") == 1
    assert "\\" not in tokenizer.decode(learned)
    called = [{"role": "assistant", "content": None, **form} for form in FORMS]
    called.append({"from": "function_call", "value": json.dumps(CALL["function"])})
    for index, call in enumerate(called):
        result = results[index % 3]
        messages = [user("Hi"), call, result]
        assert chat.conversation_tokens(tokenizer, messages[:2]) == wanted
        prompt = chat.prompt_tokens(tokenizer, messages)
        assert prompt == chat.prompt_tokens(tokenizer, plain)


@pytest.mark.parametrize("added", [" + ", " }}{{- "])
def test_arguments_are_text_where_a_template_takes_text(with_template, added):
    template = DISTILLED.replace(
        " + c.function.arguments", added + "c.function.arguments"
    )
    tokenizer = with_template(template)
    for arguments in ARGUMENTS:
        call = {"name": "lookup", "arguments": arguments}
        messages = [user("Hi"), assistant("", tool_calls=[call]), tool("Milk")]
        assert tokenizer.decode(chat.prompt_tokens(tokenizer, messages)) == (
            '<|User|>Hi<|Assistant|><|call|>lookup\n{"food": "milk"}<|im_end|>'
            "<|output|>Milk<|Assistant|><think>\n"
        )


@pytest.mark.parametrize("arguments", ["{food: milk}", "[1]", "7", [1]])
def test_arguments_that_are_no_object_are_refused(families, arguments):
    call = {"name": "lookup", "arguments": arguments}
    with pytest.raises(ValueError, match="Message 1 has the calls.*arguments"):
        chat.prompt_tokens(
            families["qwen3"], [user("Hi"), assistant("", tool_calls=[call])]
        )


# --- templates ---


CONSTANT = "strftime_now('%d %b %Y') if"
CLOCKS = (  # ways to write the date
    CONSTANT,
    CONSTANT.replace("(", "(format="),
    CONSTANT.replace("('%d", "('%d' ~ '"),
    "strftime_now(['%d %b %Y'][0]) if",
)


@pytest.mark.parametrize("written", CLOCKS)
def test_a_run_goes_on_after_midnight(with_template, monkeypatch, written):
    tokenizer = with_template(DATED.replace(CONSTANT, written), "qwen2")

    def source():
        examples = chat.examples_tokens(tokenizer, ["Hi", "Bye"], ["Yo", "Ciao"])
        rows = batches.prompts([{"question": "Hi"}], tokenizer, batch=1, seed=0)
        return batches.packed_rows(examples, batch=1, length=96, seed=0), rows

    class Tomorrow(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.today() + datetime.timedelta(days=1)

    before = source()
    first = [next(each) for each in before]
    monkeypatch.setattr(clock, "datetime", Tomorrow)
    after = source()
    for old, new, batch in zip(before, after, first, strict=True):
        again = next(new)
        assert all(np.array_equal(batch[name], again[name]) for name in batch)
        new.set_state(old.get_state())
    text = tokenizer.decode(chat.prompt_tokens(tokenizer, "Hi"))
    assert text.startswith("<|im_start|>system\nToday: 26 Jul 2024<|im_end|>")


@pytest.mark.parametrize(
    "template", [CHATML, CHATML + "{{- '<|im_start|>assistant\n' }}"]
)
def test_a_template_that_ignores_the_generation_prompt_is_refused(
    with_template, template
):
    tokenizer = with_template(template)
    for tokens in (
        lambda: chat.prompt_tokens(tokenizer, "Hi"),
        lambda: chat.example_tokens(tokenizer, "Hi", "Yo"),
        lambda: chat.conversation_tokens(tokenizer, [user("Hi"), assistant("Yo")]),
    ):
        with pytest.raises(ValueError, match="ignores add_gen.*im_start.>assistant"):
            tokens()


def test_a_template_whose_answers_have_no_header_needs_no_generation_prompt(
    with_template,
):
    mistral = (
        "{%- for m in messages %}{{- '[INST] ' + m.content + ' [/INST]' if m.role == "
        "'user' else m.content + '<|im_end|>' }}{%- endfor %}"
    )
    tokenizer = with_template(mistral)
    parts = "[INST] Hi [/INST]", "Yo<|im_end|>"
    assert_turns(tokenizer, chat.example_tokens(tokenizer, "Hi", "Yo"), *parts)
    messages = [user("Hi"), assistant("Yo"), user("Bye"), assistant("Ciao")]
    parts += "[INST] Bye [/INST]", "Ciao<|im_end|>"
    assert_turns(tokenizer, chat.conversation_tokens(tokenizer, messages), *parts)


def test_an_answer_whose_header_no_prompt_has_is_learned_in_conversations(
    with_template,
):
    final = CHATML.replace("+ '\n'", "+ (' final' if m.role == 'assistant' else '')")
    tokenizer = with_template(final + ASKS.replace("\n", ""))
    with pytest.raises(ValueError, match="' final' before an answer.*conversation_tok"):
        chat.example_tokens(tokenizer, "Hi", "Yo")
    parts = "<|im_start|>userHi<|im_end|>\n<|im_start|>assistant", " finalYo<|im_end|>"
    got = chat.conversation_tokens(tokenizer, [user("Hi"), assistant("Yo")])
    assert_turns(tokenizer, got, *parts, "\n")


# --- thoughts that the prompt opens ---


@pytest.mark.parametrize("template", [ALWAYS_THINKS + THINKS, DISTILLED])
def test_an_answer_goes_on_with_the_thought_that_its_prompt_opens(
    with_template, template
):
    tokenizer = with_template(template)
    prompt = tokenizer.decode(chat.prompt_tokens(tokenizer, "Hi"))
    assert prompt.endswith("<think>\n")
    end, after = "<|im_end|>", ["\n"] * (template != DISTILLED)
    for answer in ("Hmm\n</think>\n\nYo", "<think>\nHmm\n</think>\n\nYo"):
        got = chat.example_tokens(tokenizer, "Hi", answer)
        assert_turns(tokenizer, got, prompt, "Hmm\n</think>\n\nYo" + end, *after)
    with pytest.raises(ValueError, match="as the model's thoughts"):
        chat.example_tokens(tokenizer, "Hi", "Yo")


class Says(Dialogue):
    """What is sampled is given."""

    def __init__(self, tokens):
        self.tokens = np.asarray(tokens)[None, None]

    def sampled(self, model, prompts, keys, **settings):
        ones = np.ones_like(self.tokens)
        done = Completions(self.tokens, ones, ones * 1.0, ones[..., 0] > 0)
        return done, {}


def said(tokenizer, text, question="Hi"):
    """A completion as rollouts and `evaluate` read it."""
    prompt, mask = pad_prompts([chat.prompt_tokens(tokenizer, question)], (64,))
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    batch = {"prompt": prompt, "prompt_mask": mask}
    return Says(tokens).answers(None, tokenizer, batch, None, max_tokens=9).texts[0][0]


@pytest.mark.parametrize("template", [CHATML + THINKS, DISTILLED])
def test_a_thought_that_the_prompt_opened_and_nobody_ended_is_no_answer(
    with_template, template
):
    tokenizer = with_template(template)
    cut = said(tokenizer, "2 3\n#### 5")
    assert cut == "<think>\n2 3\n#### 5"
    ended = said(tokenizer, "#### 4\n</think>\n\n#### 5")
    assert (extract_strict(cut), extract_lenient(cut), answer_text(cut)) == (
        None,
        None,
        "",
    )
    assert extract_strict(ended) == 5
    texts, golds = [cut, ended], ["5", "5"]
    assert correct([], texts, golds) == format_reward([], texts) == [0, 1]
    stopped = [
        evaluator._cut(Answer(text, 9, False), evaluator.FINAL_LINE)
        for text in (cut + "\n", ended + "\nand on")
    ]
    assert [x.ended for x in stopped] == [False, True]
    assert [evaluator._is_right(extract_strict, x, 5) for x in stopped] == [False, True]
    short = said(tokenizer, "A cat is here now.")
    row = {"word": ["cat"], "rules": [["short"]]}
    assert instructions.follows([], [short], **row) == [0]
    assert instructions.follows([], ["<think>Hm</think>A cat is here."], **row) == [1]


def test_other_marks_of_a_thought_are_opened_too(with_template):
    mark = "<start_working_out>"
    tokenizer = with_template(CHATML + THINKS.replace("<think>\n", mark))
    cut = said(tokenizer, "2 3\n#### 5")
    assert (cut, extract_lenient(cut)) == (mark + "2 3\n#### 5", None)


def test_a_question_about_the_mark_opens_nothing(families, with_template):
    for family in FAMILIES:
        prompt = chat.prompt_tokens(families[family], "<think>")
        assert chat.opened_thoughts(families[family], [prompt]) == [""]
    tokenizer = with_template(CHATML + THINKS.replace("<think>\n", "<think>\nOkay, "))
    prompts = [chat.prompt_tokens(tokenizer, "</think>"), [1], []]
    assert chat.opened_thoughts(tokenizer, prompts) == ["<think>\nOkay, ", "", ""]


@pytest.mark.parametrize(
    "begin, end",
    [
        ("<think>", "</think>"),
        ("[THINK]", "[/THINK]"),
        ("<start_working_out>", "<end_working_out>"),
        ("<seed:think>", "</seed:think>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
    ],
)
def test_a_thought_of_the_completion_that_does_not_end_is_no_answer(begin, end):
    thought = f"{begin} 2 + 3 is 5\n#### 5"
    texts = [thought, thought + end, f"{thought}{end}\n#### 5", f"{begin}"]
    assert correct([], texts, ["5"] * 4) == [0, 0, 1, 0]
    assert [extract_lenient(text) for text in texts] == [None, None, 5, None]


def test_a_tool_users_thought_that_did_not_end_is_no_answer(with_template):
    tokenizer = with_template(CHATML + THINKS)
    for text, answer in (("#### 5", ""), ("Hmm</think>#### 5", "#### 5")):
        tokens = np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"])
        (prompt,) = chat.encode(tokenizer, ["<think>\n"])
        conversation = Conversation(ToolUse(HERMES, []), tokenizer, prompt)
        conversation.append_turn(tokens, np.zeros(len(tokens)), False)
        assert conversation.trace.answer == answer
        assert correct([], [conversation.trace], ["5"]) == [float(bool(answer))]


# --- nothing ---


@pytest.mark.parametrize("answer", ["", " \n", None, []])
def test_an_empty_answer_is_not_learned(families, answer):
    tokenizer = families["gemma3_text"]
    with pytest.raises(ValueError, match="Answer 1 is empty"):
        chat.examples_tokens(tokenizer, ["Hi", "Bye"], ["Yo", answer])
    with pytest.raises(ValueError, match="essage 1 is|Answer 1 is empty"):
        chat.conversation_tokens(tokenizer, [user("Hi"), assistant(answer)])


def test_rows_without_an_answer_are_counted():
    one = [user("A?"), assistant("Yo")]
    none = [[user("B?"), assistant("")], [user("C?")], [user("D?"), assistant(None)]]
    none.append([user("E?"), assistant("Yo", weight=0)])
    loaded = custom_rows.check([{"messages": messages} for messages in [one, *none]])
    assert [row["question"] for row in loaded.rows] == ["A?"]
    assert sum(map(len, loaded.dropped.values())) == len(none)


def test_an_empty_completion_is_wrong(families):
    empty = ["", " \n", [], [assistant("")], [assistant(None)], [tool("#### 5")]]
    assert correct([], empty, ["5"] * 6) == format_reward([], empty) == [0.0] * 6
    rows = {"word": ["cat"] * 6, "rules": [["short"]] * 6}
    assert instructions.follows([], empty, **rows) == [0.0] * 6
