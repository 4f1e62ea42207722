"""How good a model is, with an interval."""

from helpers.evaluation import tool_evaluate
from helpers.evaluation.evaluator import evaluate
from helpers.evaluation.intervals import compare, pass_at_k, wilson
from helpers.evaluation.kept import kept_score
from helpers.evaluation.report import Report
from helpers.evaluation.scored import Scores, score
from helpers.evaluation.wordings import by_wording

__all__ = [
    "Report",  # graded answers to problems
    "Scores",  # answers judged by a reward
    "by_wording",  # which way of asking suits a model
    "compare",  # two models on the same questions
    "evaluate",  # answer and grade
    "kept_score",  # `score`, which a session that goes on does not repeat
    "pass_at_k",  # any of k samples right
    "score",  # answer, and let a reward of your own judge
    "tool_evaluate",  # the same, with tools
    "wilson",  # an interval for a share
]
