"""Tokenizers to the metadata of GGUF files: `gguf_tokenizer` reads them back."""

import json

from helpers.text import chat, gguf_pieces
from helpers.text.gguf_cuts import CUTS, cut_by
from helpers.text.gguf_tokenizer import (
    BYTE,
    BYTE_PAIRS,
    CONTROL,
    NORMAL,
    PIECES,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    GGUFTokenizerError,
    require_joined,
)

INSTEAD = "Save a folder in place of it."


def to_fields(tokenizer) -> dict:
    """The metadata that describe a tokenizer of merges; `gguf_tokenizer.to_tokenizer`
    undoes it.

    Raises:
      GGUFTokenizerError: llama.cpp has no name for the way it cuts text, or it is of
        another kind, or lacks merges.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    model = parts["model"]
    how = _kind_of(parts)
    _require_plain(tokenizer, parts)
    added = {token["id"]: token for token in parts["added_tokens"]}
    by_id = {i: entry for entry, i in model["vocab"].items()}
    by_id |= {i: token["content"] for i, token in added.items()}
    count = max(by_id) + 1
    entries = [by_id.get(i, f"<unused_{i}>") for i in range(count)]
    kinds = [NORMAL if i in by_id else UNUSED for i in range(count)]
    if how["model"] == PIECES:
        kinds = _kinds_of_pieces(entries, kinds, model["unk_token"])
    for i, token in added.items():
        hidden = token["special"] and token["content"] not in gguf_pieces.SHOWN
        if kinds[i] != UNKNOWN:
            kinds[i] = CONTROL if hidden else USER_DEFINED
    fields = how | {
        "tokens": entries,
        "token_type": kinds,
        "merges": _merges(model, entries, kinds),
        "add_bos_token": _begins_with_bos(tokenizer, how["model"]),
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
    return fields | _templates(tokenizer.chat_template or {})


def _templates(templates):
    """One template; of several by their names the others beside the default one."""
    if isinstance(templates, str):
        templates = {"default": templates}
    others = [name for name in templates if name != "default"]
    fields = {f"tokenizer.chat_template.{name}": templates[name] for name in others}
    if others:
        fields["tokenizer.chat_templates"] = others
    if "default" in templates:
        fields["tokenizer.chat_template"] = templates["default"]
    return fields


def _merges(model, entries, kinds):
    """["left right", …], of which none is missing."""
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    if not merges:  # and gguf's writer leaves out an empty list
        raise GGUFTokenizerError(
            f"This tokenizer has no merges, and llama.cpp reads none without. {INSTEAD}"
        )
    if not model.get("ignore_merges"):
        require_joined(entries, kinds, merges, INSTEAD)
    return [" ".join(pair) for pair in merges]


def _kind_of(parts):
    """What the file says of how text is cut."""
    names = [name for name, known in CUTS.items() if cut_by(known, parts)]
    is_bpe = parts["model"]["type"] == "BPE"
    if is_bpe and names:
        return {"model": BYTE_PAIRS, "pre": names[0]}
    if is_bpe and parts["normalizer"] == gguf_pieces.NORMALIZER:
        if not (why := gguf_pieces.why_not(parts)):
            return {"model": PIECES, "add_space_prefix": False}
        why = f"llama.cpp would read this tokenizer otherwise: {why}"
    else:
        why = (
            "llama.cpp has no name for the way in which this tokenizer cuts text into "
            f"words (it knows those of {', '.join(CUTS)} and Gemma), so a GGUF file of "
            "it would read other tokens"
        )
    raise GGUFTokenizerError(f"{why}. {INSTEAD}")


def _kinds_of_pieces(entries, kinds, unknown):
    """The same kinds, with the bytes and the unknown token among them."""
    bytes_ = set(gguf_pieces.BYTES)
    named = {unknown: UNKNOWN}
    return [
        named.get(entry, BYTE if entry in bytes_ else kind)
        for entry, kind in zip(entries, kinds, strict=True)
    ]


def _turn_end(tokenizer):
    """The id that ends a turn; llama.cpp knows only the well-known ones by name."""
    if not tokenizer.chat_template:
        return None
    try:
        return chat.eos_ids(tokenizer)[0]
    except ValueError as error:
        raise GGUFTokenizerError(str(error)) from None


def _require_plain(tokenizer, parts):
    """Refuses habits that a GGUF file has no word for."""
    strange = {
        name
        for token in parts["added_tokens"]
        for name in ("lstrip", "rstrip", "single_word")
        if token[name]
    }
    bare = tokenizer("x", add_special_tokens=False)["input_ids"]
    if bare and tokenizer("x")["input_ids"][-1] != bare[-1]:
        strange.add("a token after every text")
    line_ends = (entry for entry in parts["model"]["vocab"] if set(entry) == {"\n"})
    if any(len(tokenizer.tokenize(entry)) > 1 for entry in line_ends):
        strange.add("line ends that are one entry, and that no merges make")
    if strange:
        raise GGUFTokenizerError(
            f"A GGUF file has no word for habits of this tokenizer "
            f"({', '.join(sorted(strange))}). {INSTEAD}"
        )


def _begins_with_bos(tokenizer, kind):
    """Whether every text begins so, those that the template writes among them.

    llama.cpp would begin these so, too, where the model never saw it. Texts of Gemma it
    always begins so, in whose folders only the template does.
    """
    bos, texts = tokenizer.bos_token_id, []
    if kind != PIECES:
        texts.append(tokenizer("x")["input_ids"])
    if tokenizer.chat_template:
        texts.append(chat.prompt_tokens(tokenizer, "x"))
    begins = all(ids and ids[0] == bos for ids in texts)
    if kind == PIECES and not begins:
        raise GGUFTokenizerError(
            "llama.cpp begins every text of Gemma with its first token, and this "
            f"tokenizer's template does not. {INSTEAD}"
        )
    return begins
