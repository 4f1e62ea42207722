"""Rows to batches: packed, padded, shuffled, resumable."""

from helpers.batches.packing import packed_rows  # demonstrations for SFT
from helpers.batches.preference_pairs import pairs  # chosen and rejected answers
from helpers.batches.prompt_batches import (
    pad_prompts,  # prompts of one width
    prompts,  # prompts for rollouts
)
from helpers.batches.sources import (
    BatchSource,  # where the trainer's batches come from
    ImageMismatch,  # pictures and image tokens do not fit
    Source,  # what all batch sources share
)
