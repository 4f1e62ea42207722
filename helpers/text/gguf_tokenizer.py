"""Tokenizers from the metadata of GGUF files, llama.cpp's one-file format.

Such a file holds the entries, what kind each is, and merges or scores; how text is cut
into words before anything merges is only named (`gguf_cuts`). Three kinds of tokenizer
are known here: byte pairs as in GPT-2, of Qwen, Llama 3 and SmolLM2; SentencePiece's,
of Gemma 3; and merges of pieces, of Gemma 4 (`gguf_pieces`).
"""

import json
from math import isfinite

from helpers.text import gguf_pieces
from helpers.text.gguf_cuts import CUTS, byte_level
from helpers.text.tokenizer import tokenizer_class

BYTE_PAIRS, SENTENCE_PIECE, PIECES = "gpt2", "llama", "gemma4"
# Characters of all cuts in two that are tried as merges of SentencePiece: an entry of n
# characters has n - 1, of n each. Gemma 3's 262,144 entries make 10 million.
MOST_CUT = 2**25
# More than any known tokenizer has: Gemma 3 has 514,906, and entries of 1.5 million
# characters. Making one takes up to 55 times the bytes of the merges in the file, and
# 100 times those of its control tokens: 0.6 and 0.4 GB for so many.
MOST_MERGES, MOST_CHARACTERS = 2**20, 2**22
# The share of entries that may be made by no merge. SmolLM2 has none; of Gemma 3's,
# 2.6% are spare ones and tags, which llama.cpp's converter may call normal.
LOOSE = 0.05
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


FETCH = "Fetch the file again, or take the model's folder of safetensors."


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
    ways = {BYTE_PAIRS: _byte_pairs, SENTENCE_PIECE: _sentence_piece, PIECES: _pieces}
    if kind not in ways:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.model is {kind!r:.40}: this knows {', '.join(ways)}."
        )
    parts = ways[kind](fields, entries, kinds)
    parts["added_tokens"] = [
        {
            "id": i,
            "content": entry,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": of in (UNKNOWN, CONTROL) or entry in gguf_pieces.SHOWN,
        }
        for i, (entry, of) in enumerate(zip(entries, kinds, strict=True))
        if of in (UNKNOWN, CONTROL, USER_DEFINED)
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

    None of ours ends them: chat templates say where an answer ends.

    Where a file does not say, llama.cpp begins those of SentencePiece and Llama 3 so;
    and those of Gemma 4 whatever it says.
    """
    if fields.get("tokenizer.ggml.add_eos_token"):
        raise GGUFTokenizerError(
            "tokenizer.ggml.add_eos_token is on: llama.cpp ends every text with a "
            "token, and here none would be. Take the model's folder of safetensors, or "
            "another file."
        )
    kind = fields["tokenizer.ggml.model"]
    habit = kind != BYTE_PAIRS or fields.get("tokenizer.ggml.pre") == "llama-bpe"
    said = fields.get("tokenizer.ggml.add_bos_token", habit)
    if bos is None or not (said or kind == PIECES):
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
    cut = fields.get("tokenizer.ggml.pre")
    if cut is None:  # llama.cpp takes its default then, and warns of worse answers
        raise GGUFTokenizerError(
            "The file has no tokenizer.ggml.pre, which says how text is cut into "
            "words; cut otherwise, it becomes tokens that the model was not trained "
            "on. Convert the model again with a llama.cpp of today, or take a newer "
            "file of it."
        )
    if not isinstance(cut, str) or cut not in CUTS:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.pre is {cut!r:.40}: this knows how {', '.join(CUTS)} cut "
            "text into words."
        )
    steps, whole, normalizer = CUTS[cut]
    merges = _merges(fields)
    if not whole:
        require_joined(entries, kinds, merges, FETCH)
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
    if not all(isinstance(score, int | float) and isfinite(score) for score in scores):
        raise GGUFTokenizerError(
            "tokenizer.ggml.scores has something that is no finite number: what merges "
            "first is not known. Fetch the file again, or take another one."
        )
    _require_few_cuts(entries, kinds)
    numbers = {entry: i for i, entry in enumerate(entries)}
    merges = []
    for entry, kind, score in zip(entries, kinds, scores, strict=True):
        if kind == NORMAL:
            halves = ((entry[:i], entry[i:]) for i in range(1, len(entry)))
            known = [(a, b) for a, b in halves if a in numbers and b in numbers]
            known.sort(key=lambda pair: (numbers[pair[0]], numbers[pair[1]]))
            merges += [(-score, pair) for pair in known]
    merges.sort(key=lambda merge: merge[0])  # stable: ties stay in the entries' order
    if fields.get("tokenizer.ggml.add_space_prefix", True):
        raise GGUFTokenizerError(
            "tokenizer.ggml.add_space_prefix is on: a text begins with a space that is "
            "not there, as in Llama 2, which this does not know."
        )
    merging = _merging(entries, [pair for _, pair in merges])
    return gguf_pieces.parts(merging, _unknown(entries, kinds))


def _require_few_cuts(entries, kinds):
    """Refuses entries so long and many that a small file asks for gigabytes."""
    normal = (e for e, kind in zip(entries, kinds, strict=True) if kind == NORMAL)
    if (cut := sum(len(entry) ** 2 for entry in normal)) > MOST_CUT:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.tokens has {len(entries):,} entries, the longest of "
            f"{max(map(len, entries)):,} characters: to cut each in two in every way "
            f"makes {cut:,} characters, and the largest vocabulary known needs 10 "
            "million. Fetch the file again, or take another one."
        )


def _pieces(fields, entries, kinds):
    """As `_byte_pairs`, of Gemma 4; llama.cpp looks at no other habit in the file."""
    merges = _merges(fields)
    require_joined(entries, kinds, merges, FETCH)
    return gguf_pieces.parts(_merging(entries, merges), _unknown(entries, kinds))


def require_joined(entries, kinds, merges, remedy):
    """Refuses a tokenizer that lacks merges: what they would make stays in pieces.

    Raises:
      GGUFTokenizerError: more than a few of several characters are made by none.
    """
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


def _unknown(entries, kinds):
    """The entry of what is unknown, if there is one."""
    found = (e for e, kind in zip(entries, kinds, strict=True) if kind == UNKNOWN)
    return next(found, None)


def _merges(fields):
    """[[left, right], …] as the file lists them."""
    texts = _texts(fields, "merges")
    if len(texts) > MOST_MERGES:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.merges has {len(texts):,}, and at most {MOST_MERGES:,} "
            f"are read, which is more than any known model has. {FETCH}"
        )
    merges = [merge.split(" ", 2) for merge in texts]
    if wrong := next((m for m in merges if len(m) != 2), None):
        raise GGUFTokenizerError(f"The merge {wrong!r:.80} is not one of two entries.")
    return merges


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
        "merges": merges,
    }


def _entries(fields):
    """The entries and the kind of each, held against each other."""
    entries = _texts(fields, "tokens")
    kinds = fields.get("tokenizer.ggml.token_type", [NORMAL] * len(entries))
    if (size := sum(map(len, entries))) > MOST_CHARACTERS:
        raise GGUFTokenizerError(
            f"tokenizer.ggml.tokens has {size:,} characters, and at most "
            f"{MOST_CHARACTERS:,} are read, which is more than any known model has. "
            f"{FETCH}"
        )
    if not entries or len(set(entries)) < len(entries):
        raise GGUFTokenizerError("tokenizer.ggml.tokens is empty, or has one twice.")
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
