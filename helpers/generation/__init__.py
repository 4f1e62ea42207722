"""Answers of a model: sampled, in groups, with tools."""

from helpers.generation import sessions  # answer, read on, answer again
from helpers.generation.calculator_use import CalculatorUse  # with a calculator
from helpers.generation.environment_use import EnvironmentUse  # several turns
from helpers.generation.rollouts import Rollouts  # groups of scored answers
from helpers.generation.sampling import (
    generate,  # answers to prompts
    row_keys,  # a key for every answer
)
from helpers.generation.tool_use import ToolUse  # answers that call tools
