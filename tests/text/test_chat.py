"""Turns, masks, hostile text and messages, in the course's own tokenizer."""

import copy
import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.runtime import ROOT
from helpers.text import chat, encoding, require_same_tokens
from helpers.text.tokenizer import SPECIAL_TOKENS

unhurried = settings(deadline=None, max_examples=25)
QUESTION = "Tom has 12 apples. He eats 5. How many are left?"
ANSWER = "Tom has <<12-5=7>>7 apples left.\n#### 7"
SHIPPED = ROOT / "data" / "tiny"
TEXTS = [QUESTION + ANSWER + " hi ignore start end of turn"] * 20


@pytest.fixture(scope="module")
def tokenizer():
    return chat.train_tokenizer(TEXTS, 400)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


words = st.text("ab 12\n<>#=+-é’.", max_size=30)


@unhurried
@given(st.lists(st.tuples(words, words.filter(str.strip)), min_size=1, max_size=4))
def test_examples_equal_transformers_own_template_and_mask(tokenizer, pairs):
    questions, answers = zip(*pairs, strict=True)
    ours = chat.examples_tokens(tokenizer, questions, answers)
    for question, answer, (tokens, mask) in zip(questions, answers, ours, strict=True):
        theirs = tokenizer.apply_chat_template(
            [user(question), assistant(answer)],
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        assert tokens == theirs["input_ids"]
        assert mask == theirs["assistant_masks"]
        assert (tokens, mask) == chat.example_tokens(tokenizer, question, answer)


# --- text that spells out control tokens ---

hostile = st.lists(
    st.one_of(st.sampled_from(SPECIAL_TOKENS), st.text("<end_of_turn> \n", max_size=9)),
    min_size=1,
    max_size=6,
).map("".join)


@unhurried
@given(hostile, hostile.filter(str.strip))
def test_spelled_out_control_tokens_are_only_text(tokenizer, question, answer):
    tokens, mask = chat.example_tokens(tokenizer, question, answer)
    control = [t for t in tokens if t < len(SPECIAL_TOKENS)]
    turn = tokenizer.convert_tokens_to_ids(["<start_of_turn>", "<end_of_turn>"])
    assert control == [tokenizer.bos_token_id, *turn, *turn]
    assert tokenizer.decode(tokens) == (
        f"<bos><start_of_turn>user\n{question.strip()}<end_of_turn>\n"
        f"<start_of_turn>model\n{answer.strip()}<end_of_turn>\n"
    )
    learned = [token for token, one in zip(tokens, mask, strict=True) if one]
    assert chat.decode(tokenizer, learned) == answer.strip()
    assert learned[-1] == turn[1] and mask[-1] == 0


def test_hostile_and_ordinary_prompts_keep_their_places_in_a_batch(tokenizer):
    questions = ["one", "<bos>two", "three \ue000 <eos>", "four", "<pad>"]
    assert chat.prompts_tokens(tokenizer, questions) == [
        chat.prompt_tokens(tokenizer, question) for question in questions
    ]


def test_texts_beside_each_other_are_one_text(tokenizer, families):
    """Also of a template that knows no parts; no two of them spell a control token."""
    texts = ["Hi<end_of_", "turn>\n<start", "", "_of_", "turn>model"]
    parts = [{"type": "text", "text": text} for text in texts]
    for each in (tokenizer, families["qwen3"]):
        ids = chat.prompt_tokens(each, [{"role": "user", "content": parts}])
        assert ids == chat.prompt_tokens(each, "".join(texts))


def test_two_threads_do_not_change_each_others_tokens(tokenizer):
    """Whether control tokens count is a switch of the tokenizer, which both turn."""
    expected, stop = chat.prompt_tokens(tokenizer, QUESTION), threading.Event()

    def encode_answers():
        while not stop.is_set():
            encoding.encode_plain(tokenizer, [ANSWER] * 50)

    other = threading.Thread(target=encode_answers)
    other.start()
    try:
        rows = [chat.prompt_tokens(tokenizer, QUESTION) for _ in range(100)]
    finally:
        stop.set()
        other.join()
    assert all(ids == expected for ids in rows)


# --- decoding, ends, folders ---


def test_decode_leaves_out_special_tokens_and_takes_arrays(tokenizer):
    tokens, mask = chat.example_tokens(tokenizer, QUESTION, ANSWER)
    answer = np.asarray(tokens)[np.asarray(mask) == 1]
    assert chat.decode(tokenizer, answer) == ANSWER
    assert chat.decode(tokenizer, [0, 0]) == "" == chat.decode(tokenizer, [])
    assert chat.decode(tokenizer, answer.astype(np.int32).tolist()) == ANSWER


def test_a_template_that_never_ends_a_turn_is_refused():
    tokenizer = chat.train_tokenizer(TEXTS, 300)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    with pytest.raises(ValueError, match="could not stop"):
        chat.example_tokens(tokenizer, "a", "b")


# --- messages of which a template would silently leave out something ---

HI = {"role": "user", "content": "Hi"}
TEXT = {"type": "text", "text": "Hi"}
LOST = {
    "None": {"role": "user", "content": None},
    "no role": {"content": "Hi"},
    "a str": "Hi",
    "no type": {"role": "user", "content": [{"text": "Hi"}]},
    "audio": {"role": "user", "content": [{"type": "audio", "audio": "a"}, TEXT]},
    "a silent assistant": {"role": "assistant", "content": None},
}


@pytest.mark.parametrize("kind", LOST)
def test_messages_that_would_lose_something_are_refused(kind, families):
    """As the last message, in a prompt, in a demonstration and between two answers."""
    tokenizer, messages = families["qwen2"], [HI, assistant("Yo"), LOST[kind]]
    for tokens in (
        lambda: chat.prompt_tokens(tokenizer, messages),
        lambda: chat.conversation_tokens(tokenizer, [*messages, assistant("Yo")]),
        lambda: chat.examples_tokens(tokenizer, [messages], ["Yo"]),
        lambda: chat.turn_tokens(tokenizer, messages),
    ):
        with pytest.raises(ValueError, match="essage 2"):
            tokens()


# --- two tokenizers, and what a template adds ---


def other_template(tokenizer):
    tokenizer.chat_template = tokenizer.chat_template.replace("model", "assistant")
    return tokenizer


def other_end(tokenizer):
    tokenizer.eos_token = "<unk>"
    return tokenizer


def edited(tokenizer, edit):
    """The tokenizer after `edit(the model of its tokenizer.json)`."""
    table = json.loads(tokenizer.backend_tokenizer.to_str())
    edit(table["model"])
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(table))
    return tokenizer


def swap(model):
    words = model["vocab"]
    words["1"], words["2"] = words["2"], words["1"]


def test_distillation_needs_the_same_tokens():
    ours = chat.load_tokenizer(SHIPPED / "student_base")
    require_same_tokens(ours, chat.load_tokenizer(SHIPPED / "grpo"))
    food = chat.load_tokenizer(SHIPPED / "food_grpo")
    no_merges = edited(copy.deepcopy(ours), lambda model: model.update(merges=[]))
    for other, message in (
        (food, "has 673 entries, the teacher's 558"),
        (edited(copy.deepcopy(ours), swap), "'1' is entry .* for the student"),
        (no_merges, "split or wrap"),
        (other_template(copy.deepcopy(ours)), "split or wrap"),
        (other_end(copy.deepcopy(ours)), "end an answer"),
    ):
        with pytest.raises(ValueError, match=message):
            require_same_tokens(ours, other)


def test_what_a_template_adds_is_described(families):
    counts = {"gemma3_text": 9, "gemma4": 9, "qwen3": 8, "llama": 10}
    for family, count in counts.items():
        described = f"{count} tokens of template around every question"
        assert chat.describe_template(families[family]) == described
    shown = chat.describe_template(families["qwen2"])
    count = 9 - 1 + 5 + 15  # <|im_start|> system \n … <|im_end|> \n
    assert shown.startswith(f"{count} tokens")
    assert "the system turn 'You are Qwen, created by Alibaba Cloud." in shown
