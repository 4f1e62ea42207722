"""What is trained on which machine, with which sizes."""

from helpers.recipes import (
    food101,  # photos and Gemma 3
    maths,  # GSM8K or generated problems, and a model of the hub
)
from helpers.recipes.presets import (
    CUSTOM,  # sizes of notebook 15, by machine
    FOOD,  # sizes of the food lessons, by machine
    PRESETS,  # sizes of the maths lessons
    custom,  # the row of CUSTOM for this machine
    preset,  # the row that fits this machine
)
