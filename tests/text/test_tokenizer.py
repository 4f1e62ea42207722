"""The course's own tokenizer: every text survives, numbers are read digit by digit."""

import json
import os
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.maths import word_problems
from helpers.text.tokenizer import SPECIAL_TOKENS, train_tokenizer

unhurried = settings(deadline=None, max_examples=60)
GSM8K = Path(
    os.environ.get("COURSE_GSM8K")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "gsm8k"
)


@pytest.fixture(scope="module")
def texts():
    rows = word_problems.generate(1500, seed=1, levels=(1, 2, 3, 4))
    return [row["question"] + "\n" + row["answer"] for row in rows]


@pytest.fixture(scope="module")
def tokenizer(texts):
    return train_tokenizer(texts, 1024)


def pieces(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [tokenizer.decode([i]) for i in ids]


def test_the_special_tokens_come_first_in_gemmas_order(tokenizer):
    ids = tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS))
    assert ids == list(range(9))
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    assert (tokenizer.bos_token_id, tokenizer.unk_token_id) == (2, 3)


def test_the_size_is_kept_and_ids_have_no_gaps(texts):
    for size in (300, 512):
        vocabulary = train_tokenizer(texts, size).get_vocab()
        assert sorted(vocabulary.values()) == list(range(size))


def test_training_twice_gives_the_same_file(texts, tmp_path):
    for name in ("one", "two"):
        train_tokenizer(texts[:300], 600).save_pretrained(tmp_path / name)
    files = [tmp_path / name / "tokenizer.json" for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("texts, size", [([], 1024), (["a"], 265)])
def test_nothing_to_learn_from_or_no_room_is_an_error(texts, size):
    with pytest.raises(ValueError, match="at least one text and 300 entries"):
        train_tokenizer(texts, size)


# Characters of one to four UTF-8 bytes, with every byte that UTF-8 can hold.
every_character = st.characters(exclude_categories=["Cs"])


@unhurried
@given(st.text(every_character, max_size=80))
def test_any_text_round_trips(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)
    assert tokenizer.decode(ids["input_ids"]) == text
    assert tokenizer.unk_token_id not in ids["input_ids"]


def test_every_byte_is_an_entry(tokenizer):
    some = [*range(0, 0xD800, 61), *range(0xE000, 0x110000, 61)]
    text = "".join(map(chr, [*range(256), *some]))
    assert len(set(text.encode())) == 256 - 13  # 0xC0, 0xC1 and 0xF5.. never occur
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


@unhurried
@given(
    st.text(every_character, max_size=10),
    st.text(string.digits, min_size=1, max_size=12),
    st.text(every_character, max_size=10),
)
def test_every_digit_is_one_token_whatever_stands_around_it(
    tokenizer, before, number, after
):
    ids = tokenizer(before + number + after, split_special_tokens=True)["input_ids"]
    digits = tokenizer.convert_tokens_to_ids(list(string.digits))
    wanted = [digits[int(c)] for c in before + number + after if c in string.digits]
    assert [i for i in ids if i in digits] == wanted
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert not any(set(t) & set(string.digits) for t in tokens if len(t) > 1)


def test_gsm8k_markers_and_operators_are_tokens_of_their_own(tokenizer):
    assert pieces(tokenizer, "<<48/2=24>>24\n#### 24") == (
        ["<<", "4", "8", "/", "2", "=", "2", "4", ">>", "2", "4", "\n"]
        + ["####", " ", "2", "4"]
    )
    assert pieces(tokenizer, "$<<6*5+1-2=29>>29.") == (
        ["$", "<<", "6", "*", "5", "+", "1", "-", "2", "=", "2", "9", ">>"]
        + ["2", "9", "."]
    )


def test_markers_are_tokens_even_when_the_texts_have_none():
    tokenizer = train_tokenizer(["a b c"], 400)
    assert pieces(tokenizer, " <<1>>") == [" ", "<<", "1", ">>"]
    assert pieces(tokenizer, "####") == ["####"]
    assert pieces(tokenizer, "user\nmodel\n") == ["user", "\n", "model", "\n"]


def test_a_word_of_the_laptop_world_is_one_token(tokenizer, texts):
    vocabulary = tokenizer.get_vocab()
    words = {word for text in texts for word in text.split() if word.isalpha()}
    split = [word for word in words if "Ġ" + word not in vocabulary]
    split = [word for word in split if any(" " + word in text for text in texts)]
    assert len(words) > 100 and len(split) <= 0.02 * len(words), split


@pytest.mark.skipif(not GSM8K.is_dir(), reason="no GSM8K folder here")
@pytest.mark.parametrize(
    "split", [pytest.param("train", marks=pytest.mark.slow), "test"]
)
def test_all_of_gsm8k_round_trips(tokenizer, split):
    lines = (GSM8K / f"{split}.jsonl").read_text("utf-8").splitlines()
    texts = [t for row in map(json.loads, lines) for t in row.values()]
    assert len(texts) == {"train": 14946, "test": 2638}[split]
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert tokenizer.batch_decode(ids) == texts


def test_importing_it_is_cheap():
    code = (
        "import sys, helpers.text.chat, helpers.text.tokenizer; "
        "print(sorted({'torch', 'transformers', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_using_it_needs_no_torch_and_says_nothing_about_it(tmp_path):
    code = (
        "import sys; from helpers.text.tokenizer import train_tokenizer; "
        "train_tokenizer(['a b'], 300); print('torch' in sys.modules)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TRANSFORMERS")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=clean,
    )
    assert done.stdout.strip() == "False"
    assert "PyTorch" not in done.stderr
