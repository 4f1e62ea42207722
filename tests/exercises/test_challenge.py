"""The checkers of the challenges count and measure for themselves."""

import jax
import numpy as np
import pytest
from flax import nnx

from helpers import batches
from helpers.course.stages import stage_folder
from helpers.exercises import challenge, food_challenges, maths_challenges
from helpers.generation import Rollouts
from helpers.model import Transformer, weights
from helpers.rewards.functions import correct
from helpers.tasks import food_pictures, food_traces
from helpers.tasks.maths import word_problems
from helpers.tools import TINY, nutrition, trace
from helpers.training import Trainer, objectives, optimizers


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """The shipped models, and few held-out questions."""
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setattr(maths_challenges, "QUESTIONS", 40)
    monkeypatch.setattr(food_challenges, "PICTURES", 24)
    monkeypatch.setattr(food_challenges, "QUESTIONS", 30)


def untrained(model, *given):
    return model


def changed(model, change):
    """The model with each of its arrays changed."""
    nnx.update(model, jax.tree.map(change, nnx.state(model, nnx.Param)))
    return model


@pytest.mark.parametrize("count", [-20, 2.5, None, "3"])
def test_a_meter_counts_whole_numbers_and_never_backwards(count):
    meter = challenge.Meter(20, "rows")
    rows = challenge.Rows([{"n": i} for i in range(40)], meter)
    rows.take(15)
    with pytest.raises(ValueError, match="cannot be taken"):
        rows.take(count)
    assert meter.spent == 15 and rows.take(0) == []


CHECKERS = (
    maths_challenges.grpo,
    food_challenges.food_sft,
    food_challenges.food_grpo,
    maths_challenges.distillation,
    maths_challenges.sft,
    maths_challenges.preferences,
    maths_challenges.rewards,
)
SCORED = (maths_challenges.grpo, maths_challenges.preferences)  # by a reward
TAKEN = (  # rows
    food_challenges.food_sft,
    maths_challenges.distillation,
    maths_challenges.sft,
    maths_challenges.rewards,
)


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_stub_is_not_written_yet_and_costs_nothing(checker):
    def stub(*given):
        raise NotImplementedError

    outcome = checker(stub)
    assert not outcome.passed and outcome.reached is None and outcome.spent == 0
    assert outcome.message.startswith("Not written yet: replace the stub above")


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_model_below_the_number_fails_and_one_above_it_passes(checker):
    below = checker(untrained)
    assert not below.passed and 0 <= below.reached < below.to_beat
    assert f"get more than {below.to_beat:.0%}" in below.message
    above = checker(untrained, to_beat=-0.01)
    assert above.passed and above.reached == below.reached
    assert not checker(untrained, to_beat=below.reached).passed, "as much is not more"


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("returned", [None, "a model", 0.99, ("model",), {"greedy": 1}])
def test_what_is_no_model_fails(checker, returned):
    outcome = checker(lambda *given: returned, to_beat=-1)
    assert not outcome.passed and outcome.reached is None


def test_a_model_of_another_size_fails_though_it_answers_well():
    larger = maths_challenges.distillation(
        lambda student, teacher, *given: teacher, to_beat=0
    )
    assert not larger.passed and "of the kind" in larger.message


@pytest.mark.parametrize("checker", [*SCORED, maths_challenges.sft])
def test_a_model_of_a_smaller_size_fails(checker):
    small = weights.load(stage_folder("student_base"))
    outcome = checker(lambda *given: small, to_beat=-1)
    assert not outcome.passed and "of the kind" in outcome.message


def test_weights_that_are_no_numbers_fail():
    outcome = maths_challenges.grpo(
        lambda model, *given: changed(model, lambda x: x * np.nan), to_beat=-1
    )
    assert not outcome.passed and "finite" in outcome.message


def back_to_the_start(stage, share):
    """An attempt: the shipped weights of a stage, a share of the way taken back."""

    def attempt(model, *given):
        shipped = weights.load(stage_folder(stage), vision="food" in stage)
        start, end = (nnx.state(each, nnx.Param) for each in (model, shipped))
        between = jax.tree.map(lambda a, b: share * a + (1 - share) * b, start, end)
        nnx.update(model, between)
        return model

    return attempt


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize(
    "checker, stage",
    [
        (maths_challenges.grpo, "grpo"),
        (food_challenges.food_sft, "food_grpo"),
        (food_challenges.food_grpo, "food_grpo"),
        (maths_challenges.sft, "sft"),
        (maths_challenges.sft, "grpo"),
    ],
)
def test_shipped_weights_are_refused_moved_a_little_or_not(checker, stage, share):
    outcome = checker(back_to_the_start(stage, share), to_beat=-1)
    assert not outcome.passed and outcome.reached is None
    assert "not return one that is there already" in outcome.message


def test_a_models_own_way_is_no_copy_even_if_it_is_as_far_from_the_start():
    rng = np.random.default_rng(4)

    def attempt(model, *given):
        return changed(model, lambda x: x + 0.1 * rng.normal(size=x.shape) * x.std())

    assert maths_challenges.grpo(attempt, to_beat=-1).passed


@pytest.mark.parametrize("checker", SCORED)
@pytest.mark.parametrize("caught", [False, True])
def test_an_answer_too_many_fails_whether_the_attempt_catches_it_or_not(
    checker, caught
):
    def attempt(model, tokenizer, questions, reward):
        asked = [row["question"] for row in questions[:64]]
        assert reward(asked, ["#### 1"] * 64, level=[3] * 64) is not None
        try:
            reward(asked[:1], ["#### 1"])
        except challenge.OverBudget:
            if not caught:
                raise
        return model

    outcome = checker(attempt, to_beat=-1, budget=64)
    assert not outcome.passed and outcome.reached is None
    assert outcome.spent == 64 and "within 64 " in outcome.message
    assert checker(attempt, to_beat=-1, budget=65).passed


@pytest.mark.parametrize("checker", TAKEN)
def test_a_row_too_many_fails_whether_the_attempt_catches_it_or_not(checker):
    taken = []

    def attempt(model, *given):
        taken.extend(given[-1].take(6))
        try:
            taken.extend(given[-1].take(5))
        except challenge.OverBudget:
            pass
        return model

    outcome = checker(attempt, to_beat=-1, budget=10)
    assert not outcome.passed and outcome.spent == 6 == len(taken)
    assert checker(attempt, to_beat=-1, budget=11).passed


@pytest.mark.parametrize("checker", TAKEN)
@pytest.mark.parametrize("name, value", [("spent", 0), ("budget", 99)])
def test_what_is_counted_cannot_be_written(checker, name, value):
    def attempt(model, *given):
        given[-1].take(8)
        setattr(given[-1]._meter, name, value)
        return model

    outcome = checker(attempt, to_beat=-1, budget=10)
    assert not outcome.passed and name in outcome.message
    assert (outcome.spent, outcome.budget) == (8, 10)


@pytest.mark.parametrize(
    "owner, name",
    [
        (maths_challenges, "evaluate"),
        (maths_challenges, "QUESTIONS"),
        (maths_challenges, "_held_out"),
        (challenge, "_copied"),
        (challenge.Meter, "spend"),
        (Transformer, "logits"),
    ],
)
def test_an_attempt_that_patches_the_course_fails(owner, name, monkeypatch):
    before = vars(owner)[name]

    def attempt(model, *given):
        other = 1 if isinstance(before, int) else lambda *args, **named: before
        monkeypatch.setattr(owner, name, other)
        return model

    outcome = maths_challenges.grpo(attempt, to_beat=-1)
    assert not outcome.passed and outcome.reached is None
    assert "leave the functions of the course as they are" in outcome.message


def test_an_attempt_that_trains_leaves_the_course_as_it_is():
    def attempt(model, tokenizer, questions, reward):
        asked = batches.prompts(questions, tokenizer, batch=4, buckets=(48,), seed=0)
        own = Rollouts(model, asked, reward, tokenizer, group=4, max_tokens=64, seed=0)
        adam = optimizers.adamw(1e-3)
        Trainer(model, objectives.policy_gradient(), adam, log=False).fit(own, 2)
        return model

    outcome = maths_challenges.grpo(attempt, to_beat=-1)
    assert outcome.passed and outcome.spent == 32


def test_rows_come_once_each_and_are_copies():
    meter = challenge.Meter(5, "rows")
    rows = challenge.Rows([{"n": n} for n in range(5)], meter)
    first = rows.take(2)
    first[0]["n"] = 99
    assert [row["n"] for row in rows.take(3)] == [2, 3, 4] and meter.spent == 5
    with pytest.raises(challenge.OverBudget, match="6 rows, and the budget is 5"):
        rows.take(1)
    assert meter.refused and meter.spent == 5


def test_questions_come_without_answers_and_the_reward_knows_them():
    seen = {}

    def attempt(model, tokenizer, questions, reward):
        asked = [row["question"] for row in questions[:50]]
        seen.update(questions=questions, right=reward(asked, gold(asked)))
        seen["wrong"] = reward(asked, ["#### 123456"] * 50)
        return model

    rows = word_problems.generate(5_000, seed=217, levels=(3,))
    by_question = {row["question"]: row["answer"] for row in rows}

    def gold(asked):
        return [by_question[question] for question in asked]

    outcome = maths_challenges.grpo(attempt, seed=2, to_beat=-1)
    assert seen["right"] == [1.0] * 50 and seen["wrong"] == [0.0] * 50
    assert outcome.spent == 100
    assert {tuple(row) for row in seen["questions"]} == {("question",)}
    held = word_problems.generate(500, seed=98, levels=(3,), split="test")
    assert not {row["question"] for row in held} & set(by_question)


def test_gold_answers_are_numbers_and_no_question_is_given_twice():
    seen = {}

    def attempt(model, tokenizer, questions, labelled):
        seen.update(known=labelled.take(30), others=questions)
        return model

    assert maths_challenges.rewards(attempt, seed=2, to_beat=-1, budget=30).passed
    rows = word_problems.generate(5_000, seed=247, levels=(3,))
    answers = {row["question"]: row["answer"] for row in rows}
    for row in seen["known"]:
        assert set(row) == {"question", "answer"} and "<<" not in row["answer"]
        assert correct([""], [answers[row["question"]]], [row["answer"]]) == [1.0]
    assert {tuple(row) for row in seen["others"]} == {("question",)}
    asked = [row["question"] for row in (*seen["known"], *seen["others"])]
    assert len(set(asked)) == len(asked) == 5_000
    held = word_problems.generate(500, seed=98, levels=(3,), split="test")
    assert not {row["question"] for row in held} & set(asked)


def drawn_food(count, seed, split):
    """Questions about one food or none, drawn here as the lesson draws them."""
    rows = food_pictures.generate(count, seed=seed, split=split, no_food=0.15)
    return food_traces.ask(rows, seed=seed)


def demonstrated(row):
    """The right conversation about a row, the tool's numbers looked up for real."""
    said = [m["content"] for m in food_traces.demonstration(row)]
    return trace(TINY, said[1::2], [nutrition.TOOL])


def test_food_comes_without_its_name_and_the_reward_knows_it_by_number():
    seen = {}

    def attempt(model, tokenizer, questions, reward):
        order = [*range(29, -1, -1)]  # a number says which picture, not its place
        asked = [questions[i]["question"] for i in order]
        seen.update(questions=questions)
        right = [demonstrated(rows[i]) for i in order]
        seen["right"] = reward(asked, right, number=order, text=[""] * 30)
        silent = [trace(TINY, ["#### 402"], [nutrition.TOOL])] * 30
        seen["silent"] = reward(asked, silent, number=order)
        try:
            reward(asked[:1], right[:1], number=order[:1])
        except challenge.OverBudget:
            return model

    rows = drawn_food(30, 3200, "train")
    checker = food_challenges.food_grpo
    outcome = checker(attempt, seed=2, to_beat=-1, budget=60)
    assert not outcome.passed and outcome.spent == 60
    assert "60 scored conversations" in outcome.message
    assert {tuple(row) for row in seen["questions"]} == {
        ("number", "question", "text", "image")
    }
    shown = [row["image"] for row in seen["questions"]]
    assert all(np.array_equal(a, b["image"]) for a, b in zip(shown, rows, strict=True))
    paid = [1.6 if row["foods"] else 1.3 for row in rows[::-1]]  # notebook 10's table
    assert seen["right"] == pytest.approx(paid) and {1.6, 1.3} <= set(paid)
    assert seen["silent"] == pytest.approx([0.1] * 30)
    held = drawn_food(360, 98, "test")
    assert not {row["id"] for row in held} & {row["id"] for row in rows}


def test_the_number_reached_is_the_share_of_right_greedy_answers():
    from helpers.evaluation.evaluator import evaluate
    from helpers.text import chat

    outcome = maths_challenges.grpo(untrained, to_beat=-1)
    folder = stage_folder("sft")
    held = word_problems.generate(40, seed=98, levels=(3,), split="test")
    report = evaluate(
        weights.load(folder),
        chat.load_tokenizer(folder),
        held,
        max_tokens=64,
        buckets=(48,),
        samples=0,
    )
    texts = [answer["text"] for answer in report.answers]
    right = correct(None, texts, [row["answer"] for row in held])
    assert outcome.reached == pytest.approx(np.mean(right))


def test_demonstrations_are_the_mixture_and_tell_no_more_than_it_does():
    taken = []

    def attempt(model, tokenizer, demonstrations):
        taken.extend(demonstrations.take(300))
        return model

    assert maths_challenges.sft(attempt, seed=1, to_beat=-1).spent == 300
    assert {tuple(row) for row in taken} == {("question", "response")}
    bare = [row["response"].startswith("####") for row in taken]
    assert sum(bare) == 108, "36% of 300"
    gold = {
        row["question"]: row["answer"]
        for row in word_problems.generate(300, seed=127, levels=(3,))
    }
    answers = [gold[row["question"]] for row in taken]
    assert correct(None, [row["response"] for row in taken], answers) == [1.0] * 300


def judged(template, *texts):
    """What the judge of notebook 08b says of answers to a question of a template.

    A text is made of `{own}`, `{other}`, `{stranger}` and `{right}`.
    """
    found = []

    def attempt(model, tokenizer, questions, judge):
        assert {tuple(row) for row in questions} == {("question", "names")}
        rows = word_problems.generate(5_000, seed=24, levels=(3,))
        row = next(row for row in rows if row["template"] == template)
        stranger = next(
            n for each in rows for n in each["names"] if n not in row["names"]
        )
        words = {"stranger": stranger, "right": row["answer"].split("#### ")[1]}
        words |= zip(("own", "other"), row["names"], strict=False)
        asked = [text.format(**words) for text in texts]
        found.extend(judge([row["question"]] * len(asked), asked, level=[3]))
        return model

    assert maths_challenges.preferences(attempt, to_beat=-1).spent == len(texts)
    return found


def test_the_judge_wants_the_right_number_and_the_people_of_the_question():
    said = {
        "{own} has <<1+2=3>>3.\n#### {right}": 1,
        "{other} has <<1+2=3>>3.\n#### {right}": 1,
        "{own} has 3, {stranger} has 4.\n#### {right}": 0,
        "{stranger} has <<1+2=3>>3.\n#### {right}": 0,
        "{own} has <<1+2=3>>3.\n#### 123456": 0,
        "{own} has {right}.": 0,
        "They have <<1+2=3>>3.\n#### {right}": 0,
        "#### {right}": 0,
        "": 0,
    }
    assert judged("together_in_bags", *said) == list(said.values())


@pytest.mark.parametrize("template", ["bus", "share_the_rest"])
def test_nobody_has_to_be_named_where_the_solution_names_nobody(template):
    assert judged(template, "#### {right}", "{stranger}\n#### {right}") == [1, 0]


def test_the_share_to_beat_is_of_all_questions_those_without_names_included():
    from helpers.evaluation.evaluator import evaluate
    from helpers.text import chat

    folder = stage_folder("grpo")
    held = word_problems.generate(40, seed=98, levels=(3,), split="test")
    ask = {"max_tokens": 64, "buckets": (48,), "samples": 0}
    report = evaluate(weights.load(folder), chat.load_tokenizer(folder), held, **ask)
    kept = [a["strict"] and a["names_kept"] is not False for a in report.answers]
    outcome = maths_challenges.preferences(untrained, to_beat=-1)
    assert outcome.reached == pytest.approx(np.mean(kept))
    assert outcome.reached < report.greedy - 0.1, "names count"
