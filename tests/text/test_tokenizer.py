"""The course's own tokenizer: every text survives, numbers are read digit by digit."""

import errno
import json
import string

import family_tokenizers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_disk import disk_of

from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

unhurried = settings(deadline=None, max_examples=25)


@pytest.fixture(scope="module")
def texts():
    rows = word_problems.generate(100, seed=1, levels=(1, 2, 3, 4))
    return [row["question"] + "\n" + row["answer"] for row in rows]


@pytest.fixture(scope="module")
def tokenizer(texts):
    return train_tokenizer(texts, 1024)


def pieces(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [tokenizer.decode([i]) for i in ids]


# Characters of one to four UTF-8 bytes, with every byte that UTF-8 can hold.
every_character = st.characters(exclude_categories=["Cs"])


@unhurried
@given(st.text(every_character, max_size=80))
def test_any_text_round_trips(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)
    assert tokenizer.decode(ids["input_ids"]) == text
    assert tokenizer.unk_token_id not in ids["input_ids"]


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


# --- folders ---


def test_a_saved_tokenizer_is_the_same_and_others_can_read_it(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    chat.save_tokenizer(tokenizer, tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["model_input_names"] == ["input_ids", "attention_mask"]
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    wanted = chat.example_tokens(tokenizer, "What?", "<bos> 7")
    for loaded in (chat.load_tokenizer(tmp_path), theirs):
        assert chat.example_tokens(loaded, "What?", "<bos> 7") == wanted
        assert chat.eos_ids(loaded) == chat.eos_ids(tokenizer)
        assert loaded.pad_token_id == 0


def test_what_is_wrong_with_a_folder_is_named(tokenizer, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json"):
        chat.load_tokenizer(tmp_path)
    chat.save_tokenizer(tokenizer, tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match="no chat template.*instruct"):
        chat.load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
)
def test_a_damaged_tokenizer_is_an_error_that_names_the_folder(
    tokenizer, tmp_path, name
):
    chat.save_tokenizer(tokenizer, tmp_path)
    whole = (tmp_path / name).read_bytes()
    for damaged in (b"\xff\x80", whole[: len(whole) // 2] + b"\xff"):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{tmp_path} cannot be read.*delete it"):
            chat.load_tokenizer(tmp_path)


def test_a_tokenizer_that_puts_a_space_before_every_text_is_refused(
    tokenizer, tmp_path
):
    """Llama 2's and TinyLlama's: prompt and answer are encoded as two texts."""
    chat.save_tokenizer(tokenizer, tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = json.loads(path.read_text())
    space = {"normalizer": {"type": "Prepend", "prepend": "_"}}
    path.write_text(json.dumps(whole | space))
    with pytest.raises(ValueError, match="puts a space"):
        chat.load_tokenizer(tmp_path)


@pytest.mark.parametrize("room", [0, 2000])
def test_a_full_disk_is_an_os_error_whoever_writes(tokenizer, tmp_path, room):
    """The template and the settings are Python's to write, the rest is Rust's."""
    with disk_of(room), pytest.raises(OSError) as caught:
        chat.save_tokenizer(tokenizer, tmp_path)
    assert caught.value.errno == errno.EFBIG


def test_a_folders_own_template_wins(tmp_path):
    family_tokenizers.save(tmp_path, "qwen2")
    template = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    assert chat.load_tokenizer(tmp_path).chat_template == template


def test_a_model_that_is_not_to_think_never_does_also_after_saving(tmp_path):
    thinks = chat.load_tokenizer(family_tokenizers.save(tmp_path, "qwen3"))
    settled = chat.without_thinking(thinks)
    prompt = chat.prompt_tokens(thinks, "Hi", thinking=False)
    assert chat.prompt_tokens(settled, "Hi") == prompt
    assert chat.prompt_tokens(thinks, "Hi") != prompt  # the other is as it was
    assert chat.example_tokens(settled, "Hi", "Ho") == chat.example_tokens(
        thinks, "Hi", "Ho", thinking=False
    )
    chat.save_tokenizer(settled, tmp_path / "again")
    again = chat.load_tokenizer(tmp_path / "again")
    assert chat.prompt_tokens(again, "Hi") == prompt
    with pytest.raises(ValueError, match="same prompt with thinking on and off"):
        chat.prompt_tokens(settled, "Hi", thinking=True)


def test_gemmas_first_token_is_there_when_its_settings_do_not_name_it(tmp_path):
    family_tokenizers.save(tmp_path, "gemma3_text")
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    settings.pop("bos_token")
    path.write_text(json.dumps(settings))
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    tokenizer = chat.load_tokenizer(tmp_path)
    prompt = chat.prompt_tokens(tokenizer, "Hi")
    assert tokenizer.decode(prompt).startswith("<bos><start_of_turn>")


def test_a_tokenizer_of_another_family_is_refused(tmp_path):
    folder = family_tokenizers.save(tmp_path, "qwen2", model_type="gemma3")
    missing = "nor gemma3's special tokens <end_of_turn>, <start_of_turn>"
    with pytest.raises(ValueError, match=missing):
        chat.load_tokenizer(folder)


@pytest.mark.parametrize("config", [b'{"model_type": "gpt2"}', b"[]", b'{"model_type'])
def test_an_unknown_family_or_a_damaged_config_without_a_template_is_refused(
    tmp_path, config
):
    folder = family_tokenizers.save(tmp_path, "qwen2")
    (folder / "config.json").write_bytes(config)
    with pytest.raises(ValueError, match="no chat template.*instruct"):
        chat.load_tokenizer(folder)
