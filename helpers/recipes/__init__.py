"""What is trained on which machine, with which sizes."""

from helpers.recipes import food101, maths
from helpers.recipes.presets import CUSTOM, FOOD, PRESETS, custom, preset

__all__ = [
    "CUSTOM",  # sizes of notebook 15, by machine
    "FOOD",  # sizes of the food lessons, by machine
    "PRESETS",  # sizes of the maths lessons
    "custom",  # the row of CUSTOM for this machine
    "food101",  # photos and Gemma 3
    "maths",  # GSM8K or generated problems, and a model of the hub
    "preset",  # the row that fits this machine
]
