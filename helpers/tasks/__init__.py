"""The tasks of the course: rows with a question and an answer."""

from helpers.tasks import custom_rows  # a file or table of your own
from helpers.tasks.food import (
    food101,  # photos of Food-101
    food_pictures,  # drawn foods
    food_traces,  # questions about them, and answers with calls
    photos,  # pictures from outside
)
from helpers.tasks.maths import (
    gsm8k,  # real GSM8K
    word_problems,  # generated problems in its format
)
