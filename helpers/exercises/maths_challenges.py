"""The challenges of the maths notebooks."""

from helpers.course.stages import stage_folder
from helpers.evaluation.evaluator import evaluate
from helpers.exercises import challenge
from helpers.model import weights
from helpers.rewards.functions import correct
from helpers.tasks.maths import word_problems
from helpers.text import chat

QUESTIONS = 500  # held out, of the checker's own


def grpo(attempt, seed: int = 0, *, to_beat=0.79, budget=2_048) -> challenge.Outcome:
    """Notebooks 07, 08: `attempt(model, tokenizer, questions, reward)` gives a model.

    The questions come without their answers; the reward knows them, and each completion
    that it scores counts.
    """
    meter = challenge.Meter(budget, "scored answers")
    rows = word_problems.generate(5_000, seed=17 + 100 * seed, levels=(3,))
    gold = {row["question"]: row["answer"] for row in rows}

    def reward(prompts, completions, **columns):
        """1.0 where the number after `####` is right; counts what it scores."""
        meter.spend(len(completions))
        return correct(prompts, completions, [gold[prompt] for prompt in prompts])

    folder = stage_folder("sft")
    tokenizer = chat.load_tokenizer(folder)
    questions = [{"question": row["question"]} for row in rows]
    return challenge.judged(
        lambda model: attempt(model, tokenizer, questions, reward),
        lambda: weights.load(folder),
        _maths(tokenizer),
        meter,
        to_beat,
        copies=("grpo",),
    )


def distillation(
    attempt, seed: int = 0, *, to_beat=0.66, budget=5_632
) -> challenge.Outcome:
    """Notebook 11: `attempt(student, teacher, tokenizer, questions)` returns a student.

    `questions.take(n)` gives rows with a question and no answer.
    """
    meter = challenge.Meter(budget, "questions")
    folder = stage_folder("grpo")
    tokenizer, teacher = chat.load_tokenizer(folder), weights.load(folder)
    rows = word_problems.generate(budget, seed=31 + 100 * seed, levels=(3,))
    questions = challenge.Rows([{"question": row["question"]} for row in rows], meter)
    return challenge.judged(
        lambda student: attempt(student, teacher, tokenizer, questions),
        lambda: weights.load(stage_folder("student_base")),
        _maths(tokenizer),
        meter,
        to_beat,
    )


def _maths(tokenizer):
    """The share of the held-out problems that a model solves greedily."""

    def score(model):
        rows = {"seed": challenge.HELD_OUT, "levels": (3,), "split": "test"}
        test = word_problems.generate(QUESTIONS, **rows)
        ask = {"max_tokens": 64, "buckets": (48,), "samples": 0, "log": False}
        return evaluate(model, tokenizer, test, **ask).greedy

    return score
