"""How text is cut into words before anything merges, by the names of GGUF files.

A file says `tokenizer.ggml.pre`; what the name means stands in llama.cpp's source
(llama-vocab.cpp), and here as tokenizer.json would have it.
"""

from typing import NamedTuple

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class Cut(NamedTuple):
    """What lies behind a name.

    steps: the pre-tokenizers. whole: a word that is an entry stays whole, whatever
    merges first (`ignore_merges`). normalizer: that of the family's own files, which
    llama.cpp leaves out; what it would change becomes other tokens there.
    """

    steps: list
    whole: bool = False
    normalizer: dict | None = None


def byte_level(use_regex):
    """The step that writes bytes as letters; with `use_regex` it cuts as GPT-2 does."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _split(pattern):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return [split | {"invert": False}, byte_level(use_regex=False)]


_DIGITS = {"type": "Digits", "individual_digits": True}
CUTS = {
    "gpt-2": Cut([byte_level(use_regex=True)]),
    "smollm": Cut([_DIGITS, byte_level(use_regex=True)]),
    "qwen2": Cut(_split(_LETTERS + r"\p{N}" + _REST), normalizer={"type": "NFC"}),
    "llama-bpe": Cut(_split(_LETTERS + r"\p{N}{1,3}" + _REST), whole=True),
}


def cut_by(known: Cut, parts: dict) -> bool:
    """Whether a tokenizer.json cuts text so; without the normalizer, too."""

    def bare(step):
        return {k: v for k, v in step.items() if k not in ("trim_offsets", "invert")}

    cut = parts["pre_tokenizer"]
    steps = cut.get("pretokenizers", [cut]) if cut else []
    return (
        [bare(step) for step in steps] == [bare(step) for step in known.steps]
        and parts["model"].get("ignore_merges", False) == known.whole
        and parts["normalizer"] in (None, known.normalizer)
    )
