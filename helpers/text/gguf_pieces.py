"""How Gemma's tokenizers write text for their merges: spaces as ▁, no words.

What is no entry becomes its bytes (`<0xE4>`). In llama.cpp's own GGUF files Gemma 3 has
scores of its pieces, and Gemma 4 merges.
"""

import re

SPACE, MARK = {"String": " "}, "▁"
NORMALIZER = {"type": "Replace", "pattern": SPACE, "content": MARK}
CUT = {
    "type": "Split",
    "pattern": SPACE,
    "behavior": "MergedWithPrevious",
    "invert": False,
}
DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}
BYTES = [f"<0x{i:02X}>" for i in range(256)]
# Control tokens that llama.cpp has to show, because it reads calls out of the text
# (its conversion/gemma.py); in the family's own folders they are special.
SHOWN = frozenset(
    ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>')
    + ("<|tool_response>", "<tool_response|>")
)


def parts(merging: dict, unknown: str | None) -> dict:
    """Of tokenizer.json: a "BPE" model of pieces, and what stands around it."""
    settings = {"byte_fallback": True, "fuse_unk": True, "unk_token": unknown}
    return {
        "model": merging | settings,
        "normalizer": NORMALIZER,
        "pre_tokenizer": CUT,
        "decoder": DECODER,
    }


def why_not(parts: dict) -> str:
    """Why llama.cpp would read such a tokenizer.json otherwise; "" if it would not.

    It takes rows of line ends apart from all else, and has no unknown token.
    """
    model = parts["model"]
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    line_end = re.compile(r"\n[^\n]|[^\n]\n")
    if parts["pre_tokenizer"] not in (CUT, None):
        return "it cuts text into words"
    if not model.get("byte_fallback") or not set(BYTES) <= model["vocab"].keys():
        return "not every byte is an entry"
    if model.get("ignore_merges"):
        return "entries stay whole, whatever merges first"
    if any(line_end.search(left + right) for left, right in merges):
        return "an entry holds a line end beside something else"
    if any(" " in left + right for left, right in merges):
        return "an entry holds a space"
    return ""
