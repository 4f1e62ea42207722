"""Tokenizers from and to the metadata of GGUF files, llama.cpp's one-file format.

Such a file holds the entries, what kind each is, and merges or scores; how text is cut
into words before anything merges is only named (`gguf_cuts`). Two kinds of tokenizer
are known here: byte pairs as in GPT-2, of Qwen, Llama 3 and SmolLM2; and
SentencePiece's, of Gemma.
"""

import json

from helpers.text import chat
from helpers.text.gguf_cuts import CUTS, byte_level, cut_by
from helpers.text.tokenizer import tokenizer_class

BYTE_PAIRS, SENTENCE_PIECE = "gpt2", "llama"
LONGEST = 1000  # characters of an entry, whose every cut in two is tried for a merge
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


class GGUFTokenizerError(ValueError):
    """The metadata of a GGUF file make no tokenizer, or a tokenizer no metadata."""


def to_tokenizer(fields: dict):
    """The tokenizer that a GGUF file's metadata describe, chat template included.

    Args:
      fields: the metadata by key, as `model.gguf_file.GGUFFile.fields`.
    Returns:
      A transformers.PreTrainedTokenizerFast; without a template if they have none.
    Raises:
      GGUFTokenizerError: a part is missing or cannot be, or the kind is not known.
    """
    entries, kinds = _entries(fields)
    kind = _field(fields, "model", str)
    made = {BYTE_PAIRS: _byte_pairs, SENTENCE_PIECE: _sentence_piece}.get(kind)
    if made is None:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.model is {kind!r:.40}: this knows {BYTE_PAIRS} and "
            f"{SENTENCE_PIECE}."
        )
    parts = made(fields, entries, kinds)
    parts["added_tokens"] = [
        {
            "id": i,
            "content": entry,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind in (UNKNOWN, CONTROL),
        }
        for i, (entry, kind) in enumerate(zip(entries, kinds, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    return _loaded(parts, fields, entries)


def _loaded(parts, fields, entries):
    from tokenizers import Tokenizer

    special = _special(fields, entries)
    whole = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None}
    whole |= {"post_processor": _first(fields, special.get("bos_token"))} | parts
    try:
        core = Tokenizer.from_str(json.dumps(whole))
    except Exception as error:  # tokenizers has no class of its own for its errors
        raise GGUFTokenizerError(f"The entries make no tokenizer: {error}.") from None
    template = fields.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise GGUFTokenizerError("tokenizer.chat_template is no text.")
    return tokenizer_class()(
        tokenizer_object=core,
        chat_template=template,
        clean_up_tokenization_spaces=False,
        **special,
    )


def _special(fields, entries):
    """{"bos_token": "<bos>"} and the like, of those that the file names."""
    named = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    special = {}
    for theirs, ours in named.items():
        number = fields.get(f"tokenizer.ggml.{theirs}_token_id")
        if number is not None:
            if type(number) is not int or not 0 <= number < len(entries):
                raise GGUFTokenizerError(
                    f"tokenizer.ggml.{theirs}_token_id is {number!r:.40}, of "
                    f"{len(entries)} entries."
                )
            special[f"{ours}_token"] = entries[number]
    return special


def _first(fields, bos):
    """The post-processor that begins texts with `bos`; None where they do without.

    Where a file does not say, llama.cpp begins those of SentencePiece and Llama 3 so.
    """
    habit = fields["tokenizer.ggml.model"] == SENTENCE_PIECE
    habit = habit or fields.get("tokenizer.ggml.pre") == "llama-bpe"
    if bos is None or not fields.get("tokenizer.ggml.add_bos_token", habit):
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
    """Of tokenizer.json: what merges, and how text is cut first."""
    cut = fields.get("tokenizer.ggml.pre", "gpt-2")
    if not isinstance(cut, str) or cut not in CUTS:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.pre is {cut!r:.40}: this knows how {', '.join(CUTS)} cut "
            "text into words."
        )
    merges = [merge.split(" ") for merge in _texts(fields, "merges")]
    if wrong := next((m for m in merges if len(m) != 2), None):
        raise GGUFTokenizerError(f"The merge {wrong!r:.80} is not one of two entries.")
    steps, whole, normalizer = CUTS[cut]
    return {
        "model": _merging(entries, merges) | {"ignore_merges": whole},
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": byte_level(use_regex=True),
    }


def _sentence_piece(fields, entries, kinds):
    """As `_byte_pairs`; merges are made of scores: what scores best comes first."""
    scores = _field(fields, "scores", list)
    if len(scores) != len(entries):
        raise GGUFTokenizerError(
            f"There are {len(scores)} scores for {len(entries)} entries."
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
    unknown = [entry for entry, kind in zip(entries, kinds, strict=True) if kind == 2]
    settings = {
        "byte_fallback": True,
        "fuse_unk": True,
        "unk_token": unknown[0] if unknown else None,
    }
    space, mark = {"String": " "}, "▁"
    if fields.get("tokenizer.ggml.add_space_prefix", True):
        raise GGUFTokenizerError(
            "tokenizer.ggml.add_space_prefix is on: a text begins with a space that is "
            "not there, as in Llama 2, which this does not know."
        )
    return {
        "model": _merging(entries, [pair for _, pair in merges]) | settings,
        "normalizer": {"type": "Replace", "pattern": space, "content": mark},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": space,
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": mark}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
    }


def _merging(entries, merges):
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {entry: i for i, entry in enumerate(entries)},
        "merges": [list(pair) for pair in merges],
    }


def _entries(fields):
    """The entries and the kind of each, held against each other."""
    entries = _texts(fields, "tokens")
    kinds = fields.get("tokenizer.ggml.token_type", [NORMAL] * len(entries))
    if not entries or len(set(entries)) < len(entries):
        raise GGUFTokenizerError("tokenizer.ggml.tokens is empty, or has one twice.")
    if (most := max(map(len, entries))) > LONGEST:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.tokens has an entry of {most:,} characters."
        )
    if not isinstance(kinds, list) or len(kinds) != len(entries):
        raise GGUFTokenizerError("tokenizer.ggml.token_type has another length.")
    if strange := set(kinds) - set(range(NORMAL, BYTE + 1)):
        raise GGUFTokenizerError(f"tokenizer.ggml.token_type has {min(strange)}.")
    return entries, kinds


def _texts(fields, name):
    texts = _field(fields, name, list)
    if not all(isinstance(text, str) for text in texts):
        raise GGUFTokenizerError(f"tokenizer.ggml.{name} is not a list of texts.")
    return texts


def _field(fields, name, kind):
    value = fields.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, kind):
        raise GGUFTokenizerError(
            f"The file has no tokenizer.ggml.{name}, or it is no {kind.__name__}."
        )
    return value


def to_fields(tokenizer) -> dict:
    """The metadata that describe a byte-pair tokenizer; `to_tokenizer` undoes it.

    Raises:
      GGUFTokenizerError: llama.cpp has no name for the way it cuts text, or it is of
        another kind.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    model = parts["model"]
    names = [name for name, known in CUTS.items() if cut_by(known, parts)]
    if model["type"] != "BPE" or not names:
        raise GGUFTokenizerError(
            "llama.cpp has no name for the way in which this tokenizer cuts text into "
            f"words (it knows those of {', '.join(CUTS)}), so a GGUF file of it would "
            "read other tokens. Save a folder in place of it."
        )
    added = {token["id"]: token for token in parts["added_tokens"]}
    by_id = {i: entry for entry, i in model["vocab"].items()}
    by_id |= {i: token["content"] for i, token in added.items()}
    count = max(by_id) + 1
    entries = [by_id.get(i, f"<unused_{i}>") for i in range(count)]
    kinds = [NORMAL if i in by_id else UNUSED for i in range(count)]
    for i, token in added.items():
        kinds[i] = CONTROL if token["special"] else USER_DEFINED
    fields = {
        "model": BYTE_PAIRS,
        "pre": names[0],
        "tokens": entries,
        "token_type": kinds,
        "merges": [m if isinstance(m, str) else " ".join(m) for m in model["merges"]],
        "add_bos_token": _begins_with_bos(tokenizer),
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
        fields["tokenizer.chat_template"] = tokenizer.chat_template
    return fields


def _turn_end(tokenizer):
    """The id that ends a turn; llama.cpp knows only the well-known ones by name."""
    if not tokenizer.chat_template:
        return None
    try:
        return chat.eos_ids(tokenizer)[0]
    except ValueError as error:
        raise GGUFTokenizerError(str(error)) from None


def _begins_with_bos(tokenizer):
    """Whether every text begins so, those that the template writes among them.

    llama.cpp would begin these so, too, where the model never saw it.
    """
    texts = [tokenizer("x")["input_ids"]]
    if tokenizer.chat_template:
        texts.append(chat.prompt_tokens(tokenizer, "x"))
    return all(ids and ids[0] == tokenizer.bos_token_id for ids in texts)
