"""Reward functions: text in, one number per answer out."""

from helpers.rewards.answers import (
    annotations,  # which of the shown sums are right
    extract_lenient,  # the last number of an answer
    extract_strict,  # the number after ####
)
from helpers.rewards.functions import (
    RewardError,  # a reward function returned no numbers
    RewardSet,  # a weighted sum of reward functions
    annotations_hold,  # are all of them
    correct,  # is the answer right
    environment_reward,  # what the environment gave
    format_reward,  # does it end in "#### number"
    gold_number,  # the number of a worked solution
    length_penalty,  # a price on length
)
