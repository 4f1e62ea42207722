"""The challenges count and measure for themselves."""

import contextlib

import jax
import numpy as np
import pytest
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.evaluation.evaluator import evaluate
from helpers.exercises import challenges
from helpers.model import weights
from helpers.rewards.functions import correct
from helpers.tasks import food_pictures, food_traces
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.tools import TINY, nutrition, trace


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """The shipped models, and few test questions."""
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setattr(challenges, "QUESTIONS", 16)
    monkeypatch.setattr(challenges, "PICTURES", 12)


def untrained(model, *given):
    return model


def test_a_stub_is_not_written_yet_and_costs_nothing():
    def stub(*given):
        raise NotImplementedError

    outcome = challenges.distillation(stub, budget=9)
    assert not outcome.passed and outcome.reached is None and outcome.spent == 0
    assert outcome.message.startswith("Not written yet: replace the stub above")


@pytest.mark.parametrize("challenge", [challenges.sft, challenges.food_sft])
def test_a_model_at_the_number_fails_and_one_above_it_passes(challenge):
    above = challenge(untrained, to_beat=-0.01)
    assert above.passed and 0 <= above.reached < 0.5
    at = challenge(untrained, to_beat=above.reached)
    assert not at.passed, "as much is not more"
    assert f"get more than {at.to_beat:.0%}" in at.message


def test_what_is_no_such_model_fails():
    def larger(student, teacher, *given):
        return teacher

    def broken(student, *given):
        nan = jax.tree.map(lambda x: x * np.nan, nnx.state(student, nnx.Param))
        nnx.update(student, nan)
        return student

    for attempt in (lambda *given: 0.99, larger, broken):
        outcome = challenges.distillation(attempt, to_beat=-1, budget=9)
        assert not outcome.passed and outcome.reached is None


def test_an_answer_too_many_fails_though_the_attempt_catches_it():
    def attempt(model, tokenizer, questions, reward):
        prompts = [row["question"] for row in questions[:64]]
        assert reward(prompts, ["#### 1"] * 64, level=[3] * 64) is not None
        with contextlib.suppress(challenges.OverBudget):
            reward(prompts[:1], ["#### 1"])
        return model

    outcome = challenges.grpo(attempt, to_beat=-1, budget=64)
    assert not outcome.passed and outcome.reached is None
    assert outcome.spent == 64 and "within 64 " in outcome.message
    assert challenges.grpo(attempt, to_beat=-1, budget=65).passed


def test_rows_come_once_each_and_are_copies():
    rows = challenges.Meter(5, "rows", [{"n": n} for n in range(5)])
    rows.take(2)[0]["n"] = 99
    for count in (-2, 2.5, None):
        with pytest.raises(ValueError, match="whole number"):
            rows.take(count)
    assert [row["n"] for row in rows.take(3)] == [2, 3, 4] and rows.spent == 5
    with pytest.raises(challenges.OverBudget, match="6 rows, and the budget is 5"):
        rows.take(1)
    assert rows.refused and rows.spent == 5


def test_questions_come_without_answers_and_the_reward_knows_them():
    seen = {}

    def attempt(model, tokenizer, questions, reward):
        prompts = [row["question"] for row in questions[:50]]
        gold = [answers[prompt] for prompt in prompts]
        seen.update(questions=questions, right=reward(prompts, gold))
        seen["wrong"] = reward(prompts, ["#### 123456"] * 50)
        return model

    rows = word_problems.generate(5_000, seed=217, levels=(3,))
    answers = {row["question"]: row["answer"] for row in rows}
    outcome = challenges.grpo(attempt, seed=2, to_beat=-1)
    assert seen["right"] == [1.0] * 50 and seen["wrong"] == [0.0] * 50
    assert outcome.spent == 100
    assert {tuple(row) for row in seen["questions"]} == {("question",)}
    test = word_problems.generate(500, seed=98, levels=(3,), split="test")
    assert not {row["question"] for row in test} & set(answers)
    # What was reached is the share of right greedy answers.
    folder, test = stage_folder("sft"), test[:16]
    settings = {"max_tokens": 64, "buckets": (48,), "samples": 0}
    model, tokenizer = weights.load(folder), chat.load_tokenizer(folder)
    texts = evaluate(model, tokenizer, test, **settings).column("text")
    right = correct(None, texts, [row["answer"] for row in test])
    assert outcome.reached == pytest.approx(np.mean(right))


def test_gold_answers_are_numbers_and_no_question_is_given_twice():
    seen = {}

    def attempt(model, tokenizer, questions, labelled):
        seen.update(known=labelled.take(30), others=questions)
        return model

    assert challenges.rewards(attempt, seed=2, to_beat=-1, budget=30).passed
    rows = word_problems.generate(5_000, seed=247, levels=(3,))
    answers = {row["question"]: row["answer"] for row in rows}
    for row in seen["known"]:
        assert set(row) == {"question", "answer"} and "<<" not in row["answer"]
        assert correct([""], [answers[row["question"]]], [row["answer"]]) == [1.0]
    assert {tuple(row) for row in seen["others"]} == {("question",)}
    questions = {row["question"] for row in (*seen["known"], *seen["others"])}
    assert len(questions) == 5_000


def test_demonstrations_are_the_notebooks_mixture():
    taken = []

    def attempt(model, tokenizer, demonstrations):
        taken.extend(demonstrations.take(300))
        return model

    assert challenges.sft(attempt, seed=1, to_beat=-1).spent == 300
    assert {tuple(row) for row in taken} == {("question", "response")}
    bare = np.mean(["<<" not in row["response"] for row in taken])
    assert 0.25 < bare < 0.47


def test_food_comes_without_its_name_and_the_reward_knows_it_by_number():
    seen = {}

    def conversation(row):
        texts = [m["content"] for m in food_traces.demonstration(row)]
        return trace(TINY, texts[1::2], [nutrition.TOOL])

    def attempt(model, tokenizer, questions, reward):
        order = [*range(29, -1, -1)]  # a number says which picture, not its place
        prompts = [questions[i]["question"] for i in order]
        right = [conversation(rows[i]) for i in order]
        silent = [trace(TINY, ["#### 402"], [nutrition.TOOL])] * 30
        seen["questions"] = questions
        seen["right"] = reward(prompts, right, number=order, text=[""] * 30)
        seen["silent"] = reward(prompts, silent, number=order)
        return model

    drawn = food_pictures.generate(30, seed=3200, split="train", no_food=0.15)
    rows = food_traces.ask(drawn, seed=3200)
    outcome = challenges.food_grpo(attempt, seed=2, to_beat=-1, budget=60)
    assert outcome.passed and outcome.spent == 60
    columns = ("number", "question", "text", "image")
    assert {tuple(row) for row in seen["questions"]} == {columns}
    paid = [1.6 if row["foods"] else 1.3 for row in rows[::-1]]  # notebook 10's table
    assert seen["right"] == pytest.approx(paid) and {1.6, 1.3} <= set(paid)
    assert seen["silent"] == pytest.approx([0.1] * 30)
