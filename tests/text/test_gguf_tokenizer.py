"""Tokenizers by way of GGUF's metadata: what they encode is what they encoded."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, trainers

from helpers.text import chat, gguf_tokenizer, tokenizer
from helpers.text.gguf_tokenizer import (
    CUTS,
    GGUFTokenizerError,
    to_fields,
    to_tokenizer,
)

TEXTS = [
    "How many apples has Mia got? 12 or 345!\n\n  She's 7.\r\n",
    "don't\t naïve 三个",
]


def byte_pairs(cut, size=340):
    """A small tokenizer of words that are cut as llama.cpp's `cut` says."""
    core = Tokenizer(models.BPE())
    steps = {"type": "Sequence", "pretokenizers": CUTS[cut]}
    parts = json.loads(core.to_str()) | {"pre_tokenizer": steps}
    core = Tokenizer.from_str(json.dumps(parts))
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(tokenizer_bytes()),
        show_progress=False,
    )
    core.train_from_iterator(TEXTS * 3, trainer)
    core.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return tokenizer.tokenizer_class()(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template="{{ messages[0]['content'] }}",
        clean_up_tokenization_spaces=False,
    )


def tokenizer_bytes():
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel.alphabet()


MADE = {cut: byte_pairs(cut) for cut in CUTS}
BACK = {cut: to_tokenizer(to_fields(made)) for cut, made in MADE.items()}


@settings(max_examples=150, deadline=None)
@given(
    cut=st.sampled_from(sorted(CUTS)),
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


@pytest.mark.parametrize("cut", CUTS)
def test_special_tokens_and_the_template_come_back_and_the_cut_has_its_name(cut):
    fields = to_fields(MADE[cut])
    assert fields["tokenizer.ggml.pre"] == cut
    assert to_fields(BACK[cut]) == fields
    assert BACK[cut].special_tokens_map == MADE[cut].special_tokens_map
    assert BACK[cut].chat_template == MADE[cut].chat_template
    end, tag = MADE[cut].convert_tokens_to_ids(["<|im_end|>", "<tool_call>"])
    assert BACK[cut].decode([end, tag], skip_special_tokens=True) == "<tool_call>"


def test_cuts_differ_where_digits_are():
    seen = {cut: len(MADE[cut].tokenize("a 12345")) for cut in CUTS}
    pieces = {
        cut: [
            p for p, _ in made.backend_tokenizer.pre_tokenizer.pre_tokenize_str("12345")
        ]
        for cut, made in MADE.items()
    }
    assert pieces["gpt-2"] == ["12345"] and pieces["llama-bpe"] == ["123", "45"]
    assert pieces["smollm"] == pieces["qwen2"] == [*"12345"] and all(seen.values())


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


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=" abcné三", max_size=14))
def test_scores_join_what_sentencepiece_joins(text):
    assert SENTENCE_PIECE.tokenize(text) == by_hand(text)
    ids = SENTENCE_PIECE(text)["input_ids"]
    assert chat.decode(SENTENCE_PIECE, ids) == text


def test_what_the_user_defined_is_one_token_and_shown():
    assert SENTENCE_PIECE.tokenize("a\n\nb<eos>") == ["a", "\n\n", "b", "<eos>"]
    ids = SENTENCE_PIECE("a\n\nb<eos>")["input_ids"]
    assert SENTENCE_PIECE.decode(ids, skip_special_tokens=True) == "a\n\nb"


# --- what is refused ---

WRONG = {
    "model is 'bert'": {"model": "bert"},
    "no tokenizer.ggml.model": {"model": 3},
    "no tokenizer.ggml.tokens": {"tokens": None},
    "not a list of texts": {"tokens": [1, 2]},
    "has one twice": {"tokens": ["a", "a"], "token_type": [1, 1]},
    "token_type has another length": {"token_type": [1]},
    "token_type has 9": {"token_type": [9] * len(PIECES)},
    "1 scores for": {"scores": [0.0]},
    "add_space_prefix is on": {"add_space_prefix": True},
    "eos_token_id is 5000": {"eos_token_id": 5000},
    "bos_token_id is -1": {"bos_token_id": -1},
    "pre is 'falcon'": {"model": "gpt2", "pre": "falcon", "merges": []},
    "merge .* is not one of two": {"model": "gpt2", "pre": "smollm", "merges": ["abc"]},
    "make no tokenizer": {"model": "gpt2", "pre": "smollm", "merges": ["q zz"]},
}


@pytest.mark.parametrize("said", WRONG)
def test_what_makes_no_tokenizer_is_refused(said):
    with pytest.raises(GGUFTokenizerError, match=said):
        to_tokenizer(pieces(**WRONG[said]))
    with pytest.raises(GGUFTokenizerError, match="template is no text"):
        to_tokenizer(pieces() | {"tokenizer.chat_template": 3})


def test_the_courses_own_tokenizer_has_no_name_in_llama_cpp():
    own = tokenizer.train_tokenizer(["How many apples has Mia?"], 300)
    with pytest.raises(GGUFTokenizerError, match="no name for the way"):
        to_fields(own)
    assert "smollm" in str(gguf_tokenizer.CUTS.keys())
