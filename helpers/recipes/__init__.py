"""What is trained on which machine, with which sizes."""

from helpers.recipes import food101, gsm8k
from helpers.recipes.presets import PRESETS, Preset, preset

__all__ = [
    "PRESETS",  # the table
    "Preset",  # a row of it
    "food101",  # photos and Gemma 3
    "gsm8k",  # GSM8K and Qwen2.5
    "preset",  # the row that fits this machine
]
