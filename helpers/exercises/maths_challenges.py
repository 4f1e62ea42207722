"""The challenges of the maths notebooks."""

import re

from helpers.course.stages import stage_folder
from helpers.evaluation.evaluator import evaluate
from helpers.exercises import challenge
from helpers.model import weights
from helpers.rewards.functions import correct, extract_strict, gold_number
from helpers.tasks.maths import word_problems
from helpers.text import chat

QUESTIONS = 500  # held out, of the checker's own
ASK = {"max_tokens": 64, "buckets": (48,), "samples": 0, "log": False}


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


def sft(attempt, seed: int = 0, *, to_beat=0.75, budget=300) -> challenge.Outcome:
    """Notebook 04: `attempt(model, tokenizer, demonstrations)` returns a model.

    `demonstrations.take(n)` gives rows with a question and a response, of which 36% are
    bare, as in the notebook.
    """
    meter = challenge.Meter(budget, "demonstrations")
    folder, draw = stage_folder("base"), 27 + 100 * seed
    tokenizer = chat.load_tokenizer(folder)
    problems = word_problems.generate(budget, seed=draw, levels=(3,))
    told = word_problems.demonstrations(problems, answer_only=0.36, seed=draw)
    rows = [{name: row[name] for name in ("question", "response")} for row in told]
    demonstrations = challenge.Rows(rows, meter)
    return challenge.judged(
        lambda model: attempt(model, tokenizer, demonstrations),
        lambda: weights.load(folder),
        _maths(tokenizer),
        meter,
        to_beat,
        copies=("sft", "grpo"),
    )


def rewards(attempt, seed: int = 0, *, to_beat=0.70, budget=192) -> challenge.Outcome:
    """Notebook 05: `attempt(model, tokenizer, questions, labelled)` returns a model.

    `labelled.take(n)` gives rows with a question and its gold answer, the number alone;
    `questions` are others, without one.
    """
    meter = challenge.Meter(budget, "gold answers")
    folder = stage_folder("sft")
    tokenizer = chat.load_tokenizer(folder)
    rows = word_problems.generate(5_000, seed=47 + 100 * seed, levels=(3,))
    known = [
        {"question": row["question"], "answer": f"#### {gold_number(row['answer'])}"}
        for row in rows[:budget]
    ]
    labelled = challenge.Rows(known, meter)
    questions = [{"question": row["question"]} for row in rows[budget:]]
    return challenge.judged(
        lambda model: attempt(model, tokenizer, questions, labelled),
        lambda: weights.load(folder),
        _maths(tokenizer),
        meter,
        to_beat,
        copies=("grpo",),
    )


def preferences(
    attempt, seed: int = 0, *, to_beat=0.80, budget=1_024
) -> challenge.Outcome:
    """Notebook 08b: `attempt(model, tokenizer, questions, judge)` returns a model.

    The questions come with their names and without their answers; the judge knows
    both, and each completion that it judges counts.
    """
    meter = challenge.Meter(budget, "judged answers")
    rows = word_problems.generate(5_000, seed=24 + 100 * seed, levels=(3,))
    known = {row["question"]: row for row in rows}
    people = _people(rows)

    def judge(prompts, completions, **columns):
        """1.0 for the right number and the right people; counts what it judges."""
        meter.spend(len(completions))
        each = zip(prompts, completions, strict=True)
        return [float(_kept(text, known[prompt], people)) for prompt, text in each]

    folder = stage_folder("grpo")
    tokenizer = chat.load_tokenizer(folder)
    questions = [{name: row[name] for name in ("question", "names")} for row in rows]

    def score(model):
        test = _held_out()
        answers = evaluate(model, tokenizer, test, **ASK).column("text")
        kept = [
            _kept(text, row, people) for text, row in zip(answers, test, strict=True)
        ]
        return sum(kept) / len(kept)

    return challenge.judged(
        lambda model: attempt(model, tokenizer, questions, judge),
        lambda: weights.load(folder),
        score,
        meter,
        to_beat,
    )


def _people(rows):
    """The names of all people in the rows."""
    return {name for row in rows for name in row["names"]}


def _kept(text, row, people):
    """Whether an answer has the right number and keeps the names of its question.

    It names nobody else and, where the worked solution names somebody, it does so too:
    an answer without names keeps none.
    """
    named, due = (people & set(re.findall(r"\w+", x)) for x in (text, row["answer"]))
    right = extract_strict(text) == extract_strict(row["answer"])
    return right and named <= set(row["names"]) and bool(named) >= bool(due)


def _held_out():
    """The held-out problems of the checkers."""
    rows = {"seed": challenge.HELD_OUT, "levels": (3,), "split": "test"}
    return word_problems.generate(QUESTIONS, **rows)


def _maths(tokenizer):
    """The share of the held-out problems that a model solves greedily."""
    return lambda model: evaluate(model, tokenizer, _held_out(), **ASK).greedy
