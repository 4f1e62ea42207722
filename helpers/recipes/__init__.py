"""What is trained on which machine, with which sizes."""

from helpers.recipes import food101, maths
from helpers.recipes.presets import FOOD, OWN, PRESETS, Preset, preset

__all__ = [
    "FOOD",  # sizes of the food lessons, by machine
    "OWN",  # sizes of notebook 15
    "PRESETS",  # sizes of the maths lessons
    "Preset",  # a row of them
    "food101",  # photos and Gemma 3
    "maths",  # GSM8K or generated problems, and a model of the hub
    "preset",  # the row that fits this machine
]
