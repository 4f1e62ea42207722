"""How good a model is, with an interval."""

from helpers.evaluation.evaluator import (
    FINAL_LINE,
    WORDINGS,
    by_wording,
    evaluate,
    evaluate_food,
    load_or_score,
    score,
    with_wording,
)
from helpers.evaluation.intervals import compare, pass_at_k, wilson
from helpers.evaluation.report import FoodReport, Report, Scores, load_or_run

__all__ = [
    "FINAL_LINE",  # where an answer may stop
    "WORDINGS",  # ways of putting a question
    "FoodReport",  # graded conversations with the nutrition tool
    "Report",  # graded answers to problems
    "Scores",  # answers scored by a reward
    "by_wording",  # which wording suits a model
    "compare",  # two models on the same questions
    "evaluate",  # answer and grade
    "evaluate_food",  # the same, with pictures and the nutrition tool
    "load_or_run",  # a report from a file, or a new one
    "load_or_score",  # `score`, which a session that goes on does not repeat
    "pass_at_k",  # any of k samples right
    "score",  # answer, and score by a reward of your own
    "wilson",  # an interval for a share
    "with_wording",  # rows whose questions are put so
]
