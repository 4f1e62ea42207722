"""How good a model is, with an interval."""

from helpers.evaluation.evaluator import (
    WORDINGS,
    evaluate,
    evaluate_food,
    load_or_score,
    score,
    with_wording,
)
from helpers.evaluation.intervals import compare, pass_at_k, wilson

__all__ = [
    "WORDINGS",  # ways of putting a question
    "compare",  # two models on the same questions
    "evaluate",  # answer and grade
    "evaluate_food",  # the same, with pictures and the nutrition tool
    "load_or_score",  # `score`, which a session that goes on does not repeat
    "pass_at_k",  # any of k samples right
    "score",  # answer, and score by a reward of your own
    "wilson",  # an interval for a share
    "with_wording",  # rows whose questions are put so
]
