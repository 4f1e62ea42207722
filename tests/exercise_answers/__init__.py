"""Answers that learners write, wrong and right ones, a file for a few notebooks.

WRONG and RIGHT are {exercise: {what is special: the answer}}; an answer is what the
check is called with, a tuple where it takes several arguments. Every answer of WRONG
must be refused and every one of RIGHT accepted
(tests/exercises/test_exercises.py).
"""

import importlib
import pathlib

FILES = sorted(pathlib.Path(__file__).parent.glob("[a-z]*.py"))
PARTS = [importlib.import_module(f"exercise_answers.{file.stem}") for file in FILES]
WRONG = {name: cases for part in PARTS for name, cases in part.WRONG.items()}
RIGHT = {name: cases for part in PARTS for name, cases in part.RIGHT.items()}
