"""Tokenizers by way of GGUF's metadata: what they encode is what they encoded."""

import copy
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gguf import BYTES, TEXTS, byte_pairs, gemma_pieces
from tokenizers import Tokenizer
from transformers import GemmaTokenizer

from helpers.text import chat, tokenizer
from helpers.text.gguf_tokenizer import SPLITS, to_fields, to_tokenizer

MADE = {cut: byte_pairs(cut) for cut in SPLITS}
BACK = {cut: to_tokenizer(to_fields(made)) for cut, made in MADE.items()}


@settings(max_examples=30, deadline=None)
@given(
    cut=st.sampled_from(sorted(SPLITS)),
    text=st.lists(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from([*TEXTS, "<|im_end|>", "<tool_call>", " 1234", "'s"]),
        ),
        max_size=4,
    ).map("".join),
)
def test_a_tokenizer_that_went_through_metadata_encodes_as_before(cut, text):
    ids = MADE[cut](text)["input_ids"]
    assert BACK[cut](text)["input_ids"] == ids
    assert chat.decode(BACK[cut], ids) == chat.decode(MADE[cut], ids)


@pytest.mark.parametrize("cut", SPLITS)
def test_special_tokens_and_the_template_come_back_and_the_cut_has_its_name(cut):
    fields = to_fields(MADE[cut])
    assert fields["tokenizer.ggml.pre"] == cut
    assert to_fields(BACK[cut]) == fields
    assert BACK[cut].special_tokens_map == MADE[cut].special_tokens_map
    assert BACK[cut].chat_template == MADE[cut].chat_template
    end, tag = MADE[cut].convert_tokens_to_ids(["<|im_end|>", "<tool_call>"])
    assert BACK[cut].decode([end, tag], skip_special_tokens=True) == "<tool_call>"


# --- SentencePiece ---

PIECES = ["<unk>", "<bos>", "<eos>", *(f"<0x{i:02X}>" for i in range(256))]
PIECES += [*"▁abcn", "\n\n", "▁a", "ab", "▁ab", "bc", "abc", "cc", "ccc", "▁ban", "ban"]
PIECES += ["an", "ana"]
KINDS = [2, 3, 3, *[6] * 256, *[1] * 5, 4, *[1] * 11]
SCORES = {"▁a": -1, "ab": -4, "▁ab": -2, "bc": -3, "abc": -9, "cc": -5, "ccc": -6}
SCORES |= {"▁ban": -7, "ban": -8, "an": -2.5, "ana": -2.6}


def pieces(**changes):
    fields = {
        "model": "llama",
        "tokens": PIECES,
        "token_type": KINDS,
        "scores": [float(SCORES.get(piece, -100)) for piece in PIECES],
        "add_space_prefix": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    } | changes
    return {f"tokenizer.ggml.{name}": value for name, value in fields.items()}


def by_hand(text):
    """SentencePiece's BPE: join the neighbours that score best, the leftmost first."""
    parts = [*text.replace(" ", "▁")]
    while True:
        joined = {i: a + b for i, (a, b) in enumerate(pairwise(parts))}
        joined = {i: piece for i, piece in joined.items() if piece in SCORES}
        if not joined:
            break
        best = min(joined, key=lambda i: (-SCORES[joined[i]], i))
        parts[best : best + 2] = [joined[best]]
    known = {piece: [piece] for piece in PIECES}
    as_bytes = [known.get(p, [f"<0x{b:02X}>" for b in p.encode()]) for p in parts]
    return [piece for group in as_bytes for piece in group]


SENTENCE_PIECE = to_tokenizer(pieces())


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=" abcné三", max_size=14))
def test_scores_join_what_sentencepiece_joins(text):
    assert SENTENCE_PIECE.tokenize(text) == by_hand(text)
    ids = SENTENCE_PIECE(text)["input_ids"]
    assert chat.decode(SENTENCE_PIECE, ids) == text


# --- Gemma 4's merges of pieces ---

GEMMA = {
    "special": ("<pad>", "<eos>", "<bos>", "<unk>", "<turn|>", "<|tool_call>", '<|"|>'),
    "eos_token": "<eos>",
    "template": "<bos>{{ messages[0]['content'] }}<turn|>",
}
OF_GEMMA = gemma_pieces(**GEMMA)
GEMMA_BACK = to_tokenizer(to_fields(OF_GEMMA))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.text(max_size=12) | st.sampled_from([*TEXTS, "<turn|>", "\n\n\n", "  é 三"]),
        max_size=4,
    ).map("".join)
)
def test_pieces_come_back_as_transformers_itself_makes_gemmas_tokenizer(text):
    model = json.loads(OF_GEMMA.backend_tokenizer.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    theirs = GemmaTokenizer(vocab=model["vocab"], merges=merges)
    theirs.add_special_tokens({"additional_special_tokens": [*GEMMA["special"]]})
    ids = OF_GEMMA(text)["input_ids"]
    assert GEMMA_BACK(text)["input_ids"] == ids
    assert theirs(text, add_special_tokens=False)["input_ids"] == ids[1:]
    assert chat.decode(GEMMA_BACK, ids) == chat.decode(OF_GEMMA, ids)


def test_metadata_of_pieces_are_llama_cpps():
    """conversion/gemma.py: what the text of calls is read out of is shown."""
    fields = to_fields(OF_GEMMA)
    assert fields["tokenizer.ggml.model"] == "gemma4"
    assert fields["tokenizer.ggml.add_bos_token"]
    assert not fields["tokenizer.ggml.add_space_prefix"]
    entries, kinds = (fields[f"tokenizer.ggml.{x}"] for x in ("tokens", "token_type"))
    kinds = dict(zip(entries, kinds, strict=True))
    assert kinds["<turn|>"] == 3 and kinds["<|tool_call>"] == kinds['<|"|>'] == 4
    assert kinds["<unk>"] == 2 and {kinds[byte] for byte in BYTES} == {6}
    assert to_fields(GEMMA_BACK) == fields
    assert GEMMA_BACK.all_special_ids == OF_GEMMA.all_special_ids
    ids = OF_GEMMA("<|tool_call>a", add_special_tokens=False)["input_ids"]
    for made in (OF_GEMMA, GEMMA_BACK):
        assert made.decode(ids, skip_special_tokens=True) == "a"


def test_llama_cpp_begins_with_the_first_token_whatever_the_file_says():
    """llama-vocab.cpp: "workaround for Gemma 4"."""
    fields = to_fields(OF_GEMMA) | {"tokenizer.ggml.add_bos_token": False}
    assert to_tokenizer(fields)("a").input_ids == OF_GEMMA("a").input_ids
    other = copy.deepcopy(OF_GEMMA)
    other.chat_template = "{{ messages[0]['content'] }}<turn|>"
    with pytest.raises(ValueError, match="begins every text of Gemma with"):
        to_fields(other)


def as_gemma(parts):
    return tokenizer.tokenizer_class()(
        tokenizer_object=Tokenizer.from_str(json.dumps(parts)),
        chat_template=GEMMA["template"],
        bos_token="<bos>",
        eos_token="<eos>",
    )


def no_byte(parts):
    vocab = parts["model"]["vocab"]
    vocab["<0xA>"] = vocab.pop("<0x0A>")


def ends_with_eos(parts):
    after = {"SpecialToken": {"id": "<eos>", "type_id": 0}}
    parts["post_processor"]["single"].append(after)
    eos = {"id": "<eos>", "ids": [1], "tokens": ["<eos>"]}
    parts["post_processor"]["special_tokens"]["<eos>"] = eos


OTHERWISE = {
    "no name for the way": lambda p: p.update(pre_tokenizer={"type": "Whitespace"}),
    "llama.cpp has no name": no_byte,
    "so a GGUF file of it": lambda p: p["model"].update(ignore_merges=True),
    "ends every text with a token": ends_with_eos,
}


@pytest.mark.parametrize("message", OTHERWISE)
def test_pieces_that_llama_cpp_would_read_otherwise_are_not_written(message):
    parts = json.loads(OF_GEMMA.backend_tokenizer.to_str())
    assert to_fields(as_gemma(parts))
    OTHERWISE[message](parts)
    with pytest.raises(ValueError, match=message):
        to_fields(as_gemma(parts))


# --- what is refused ---

WRONG = {
    "model is 'bert'": {"model": "bert"},
    "An entry stands": {"tokens": ["a", "a"], "token_type": [1, 1]},
    "add_space_prefix is on": {"add_space_prefix": True},
    "split, is None": {"model": "gpt2", "merges": []},
    "split, is 'falcon'": {"model": "gpt2", "pre": "falcon", "merges": []},
    "add_eos_token is on.* Take the model's folder": {"add_eos_token": True},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_makes_no_tokenizer_is_refused(message):
    with pytest.raises(ValueError, match=message):
        to_tokenizer(pieces(**WRONG[message]))


# --- what llama.cpp does by itself, as it was seen to by `make gguf-check` ---


def test_llama_3_takes_a_word_that_is_an_entry_whole_whatever_merges_first():
    """ids by llama.cpp: xyz is one token there, though no merge makes it."""
    parts = json.loads(MADE["llama-bpe"].backend_tokenizer.to_str())["model"]
    tokens = [*sorted(parts["vocab"], key=parts["vocab"].get), "xyz"]
    merges = [" ".join(merge) for merge in parts["merges"]]
    fields = {"model": "gpt2", "tokens": tokens, "merges": merges, "eos_token_id": 2}
    fields["token_type"] = [3, 3, 3, *[1] * (len(tokens) - 3)]
    whole, merged = (
        to_tokenizer({f"tokenizer.ggml.{k}": v for k, v in (fields | pre).items()})
        for pre in ({"pre": "llama-bpe"}, {"pre": "qwen2"})
    )
    assert whole.tokenize("xyz") == ["xyz"] and merged.tokenize("xyz") == [*"xyz"]


def test_qwen_is_written_with_the_normalizer_of_its_files_and_read_with_it():
    """NFC: Qwen2Tokenizer of transformers sets it; GGUF has no place for it."""
    apart, joined = "cafe\u0301", "caf\u00e9"
    assert MADE["qwen2"].tokenize(apart) == MADE["qwen2"].tokenize(joined)
    assert BACK["qwen2"].tokenize(apart) == BACK["qwen2"].tokenize(joined)
    assert BACK["smollm"].tokenize(apart) != BACK["smollm"].tokenize(joined)


def test_what_begins_every_text_comes_back_and_is_a_habit_of_two_kinds():
    """llama-vocab.cpp: `add_bos` is on for SentencePiece and Llama 3."""
    start = {"first": "<|im_start|>", "bos_token": "<|im_start|>"}
    begun = byte_pairs("llama-bpe", eos_token="<|im_end|>", **start)
    fields = to_fields(begun)
    assert fields["tokenizer.ggml.add_bos_token"]
    silent = {k: v for k, v in fields.items() if not k.endswith("add_bos_token")}
    for each in (fields, silent):
        assert to_tokenizer(each)("12 apples").input_ids == begun("12 apples").input_ids
    other = to_tokenizer(silent | {"tokenizer.ggml.pre": "qwen2"})
    assert other("a").input_ids == begun("a").input_ids[1:]
    assert SENTENCE_PIECE("a").input_ids[0] == 1
    without = to_tokenizer(pieces(add_bos_token=False))
    assert without("a").input_ids == SENTENCE_PIECE("a").input_ids[1:]


def test_what_ends_a_turn_is_written_as_llama_cpp_knows_few_ends_by_name():
    template = "{% for m in messages %}[turn]{{ m.content }}[/turn]{% endfor %}"
    template += "{% if add_generation_prompt %}[turn]{% endif %}"
    special = ("</s>", "[turn]", "[/turn]")
    other = byte_pairs("gpt-2", special=special, template=template, eos_token="</s>")
    fields = to_fields(other)
    assert fields["tokenizer.ggml.eos_token_id"] == 0
    assert fields["tokenizer.ggml.eot_token_id"] == 2
    assert chat.eos_ids(to_tokenizer(fields)) == chat.eos_ids(other) == (2, 0)
