"""Answers of a model: sampled, in groups, with tools."""

from helpers.generation import sessions
from helpers.generation.calculator_use import CalculatorUse
from helpers.generation.environment_use import EnvironmentUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import generate, row_keys
from helpers.generation.tool_use import ToolUse

__all__ = [
    "CalculatorUse",  # answers whose sums a calculator finishes
    "EnvironmentUse",  # answers of several turns
    "Rollouts",  # groups of scored answers, a batch source
    "ToolUse",  # answers that call tools
    "generate",  # answers to prompts
    "row_keys",  # a key for every answer
    "sessions",  # answer, read on, answer again
]
