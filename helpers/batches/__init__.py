"""Rows to batches: packed, padded, shuffled, resumable."""

import importlib

from helpers.batches.sources import BatchSource, ImageMismatch, Source

__all__ = [
    "BatchSource",  # where the trainer's batches come from
    "ImageMismatch",  # pictures and image tokens do not fit
    "Source",  # what all batch sources share
    "packed_rows",  # demonstrations for SFT
    "pad_prompts",  # prompts of one width
    "pairs",  # a chosen and a rejected answer to each prompt
    "prompts",  # prompts for rollouts
]

# Imported when they are first used: a trainer needs no tokenizer.
_HOMES = {
    "packed_rows": "packing",
    "pad_prompts": "prompt_batches",
    "pairs": "preference_pairs",
    "prompts": "prompt_batches",
}


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
