"""The notebooks' challenges: a number to beat, a budget, and held-out questions.

A challenge gives its attempt a fresh copy of the model that the notebook starts from,
and rewards or rows that are counted and refused beyond the budget. The attempt returns
a model, which answers test questions that no notebook uses.

A challenge cannot see labels, questions or weights from elsewhere: read the attempt.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.evaluation import evaluate_food
from helpers.evaluation.evaluator import evaluate
from helpers.exercises.check import Check, check_properties
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.model.transformer import Transformer
from helpers.rewards import RewardSet, food_rewards
from helpers.rewards.functions import correct, gold_number
from helpers.tasks.food import food_pictures, food_traces
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.tools import nutrition

TEST_SEED = 98  # of the test questions; the notebooks use other seeds
QUESTIONS, PICTURES = 500, 360  # in the tests of maths and food


class OverBudget(RuntimeError):
    """An attempt asked for more than its budget."""


@dataclasses.dataclass
class Meter:
    """Counts what an attempt spends, and refuses what is beyond the budget.

    Attributes:
      budget: the most that may be spent.
      what: of what, in words, such as "scored answers".
      rows: to learn from, each given once, if that is what is counted.
      spent: how many were spent so far.
      refused: whether more was requested. The attempt has failed then, whether it
        catches the error or not.
    """

    budget: int
    what: str
    rows: Sequence[dict] = ()
    spent: int = 0
    refused: bool = False

    def spend(self, count: int) -> None:
        """Counts this many.

        Raises:
          OverBudget: they are more than what is left. Nothing is counted then.
          ValueError: `count` is not a whole number from 0 on.
        """
        if not isinstance(count, int | np.integer) or count < 0:
            raise ValueError(f"Ask for a whole number of {self.what}, not {count!r}.")
        if self.spent + count > self.budget:
            self.refused = True
            raise OverBudget(
                f"{count:,} more would make {self.spent + count:,} {self.what}, and "
                f"the budget is {self.budget:,}."
            )
        self.spent += count

    def take(self, count: int) -> list[dict]:
        """The next `count` rows; raises OverBudget where the budget has fewer left."""
        first = self.spent
        self.spend(count)
        return [dict(row) for row in self.rows[first : self.spent]]


@dataclasses.dataclass(frozen=True)
class Outcome(Check):
    """The result of an attempt.

    Attributes:
      reached: the share of the test questions answered rightly; None if the attempt was
        refused before that.
      to_beat: the share that `reached` had to exceed.
      spent, budget: as the meter counted.
    """

    reached: float | None
    to_beat: float
    spent: int
    budget: int


def grpo(attempt, seed: int = 0, *, to_beat=0.86, budget=2_048) -> Outcome:
    """Notebook 07: `attempt(model, tokenizer, questions, reward)` gives a model.

    The questions come without their answers. The reward knows them, and counts each
    completion that it scores.
    """
    meter = Meter(budget, "scored answers")
    rows = word_problems.generate(5_000, seed=17 + 100 * seed, levels=(3,))
    gold = {row["question"]: row["answer"] for row in rows}

    def reward(prompts, completions, **columns):
        """1.0 where the number after `####` is right; counts what it scores."""
        meter.spend(len(completions))
        return correct(prompts, completions, [gold[prompt] for prompt in prompts])

    given = _columns(rows, "question"), reward
    return _run_attempt(attempt, "sft", given, meter, to_beat)


def distillation(attempt, seed: int = 0, *, to_beat=0.66, budget=5_632) -> Outcome:
    """Notebook 11: `attempt(student, teacher, tokenizer, questions)` gives a student.

    `questions.take(n)` gives rows with a question and no answer.
    """
    teacher = weights.load(stage_folder("grpo"))
    rows = word_problems.generate(budget, seed=31 + 100 * seed, levels=(3,))
    questions = Meter(budget, "questions", _columns(rows, "question"))

    def with_teacher(student, tokenizer):
        return attempt(student, teacher, tokenizer, questions)

    return _run_attempt(with_teacher, "student_base", (), questions, to_beat)


def sft(attempt, seed: int = 0, *, to_beat=0.75, budget=300) -> Outcome:
    """Notebook 04: `attempt(model, tokenizer, demonstrations)` gives a model.

    `demonstrations.take(n)` gives rows with a question and a response, of which 36% are
    bare, as in the notebook.
    """
    draw = 27 + 100 * seed
    problems = word_problems.generate(budget, seed=draw, levels=(3,))
    rows = word_problems.demonstrations(problems, answer_only=0.36, seed=draw)
    meter = Meter(budget, "demonstrations", _columns(rows, "question", "response"))
    return _run_attempt(attempt, "base", (meter,), meter, to_beat)


def rewards(attempt, seed: int = 0, *, to_beat=0.82, budget=192) -> Outcome:
    """Notebook 05: `attempt(model, tokenizer, questions, labelled)` gives a model.

    `labelled.take(n)` gives rows with a question and its gold answer, the number alone.
    `questions` are others, without one.
    """
    rows = word_problems.generate(5_000, seed=47 + 100 * seed, levels=(3,))
    labelled = _columns(rows[:budget], "question", "answer")
    for row in labelled:
        row["answer"] = f"#### {gold_number(row['answer'])}"
    meter = Meter(budget, "gold answers", labelled)
    given = _columns(rows[budget:], "question"), meter
    return _run_attempt(attempt, "sft", given, meter, to_beat)


def food_sft(attempt, seed: int = 0, *, to_beat=0.65, budget=20) -> Outcome:
    """Notebook 09: `attempt(model, tokenizer, traces)` gives a model.

    `traces.take(n)` gives rows of `food_traces.ask`, each a demonstration.
    """
    meter = Meter(budget, "demonstrations", _pictures(budget, 1000 + seed))
    score = _solved_pictures
    return _run_attempt(attempt, "food_base", (meter,), meter, to_beat, score)


def food_grpo(attempt, seed: int = 0, *, to_beat=0.79, budget=2_048) -> Outcome:
    """Notebook 10: `attempt(model, tokenizer, questions, reward)` gives a model.

    The questions come with their picture and its number, and without what it shows. The
    reward looks that up by the number, pays the sum of the lesson's nine parts, and
    counts each conversation that it scores.
    """
    meter = Meter(budget, "scored conversations")
    rows = _pictures(1_024, 3000 + 100 * seed)
    parts = RewardSet(food_rewards.WEIGHTS)

    def reward(prompts, completions, number, **columns):
        """The weighted sum of the nine parts; counts what it scores."""
        meter.spend(len(completions))
        portions = [rows[each]["portions"] for each in number]
        return parts(prompts, completions, portions=portions)[0]

    shown = _columns(rows, "question", "text", "image")
    questions = [{"number": number} | row for number, row in enumerate(shown)]
    given = questions, reward
    return _run_attempt(attempt, "food_sft", given, meter, to_beat, _solved_pictures)


def _run_attempt(attempt, stage, given, meter, to_beat, score=None):
    """Trains, then checks the budget, the model's kind, and what it answers.

    Args:
      attempt: function (model, tokenizer, *given) -> model.
      stage: whose shipped model and tokenizer the attempt gets.
      meter: counts the attempt's budget.
      to_beat: the share that has to be exceeded.
      score: (model, tokenizer) -> share of the test questions answered rightly; None:
        of word problems, greedily.
    """
    folder, food = stage_folder(stage), stage.startswith("food")
    tokenizer, state = chat.load_tokenizer(folder), {}

    def start():
        model = weights.load(folder, vision=food)
        if food:
            model.remat = "none"  # so small that storing all activations is faster
        return model

    def trains():
        state["model"] = attempt(start(), tokenizer, *given)
        return not meter.refused

    def is_same_kind():
        model = state["model"]
        if not isinstance(model, Transformer) or model.config != start().config:
            return False
        arrays = jax.tree.leaves(nnx.state(model, nnx.Param))
        return all(np.isfinite(array).all() for array in arrays)

    def is_enough():
        reached = state["reached"] = (score or _solved)(state["model"], tokenizer)
        spent = f"{meter.spent:,} of {meter.budget:,} {meter.what}"
        print(f"{reached:.1%} of the held-out questions, {spent}")
        return reached > to_beat

    properties = {
        f"stay within {meter.budget:,} {meter.what}": trains,
        "return a model of the kind that it was given, with finite weights": (
            is_same_kind
        ),
        f"get more than {to_beat:.0%} of the held-out questions right": is_enough,
    }
    verdict = check_properties(properties)
    counted = state.get("reached"), to_beat, meter.spent, meter.budget
    return Outcome(verdict.passed, verdict.message, *counted)


def _columns(rows, *names):
    return [{name: row[name] for name in names} for row in rows]


def _solved(model, tokenizer):
    """The share of the test problems that a model solves greedily."""
    drawn = {"seed": TEST_SEED, "levels": (3,), "split": "test"}
    test = word_problems.generate(QUESTIONS, **drawn)
    settings = {"max_tokens": 64, "buckets": (48,), "samples": 0, "log": False}
    return evaluate(model, tokenizer, test, **settings).greedy


def _solved_pictures(model, tokenizer):
    """The share of test pictures whose whole conversation is right."""
    test = _pictures(PICTURES, TEST_SEED, "test")
    tools = ToolUse(nutrition.TINY, [nutrition.TOOL], turns=3, max_result_tokens=20)
    look = {"max_tokens": 16, "pictures": food_traces.pictures, "buckets": (40,)}
    return evaluate_food(model, tokenizer, test, tools, samples=0, **look).greedy


def _pictures(count, seed, split="train"):
    """Questions about drawn food as those of notebook 09: one in seven without any."""
    drawn = food_pictures.generate(count, seed=seed, split=split, no_food=0.15)
    return food_traces.ask(drawn, seed=seed)
