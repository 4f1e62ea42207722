"""How good a model is, with an interval."""

from helpers.evaluation.evaluator import (
    WORDINGS,  # ways of putting a question
    evaluate,  # answer and grade
    evaluate_food,  # the same, with pictures and the nutrition tool
    load_or_score,  # `score`, which a session that goes on does not repeat
    score,  # answer, and score by a reward of your own
    with_wording,  # rows whose questions are put so
)
from helpers.evaluation.intervals import (
    compare,  # two models on the same questions
    pass_at_k,  # any of k samples right
    wilson,  # an interval for a share
)
