"""Rows to batches: packed, padded, shuffled, resumable."""

from helpers.batches.packing import packed_rows
from helpers.batches.preference_pairs import pairs
from helpers.batches.prompt_batches import pad_prompts, prompts
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
