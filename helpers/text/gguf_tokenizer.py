"""Tokenizers from and to the metadata of GGUF files, llama.cpp's one-file format.

Such a file holds the entries, the kind of each, and merges or scores. How text is
split before anything merges is only named; what the name means stands in llama.cpp's
source (llama-vocab.cpp), and here as tokenizer.json would have it. Three kinds of
tokenizer are known: byte pairs as in GPT-2, of Qwen, Llama 3 and SmolLM2;
SentencePiece's scores, of Gemma 3; and merges of SentencePiece's pieces, of Gemma 4.
The latter two write a space as ▁, and what is no entry as its bytes (`<0xE4>`).
"""

import json
import re
from math import isfinite
from typing import NamedTuple

from helpers.text import chat
from helpers.text.tokenizer import tokenizer_class

BYTE_PAIRS, SENTENCE_PIECE, PIECES = "gpt2", "llama", "gemma4"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
FETCH = "Fetch the file again, or take the model's folder of safetensors."
INSTEAD = "Save a folder in place of it."
# The share of entries that may be made by no merge. SmolLM2 has none; of Gemma 3's,
# 2.6% are spare ones and tags, which llama.cpp's converter may call normal.
LOOSE = 0.05
# Control tokens that llama.cpp shows, because it reads calls out of the text
# (conversion/gemma.py); in the family's own folders they are special.
SHOWN = frozenset(
    ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>')
    + ("<|tool_response>", "<tool_response|>")
)


class GGUFTokenizerError(ValueError):
    """The metadata of a GGUF file make no tokenizer, or a tokenizer no metadata."""


class Split(NamedTuple):
    """What a name of `tokenizer.ggml.pre` stands for.

    steps: the pre-tokenizers. whole: a word that is an entry stays whole, whatever
    merges first (`ignore_merges`). normalizer: that of the family's own files, which
    llama.cpp leaves out; what it would change becomes other tokens there.
    """

    steps: list
    whole: bool = False
    normalizer: dict | None = None


def _byte_level(use_regex):
    """The step that writes bytes as letters; with `use_regex` it splits as GPT-2."""
    flags = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel"} | flags


def _words(digits):
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return [split | {"invert": False}, _byte_level(use_regex=False)]


_DIGITS = {"type": "Digits", "individual_digits": True}
SPLITS = {
    "gpt-2": Split([_byte_level(use_regex=True)]),
    "smollm": Split([_DIGITS, _byte_level(use_regex=True)]),
    "qwen2": Split(_words(r"\p{N}"), normalizer={"type": "NFC"}),
    "llama-bpe": Split(_words(r"\p{N}{1,3}"), whole=True),
}
_SPACE = {"String": " "}
AROUND_PIECES = {  # in tokenizer.json
    "normalizer": {"type": "Replace", "pattern": _SPACE, "content": "▁"},
    "pre_tokenizer": {
        "type": "Split",
        "pattern": _SPACE,
        "behavior": "MergedWithPrevious",
        "invert": False,
    },
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    },
}
BYTES = frozenset(f"<0x{i:02X}>" for i in range(256))


# --- from a file ---


def to_tokenizer(fields: dict):
    """The tokenizer that a GGUF file's metadata describe, chat template included.

    Args:
      fields: the metadata by key, as `model.gguf_file.GGUFFile.fields`.
    Returns:
      A transformers.PreTrainedTokenizerFast; without a template if they have none.
    Raises:
      GGUFTokenizerError: a part is missing or impossible, or the kind is not known.
    """
    from tokenizers import Tokenizer

    model = fields.get("tokenizer.ggml.model")
    readers = {
        BYTE_PAIRS: _byte_pairs,
        SENTENCE_PIECE: _sentence_piece,
        PIECES: _pieces,
    }
    if model not in readers:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.model is {model!r:.40}, none of {', '.join(readers)}. "
            f"{FETCH}"
        )
    try:
        entries = list(fields["tokenizer.ggml.tokens"])
        kinds = list(fields.get("tokenizer.ggml.token_type", [NORMAL] * len(entries)))
        if len(set(entries)) < len(entries):
            raise ValueError("an entry stands there twice")
        special = _special_tokens(fields, entries)
        parts = readers[model](fields, entries, kinds)
        parts["added_tokens"] = [
            {
                "id": i,
                "content": entry,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": kind in (UNKNOWN, CONTROL) or entry in SHOWN,
            }
            for i, (entry, kind) in enumerate(zip(entries, kinds, strict=True))
            if kind in (UNKNOWN, CONTROL, USER_DEFINED)
        ]
        whole = {"version": "1.0", "truncation": None, "padding": None}
        whole |= {"normalizer": None, "post_processor": _begin(fields, special)}
        core = Tokenizer.from_str(json.dumps(whole | parts))
        return tokenizer_class()(
            tokenizer_object=core,
            chat_template=fields.get("tokenizer.chat_template"),
            clean_up_tokenization_spaces=False,
            **special,
        )
    except GGUFTokenizerError:
        raise
    except KeyError as error:
        raise GGUFTokenizerError(f"The file has no {error}. {FETCH}") from None
    except Exception as error:  # tokenizers has no class of its own for its errors
        raise GGUFTokenizerError(
            f"The tokenizer's entries do not fit together: {error}. {FETCH}"
        ) from None


def _special_tokens(fields, entries):
    """{"bos_token": "<bos>"} and the like, of those that the file names."""
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    special = {}
    for theirs, ours in names.items():
        number = fields.get(f"tokenizer.ggml.{theirs}_token_id")
        if number is not None:
            if not 0 <= number < len(entries):
                raise ValueError(f"the {theirs} token is {number}")
            special[f"{ours}_token"] = entries[number]
    return special


def _begin(fields, special):
    """The post-processor that begins texts with the bos token; None: they do without.

    Chat templates say where an answer ends, so no text is ended. Where a file does not
    say it, llama.cpp begins texts of SentencePiece and Llama 3 so; and those of Gemma 4
    whatever the file says.
    """
    if fields.get("tokenizer.ggml.add_eos_token"):
        raise GGUFTokenizerError(
            "tokenizer.ggml.add_eos_token is on: llama.cpp ends every text with a "
            "token, and here none would be. Take the model's folder of safetensors, or "
            "another file."
        )
    model, bos = fields["tokenizer.ggml.model"], special.get("bos_token")
    default = model != BYTE_PAIRS or fields.get("tokenizer.ggml.pre") == "llama-bpe"
    wanted = fields.get("tokenizer.ggml.add_bos_token", default) or model == PIECES
    if bos is None or not wanted:
        return None
    first = {"SpecialToken": {"id": bos, "type_id": 0}}
    text, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    number = fields["tokenizer.ggml.bos_token_id"]
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, first, other],
        "special_tokens": {bos: {"id": bos, "ids": [number], "tokens": [bos]}},
    }


def _byte_pairs(fields, entries, kinds):
    """Of tokenizer.json: what merges, and how text is split first."""
    name = fields.get("tokenizer.ggml.pre")
    if name not in SPLITS:  # without a name llama.cpp warns of worse answers
        raise GGUFTokenizerError(
            f"tokenizer.ggml.pre is {name!r:.40}. It names how text is split into "
            f"words, and this knows {', '.join(SPLITS)}; split otherwise, text becomes "
            "tokens that the model was not trained on. Take a newer file of the model, "
            "or its folder of safetensors."
        )
    steps, whole, normalizer = SPLITS[name]
    merges = _merges(fields)
    if not whole:
        _require_merges(entries, kinds, merges, FETCH)
    return {
        "model": _bpe(entries, merges) | {"ignore_merges": whole},
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": _byte_level(use_regex=True),
    }


def _sentence_piece(fields, entries, kinds):
    """As `_byte_pairs`; merges are made of scores: what scores best comes first."""
    scores = fields["tokenizer.ggml.scores"]
    if not all(map(isfinite, scores)):
        raise ValueError("a score is no finite number")
    if fields.get("tokenizer.ggml.add_space_prefix", True):
        raise GGUFTokenizerError(
            "tokenizer.ggml.add_space_prefix is on: a text begins with a space that is "
            "not there, as in Llama 2, which is not supported. Take another model."
        )
    numbers = {entry: i for i, entry in enumerate(entries)}
    merges = []
    for entry, kind, score in zip(entries, kinds, scores, strict=True):
        if kind == NORMAL:
            halves = ((entry[:i], entry[i:]) for i in range(1, len(entry)))
            known = [(a, b) for a, b in halves if a in numbers and b in numbers]
            known.sort(key=lambda pair: (numbers[pair[0]], numbers[pair[1]]))
            merges += [(-score, pair) for pair in known]
    merges.sort(key=lambda merge: merge[0])  # stable: ties stay in the entries' order
    return _of_pieces(entries, kinds, [pair for _, pair in merges])


def _pieces(fields, entries, kinds):
    """As `_byte_pairs`, of Gemma 4; llama.cpp looks at no other habit in the file."""
    merges = _merges(fields)
    _require_merges(entries, kinds, merges, FETCH)
    return _of_pieces(entries, kinds, merges)


def _of_pieces(entries, kinds, merges):
    unknown = entries[kinds.index(UNKNOWN)] if UNKNOWN in kinds else None
    settings = {"byte_fallback": True, "fuse_unk": True, "unk_token": unknown}
    return AROUND_PIECES | {"model": _bpe(entries, merges) | settings}


def _require_merges(entries, kinds, merges, remedy):
    """Refuses a tokenizer that lacks merges: what they would make stays in pieces."""
    made = {left + right for left, right in merges}
    normal = (e for e, kind in zip(entries, kinds, strict=True) if kind == NORMAL)
    several = [entry for entry in normal if len(entry) > 1]
    loose = [entry for entry in several if entry not in made]
    if len(loose) > LOOSE * len(several):
        raise GGUFTokenizerError(
            f"{len(loose):,} of {len(several):,} entries are made by no merge, first "
            f"{loose[0]!r:.40}: merges are missing, and without them text becomes more "
            f"tokens than the model was trained on. {remedy}"
        )


def _merges(fields):
    """[[left, right], …] as the file lists them."""
    merges = [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]]
    if wrong := next((m for m in merges if len(m) != 2), None):
        raise ValueError(f"the merge {wrong!r:.80} is not one of two entries")
    return merges


def _bpe(entries, merges):
    vocab = {entry: i for i, entry in enumerate(entries)}
    return {"type": "BPE", "vocab": vocab, "merges": merges}


# --- to a file ---


def to_fields(tokenizer) -> dict:
    """The metadata that describe a tokenizer of merges; `to_tokenizer` undoes it.

    Raises:
      GGUFTokenizerError: llama.cpp has no name for the way it splits text, or it is of
        another kind, or lacks merges.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    model = parts["model"]
    kind_fields = _kind_of(parts)
    _require_plain(tokenizer, parts)
    added = {token["id"]: token for token in parts["added_tokens"]}
    by_id = {i: entry for entry, i in model["vocab"].items()}
    by_id |= {i: token["content"] for i, token in added.items()}
    entries = [by_id.get(i, f"<unused_{i}>") for i in range(max(by_id) + 1)]
    kinds = [NORMAL if i in by_id else UNUSED for i in range(len(entries))]
    if kind_fields["model"] == PIECES:
        kinds = [BYTE if e in BYTES else k for e, k in zip(entries, kinds, strict=True)]
        if model["unk_token"] in model["vocab"]:
            kinds[model["vocab"][model["unk_token"]]] = UNKNOWN
    for i, token in added.items():
        hidden = token["special"] and token["content"] not in SHOWN
        if kinds[i] != UNKNOWN:
            kinds[i] = CONTROL if hidden else USER_DEFINED
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    if not merges:  # and gguf's writer leaves out an empty list
        raise GGUFTokenizerError(
            f"This tokenizer has no merges, and llama.cpp reads none without. {INSTEAD}"
        )
    if not model.get("ignore_merges"):
        _require_merges(entries, kinds, merges, INSTEAD)
    fields = kind_fields | {
        "tokens": entries,
        "token_type": kinds,
        "merges": [" ".join(pair) for pair in merges],
        "add_bos_token": _begins_with_bos(tokenizer, kind_fields["model"]),
    }
    for name, number in (
        ("bos", tokenizer.bos_token_id),
        ("eos", tokenizer.eos_token_id),
        ("eot", _turn_end(tokenizer)),
        ("unknown", tokenizer.unk_token_id),
        ("padding", tokenizer.pad_token_id),
    ):
        if number is not None:
            fields[f"{name}_token_id"] = number
    fields = {f"tokenizer.ggml.{name}": value for name, value in fields.items()}
    if tokenizer.chat_template:
        fields["tokenizer.chat_template"] = tokenizer.get_chat_template()
    return fields


def _turn_end(tokenizer):
    """The id that ends a turn; llama.cpp knows only the well-known ones by name."""
    try:
        return chat.eos_ids(tokenizer)[0] if tokenizer.chat_template else None
    except ValueError as error:
        raise GGUFTokenizerError(str(error)) from None


def _kind_of(parts):
    """What the file says of how text is split."""
    model = parts["model"]
    names = [name for name, split in SPLITS.items() if _splits_so(split, parts)]
    if model["type"] == "BPE" and names:
        return {"model": BYTE_PAIRS, "pre": names[0]}
    if model["type"] == "BPE" and _are_pieces(parts):
        return {"model": PIECES, "add_space_prefix": False}
    raise GGUFTokenizerError(
        "llama.cpp has no name for the way in which this tokenizer splits text (it "
        f"knows those of {', '.join(SPLITS)} and Gemma), so a GGUF file of it would "
        f"read other tokens. {INSTEAD}"
    )


def _splits_so(split, parts):
    """Whether a tokenizer.json splits text so; without the normalizer, too."""

    def bare(step):
        return {k: v for k, v in step.items() if k not in ("trim_offsets", "invert")}

    first = parts["pre_tokenizer"]
    steps = first.get("pretokenizers", [first]) if first else []
    return (
        [bare(step) for step in steps] == [bare(step) for step in split.steps]
        and parts["model"].get("ignore_merges", False) == split.whole
        and parts["normalizer"] in (None, split.normalizer)
    )


def _are_pieces(parts):
    """Whether llama.cpp would read such a tokenizer.json as Gemma 4's.

    It takes rows of line ends apart from all else, and has no unknown token, so every
    byte has to be an entry.
    """
    model = parts["model"]
    merges = (m.split(" ") if isinstance(m, str) else m for m in model["merges"])
    joined = ("".join(pair) for pair in merges)
    return (
        parts["normalizer"] == AROUND_PIECES["normalizer"]
        and parts["pre_tokenizer"] in (AROUND_PIECES["pre_tokenizer"], None)
        and model.get("byte_fallback")
        and model["vocab"].keys() >= BYTES
        and not model.get("ignore_merges")
        and not any(re.search(r" |\n[^\n]|[^\n]\n", entry) for entry in joined)
    )


def _require_plain(tokenizer, parts):
    """Refuses habits that a GGUF file has no word for."""
    strange = {
        name
        for token in parts["added_tokens"]
        for name in ("lstrip", "rstrip", "single_word")
        if token[name]
    }
    bare = tokenizer("x", add_special_tokens=False)["input_ids"]
    if tokenizer("x")["input_ids"][-1:] != bare[-1:]:
        strange.add("a token after every text")
    line_ends = (entry for entry in parts["model"]["vocab"] if set(entry) == {"\n"})
    if any(len(tokenizer.tokenize(entry)) > 1 for entry in line_ends):
        strange.add("line ends that are one entry, and that no merges make")
    if strange:
        raise GGUFTokenizerError(
            f"A GGUF file has no word for habits of this tokenizer "
            f"({', '.join(sorted(strange))}). {INSTEAD}"
        )


def _begins_with_bos(tokenizer, model):
    """Whether every text begins so, those that the template writes among them.

    llama.cpp would begin these so, too, where the model never saw it. Texts of Gemma it
    always begins so, in whose folders only the template does.
    """
    bos, texts = tokenizer.bos_token_id, []
    if model != PIECES:
        texts.append(tokenizer("x")["input_ids"])
    if tokenizer.chat_template:
        texts.append(chat.prompt_tokens(tokenizer, "x"))
    begins = all(ids and ids[0] == bos for ids in texts)
    if model == PIECES and not begins:
        raise GGUFTokenizerError(
            "llama.cpp begins every text of Gemma with its first token, and this "
            f"tokenizer's template does not. {INSTEAD}"
        )
    return begins
