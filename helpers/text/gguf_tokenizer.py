"""Tokenizers from and to the metadata of GGUF files, llama.cpp's one-file format.

Such a file holds the entries, the kind of each, and merges or scores. How text is
split before anything merges is only named; what the name means stands in llama.cpp's
source (llama-vocab.cpp), and here as tokenizer.json would have it. Three kinds of
tokenizer are known: byte pairs as in GPT-2, of Qwen, Llama 3 and SmolLM2;
SentencePiece's scores, of Gemma 3; and merges of SentencePiece's pieces, of Gemma 4.
The latter two write a space as ▁, and what is no entry as its bytes (`<0xE4>`).
"""

import json
from pathlib import Path
from typing import NamedTuple

from helpers.text import chat
from helpers.text.tokenizer import tokenizer_class

BYTE_PAIRS, SENTENCE_PIECE, PIECES = "gpt2", "llama", "gemma4"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
INSTEAD = "Save a folder in place of it."
# Control tokens that llama.cpp shows, because it reads calls out of the text
# (conversion/gemma.py); in the family's own folders they are special.
SHOWN = frozenset(
    ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>')
    + ("<|tool_response>", "<tool_response|>")
)


class Split(NamedTuple):
    """What a name of `tokenizer.ggml.pre` stands for.

    steps: the pre-tokenizers. whole: a word that is an entry stays whole, whatever
    merges first (`ignore_merges`). normalizer: that of the family's own files, which
    llama.cpp leaves out; what it would change becomes other tokens there.
    """

    steps: list
    whole: bool = False
    normalizer: dict | None = None


# Parts of a tokenizer.json.
_PARTS = json.loads(Path(__file__).with_name("gguf_splits.json").read_text("utf-8"))
BYTE_LEVEL, AROUND_PIECES = _PARTS["byte_level"], _PARTS["pieces"]
SPLITS = {name: Split(**parts) for name, parts in _PARTS["splits"].items()}
BYTES = frozenset(f"<0x{i:02X}>" for i in range(256))


# --- from a file ---


def to_tokenizer(fields: dict):
    """The tokenizer that a GGUF file's metadata describe, chat template included.

    Args:
      fields: the metadata by key, as `model.gguf.GGUFFile.fields`.
    Returns:
      A transformers.PreTrainedTokenizerFast; without a template if they have none.
    Raises:
      ValueError: the kind is not known, or a habit of it.
      Exception: whatever damaged metadata lead to.
    """
    from tokenizers import Tokenizer

    readers = {
        BYTE_PAIRS: _byte_pairs,
        SENTENCE_PIECE: _sentence_piece,
        PIECES: _of_pieces,
    }
    model = fields["tokenizer.ggml.model"]
    if model not in readers:
        raise ValueError(f"tokenizer.ggml.model is {model!r:.40}: not supported.")
    entries = list(fields["tokenizer.ggml.tokens"])
    kinds = list(fields.get("tokenizer.ggml.token_type", [NORMAL] * len(entries)))
    if len(set(entries)) < len(entries):
        raise ValueError("An entry stands in the file twice.")
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {x: fields.get(f"tokenizer.ggml.{y}_token_id") for x, y in names.items()}
    special = {f"{x}_token": entries[i] for x, i in ids.items() if i is not None}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added_tokens = [
        {"id": i, "content": entry, **flags}
        | {"special": kind in (UNKNOWN, CONTROL) or entry in SHOWN}
        for i, (entry, kind) in enumerate(zip(entries, kinds, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    parts = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "post_processor": _begin(fields, special),
        **readers[model](fields, entries, kinds),
        "added_tokens": added_tokens,
    }
    return tokenizer_class()(
        tokenizer_object=Tokenizer.from_str(json.dumps(parts)),
        chat_template=fields.get("tokenizer.chat_template"),
        clean_up_tokenization_spaces=False,
        **special,
    )


def _begin(fields, special):
    """The post-processor that begins texts with the bos token; None: they do without.

    Chat templates say where an answer ends, so no text is ended. Where a file does not
    say it, llama.cpp begins texts of SentencePiece and Llama 3 so; and those of Gemma 4
    whatever the file says.
    """
    if fields.get("tokenizer.ggml.add_eos_token"):
        raise ValueError(
            "tokenizer.ggml.add_eos_token is on: llama.cpp ends every text with a "
            "token, and here none would be. Take the model's folder of safetensors."
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
        raise ValueError(
            f"tokenizer.ggml.pre, the way text is split, is {name!r:.40}, and not one "
            f"of {', '.join(SPLITS)}. Take the model's folder of safetensors."
        )
    steps, whole, normalizer = SPLITS[name]
    return {
        "model": _bpe(entries, _merges(fields)) | {"ignore_merges": whole},
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": BYTE_LEVEL,
    }


def _sentence_piece(fields, entries, kinds):
    """As `_byte_pairs`; merges are made of scores: what scores best comes first."""
    scores = fields["tokenizer.ggml.scores"]
    if fields.get("tokenizer.ggml.add_space_prefix", True):
        raise ValueError(
            "tokenizer.ggml.add_space_prefix is on: texts begin with a space, as in "
            "Llama 2, which is not supported. Take another model."
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
    return _of_pieces(fields, entries, kinds, [pair for _, pair in merges])


def _of_pieces(fields, entries, kinds, merges=None):
    merges = _merges(fields) if merges is None else merges
    unknown = entries[kinds.index(UNKNOWN)] if UNKNOWN in kinds else None
    settings = {"byte_fallback": True, "fuse_unk": True, "unk_token": unknown}
    return AROUND_PIECES | {"model": _bpe(entries, merges) | settings}


def _merges(fields):
    """[[left, right], …] as the file lists them."""
    return [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]]


def _bpe(entries, merges):
    vocab = {entry: i for i, entry in enumerate(entries)}
    return {"type": "BPE", "vocab": vocab, "merges": merges}


# --- to a file ---


def to_fields(tokenizer) -> dict:
    """The metadata that describe a tokenizer of merges; `to_tokenizer` undoes it.

    Raises:
      ValueError: llama.cpp has no name for the way it splits text, or it is of another
        kind.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    model = parts["model"]
    kind_fields = _kind_of(parts)
    added = {token["id"]: token for token in parts["added_tokens"]}
    by_id = {i: entry for entry, i in model["vocab"].items()}
    by_id |= {i: token["content"] for i, token in added.items()}
    entries = [by_id.get(i, f"<unused_{i}>") for i in range(max(by_id) + 1)]
    kinds = [NORMAL if i in by_id else UNUSED for i in range(len(entries))]
    if kind_fields["model"] == PIECES:
        kinds = [BYTE if e in BYTES else k for e, k in zip(entries, kinds, strict=True)]
    for i, token in added.items():
        hidden = token["special"] and token["content"] not in SHOWN
        kinds[i] = CONTROL if hidden else USER_DEFINED
    if model["unk_token"] in model["vocab"] and kind_fields["model"] == PIECES:
        kinds[model["vocab"][model["unk_token"]]] = UNKNOWN
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    bare = tokenizer("x", add_special_tokens=False)["input_ids"]
    if not merges or tokenizer("x")["input_ids"][-1:] != bare[-1:]:
        raise ValueError(
            "llama.cpp reads no tokenizer without merges, and none that ends every "
            f"text with a token. {INSTEAD}"
        )
    fields = kind_fields | {
        "tokens": entries,
        "token_type": kinds,
        "merges": [" ".join(pair) for pair in merges],
        "add_bos_token": _begins_with_bos(tokenizer, kind_fields["model"]),
    }
    for name, number in (
        ("bos", tokenizer.bos_token_id),
        ("eos", tokenizer.eos_token_id),
        # llama.cpp knows only well-known ends of a turn by name.
        ("eot", chat.eos_ids(tokenizer)[0] if tokenizer.chat_template else None),
        ("unknown", tokenizer.unk_token_id),
        ("padding", tokenizer.pad_token_id),
    ):
        if number is not None:
            fields[f"{name}_token_id"] = number
    fields = {f"tokenizer.ggml.{name}": value for name, value in fields.items()}
    if tokenizer.chat_template:
        fields["tokenizer.chat_template"] = tokenizer.get_chat_template()
    return fields


def _kind_of(parts):
    """What the file says of how text is split."""
    model = parts["model"]
    names = [name for name, split in SPLITS.items() if _splits_so(split, parts)]
    if model["type"] == "BPE" and names:
        return {"model": BYTE_PAIRS, "pre": names[0]}
    if (
        model["type"] == "BPE"
        and parts["normalizer"] == AROUND_PIECES["normalizer"]
        and parts["pre_tokenizer"] in (AROUND_PIECES["pre_tokenizer"], None)
        and model["byte_fallback"]
        and model["vocab"].keys() >= BYTES
        and not model["ignore_merges"]
    ):
        return {"model": PIECES, "add_space_prefix": False}
    raise ValueError(
        "llama.cpp has no name for the way in which this tokenizer splits text, so a "
        f"GGUF file of it would read other tokens. {INSTEAD}"
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
        raise ValueError(
            "llama.cpp begins every text of Gemma with its first token, and this "
            f"tokenizer's template does not. {INSTEAD}"
        )
    return begins
