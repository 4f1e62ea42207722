"""How good a model is, with an interval."""

from helpers.evaluation import tool_evaluate
from helpers.evaluation.evaluator import evaluate
from helpers.evaluation.intervals import compare, pass_at_k, wilson
from helpers.evaluation.report import Report

__all__ = [
    "Report",  # scores of many answers
    "compare",  # two models on the same questions
    "evaluate",  # answer and grade
    "pass_at_k",  # any of k samples right
    "tool_evaluate",  # the same, with tools
    "wilson",  # an interval for a share
]
