"""The tasks of the course: rows with a question and an answer."""

from helpers.tasks import own_rows
from helpers.tasks.food import (
    food101,
    food_pictures,
    food_questions,
    food_traces,
    photos,
)
from helpers.tasks.maths import gsm8k, word_problems

__all__ = [
    "food101",  # photos of Food-101
    "food_pictures",  # drawn foods
    "food_questions",  # questions about them
    "food_traces",  # demonstrations with calls
    "gsm8k",  # real GSM8K
    "own_rows",  # a file of your own, read row by row
    "photos",  # pictures from outside
    "word_problems",  # generated problems in its format
]
