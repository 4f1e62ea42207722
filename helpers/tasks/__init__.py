"""The tasks of the course: rows with a question and an answer."""

from helpers.tasks import custom_rows
from helpers.tasks.food import (
    food101,
    food_pictures,
    food_traces,
    photos,
)
from helpers.tasks.maths import gsm8k, word_problems

__all__ = [
    "custom_rows",  # a file or table of your own
    "food101",  # photos of Food-101
    "food_pictures",  # drawn foods
    "food_traces",  # questions about them, and answers with calls
    "gsm8k",  # real GSM8K
    "photos",  # pictures from outside
    "word_problems",  # generated problems in its format
]
