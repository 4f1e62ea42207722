"""The notebooks' challenges: a number to beat, a budget, and held-out questions.

A challenge gives its attempt a fresh copy of the model that the notebook starts from,
and rewards or rows that are counted and refused beyond the budget. The attempt returns
a model, which is asked held-out questions that no notebook uses.

A challenge cannot see labels or questions from elsewhere: read the attempt.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence

import jax
import numpy as np
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.evaluation import evaluate_food
from helpers.evaluation.evaluator import evaluate
from helpers.exercises.check import Check, check_properties
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.rewards import RewardSet, food_rewards
from helpers.rewards.functions import correct, extract_strict, gold_number
from helpers.tasks.food import food_pictures, food_traces
from helpers.tasks.maths import word_problems
from helpers.text import chat
from helpers.tools import nutrition

HELD_OUT = 98  # seed of the held-out questions; the notebooks use other seeds
QUESTIONS, PICTURES, PAIRS = 500, 360, 60  # held out, of maths, food and rewards
COPIED = 0.1  # closer to a shipped model than this share of the way: a copy


class OverBudget(RuntimeError):
    """An attempt asked for more than its budget."""


@dataclasses.dataclass
class Meter:
    """Counts what an attempt spends, and refuses what is beyond the budget.

    Attributes:
      budget: the most that may be spent.
      what: of what, in words, such as "scored answers".
      spent: how many were spent so far.
      refused: whether more was asked for. The attempt has failed then, whether it
        catches the error or not.
    """

    budget: int
    what: str
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


class Rows:
    """Rows to learn from, each given once and counted by a meter."""

    def __init__(self, rows: Sequence[dict], meter: Meter):
        self._rows, self._meter = list(rows), meter

    def take(self, count: int) -> list[dict]:
        """The next `count` rows; raises OverBudget where the budget has fewer left."""
        first = self._meter.spent
        self._meter.spend(count)
        return [dict(row) for row in self._rows[first : first + count]]


@dataclasses.dataclass(frozen=True)
class Outcome(Check):
    """The result of an attempt.

    Attributes:
      reached: the share of the held-out questions answered rightly, or of the pairs
        ordered rightly; None if the attempt was refused before that.
      to_beat: the share that `reached` had to exceed.
      spent, budget: as the meter counted.
    """

    reached: float | None
    to_beat: float
    spent: int
    budget: int


def grpo(attempt, seed: int = 0, *, to_beat=0.79, budget=2_048) -> Outcome:
    """Notebooks 07, 08: `attempt(model, tokenizer, questions, reward)` gives a model.

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

    questions = _columns(rows, "question")
    return _maths(attempt, "sft", (questions, reward), meter, to_beat, copies=("grpo",))


def distillation(attempt, seed: int = 0, *, to_beat=0.66, budget=5_632) -> Outcome:
    """Notebook 11: `attempt(student, teacher, tokenizer, questions)` gives a student.

    `questions.take(n)` gives rows with a question and no answer.
    """
    meter = Meter(budget, "questions")
    folder = stage_folder("grpo")
    tokenizer, teacher = chat.load_tokenizer(folder), weights.load(folder)
    rows = word_problems.generate(budget, seed=31 + 100 * seed, levels=(3,))
    questions = Rows(_columns(rows, "question"), meter)
    return _run_attempt(
        lambda student: attempt(student, teacher, tokenizer, questions),
        lambda: weights.load(stage_folder("student_base")),
        lambda student: _solved(student, tokenizer),
        meter,
        to_beat,
    )


def sft(attempt, seed: int = 0, *, to_beat=0.75, budget=300) -> Outcome:
    """Notebook 04: `attempt(model, tokenizer, demonstrations)` gives a model.

    `demonstrations.take(n)` gives rows with a question and a response, of which 36% are
    bare, as in the notebook.
    """
    meter, draw = Meter(budget, "demonstrations"), 27 + 100 * seed
    problems = word_problems.generate(budget, seed=draw, levels=(3,))
    rows = word_problems.demonstrations(problems, answer_only=0.36, seed=draw)
    demonstrations = Rows(_columns(rows, "question", "response"), meter)
    copies = ("sft", "grpo")
    return _maths(attempt, "base", (demonstrations,), meter, to_beat, copies=copies)


def rewards(attempt, seed: int = 0, *, to_beat=0.70, budget=192) -> Outcome:
    """Notebook 05: `attempt(model, tokenizer, questions, labelled)` gives a model.

    `labelled.take(n)` gives rows with a question and its gold answer, the number alone.
    `questions` are others, without one.
    """
    meter = Meter(budget, "gold answers")
    rows = word_problems.generate(5_000, seed=47 + 100 * seed, levels=(3,))
    labelled = [
        {"question": row["question"], "answer": f"#### {gold_number(row['answer'])}"}
        for row in rows[:budget]
    ]
    given = _columns(rows[budget:], "question"), Rows(labelled, meter)
    return _maths(attempt, "sft", given, meter, to_beat, copies=("grpo",))


def preferences(attempt, seed: int = 0, *, to_beat=0.80, budget=1_024) -> Outcome:
    """Notebook 08b: `attempt(model, tokenizer, questions, judge)` gives a model.

    The questions come with their names and without their answers. The judge knows both,
    and counts each completion that it judges.
    """
    meter = Meter(budget, "judged answers")
    rows = word_problems.generate(5_000, seed=24 + 100 * seed, levels=(3,))
    row_of = {row["question"]: row for row in rows}
    people = {name for row in rows for name in row["names"]}

    def judge(prompts, completions, **columns):
        """1.0 for the right number and the right people; counts what it judges."""
        meter.spend(len(completions))
        each = zip(prompts, completions, strict=True)
        return [float(_keeps_names(text, row_of[p], people)) for p, text in each]

    def score(model, tokenizer):
        test = _held_out_problems()
        texts = _greedy(model, tokenizer, test).column("text")
        each = zip(texts, test, strict=True)
        return float(np.mean([_keeps_names(text, row, people) for text, row in each]))

    given = _columns(rows, "question", "names"), judge
    return _maths(attempt, "grpo", given, meter, to_beat, score=score)


def food_sft(attempt, seed: int = 0, *, to_beat=0.55, budget=20) -> Outcome:
    """Notebook 09: `attempt(model, tokenizer, traces)` gives a model.

    `traces.take(n)` gives rows of `food_traces.ask`, each a demonstration.
    """
    meter = Meter(budget, "demonstrations")
    traces = Rows(_pictures(budget, 1000 + seed), meter)
    return _food(attempt, "food_base", (traces,), meter, to_beat)


def food_grpo(attempt, seed: int = 0, *, to_beat=0.77, budget=2_048) -> Outcome:
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
    return _food(attempt, "food_sft", (questions, reward), meter, to_beat)


def own_reward(attempt, seed: int = 0, *, to_beat=0.90, budget=20) -> Outcome:
    """Notebook 15: `attempt(answers)` gives a reward for good answers, not cheap ones.

    An answer is good where shown work leads to the right number, and cheap where that
    number is bought, bare, wrong, or without its last line. `answers.take(n)` gives
    rows with a question, its number, an answer, and whether it is good. The reward
    `(prompts, completions, number)` is asked for one answer at a time, in random order,
    and has to pay the good answer to a question more than each cheap one.
    """
    meter = Meter(budget, "labelled answers")
    rows = Rows(_labelled_answers(budget, 71 + 100 * seed), meter)
    test = _held_out_answers(HELD_OUT + seed)
    state: dict = {"reached": None}

    def returns_a_reward():
        state["reward"] = attempt(rows)
        return not meter.refused

    def pays_numbers():
        asked = [([r["question"]], [r["answer"]], [r["number"]]) for r in test]
        state["paid"] = [
            float(*state["reward"](question, answer, number=number))
            for question, answer, number in asked
        ]
        return np.isfinite(state["paid"]).all() and not meter.refused

    def orders_pairs():
        paid = list(zip(test, state["paid"], strict=True))
        good = {row["question"]: pay for row, pay in paid if row["good"]}
        pairs = [good[row["question"]] > pay for row, pay in paid if not row["good"]]
        state["reached"] = float(np.mean(pairs))
        print(
            f"{state['reached']:.1%} of the held-out pairs, "
            f"{meter.spent} of {budget} {meter.what}"
        )
        return state["reached"] > to_beat

    properties = {
        f"stay within {budget} {meter.what}": returns_a_reward,
        "return a function that gives one finite number for each answer": pays_numbers,
        f"order more than {to_beat:.0%} of the held-out pairs": orders_pairs,
    }
    verdict = check_properties(properties)
    return _outcome(verdict, state, to_beat, meter)


def _run_attempt(
    train: Callable, start: Callable, score: Callable, meter, to_beat, copies=()
) -> Outcome:
    """Trains, then checks the budget, the model's kind, and what it answers.

    Args:
      train: the model that the notebook starts from -> the attempt's model.
      start: () -> a fresh copy of that model.
      score: model -> share of the held-out questions answered rightly.
      meter: counts the attempt's budget.
      to_beat: the share that has to be exceeded.
      copies: stages whose shipped weights may not be returned.
    """
    state: dict = {"reached": None}

    def trains():
        state["model"] = train(start())
        return not meter.refused

    def answers():
        state["reached"] = score(state["model"])
        print(
            f"{state['reached']:.1%} of the held-out questions, "
            f"{meter.spent:,} of {meter.budget:,} {meter.what}"
        )
        return state["reached"] > to_beat

    properties = {
        f"stay within {meter.budget:,} {meter.what}": trains,
        "return a model of the kind that it was given, with finite weights": lambda: (
            _same_kind(state["model"], start())
        ),
        "train a model, and not return one that is there already": lambda: (
            not any(_is_copy(state["model"], start(), s) for s in copies)
        ),
        f"get more than {to_beat:.0%} of the held-out questions right": answers,
    }
    verdict = check_properties(properties)
    return _outcome(verdict, state, to_beat, meter)


def _outcome(verdict, state, to_beat, meter):
    counted = (state["reached"], to_beat, meter.spent, meter.budget)
    return Outcome(verdict.passed, verdict.message, *counted)


def _flat(model):
    """All weights of a model as one vector."""
    arrays = jax.tree.leaves(nnx.state(model, nnx.Param))
    return np.concatenate([np.ravel(x) for x in arrays])


def _same_kind(model, start) -> bool:
    """Whether a model is of the same class and config, and finite."""
    same = type(model) is type(start) and model.config == start.config
    return same and bool(np.isfinite(_flat(model)).all())


def _is_copy(model, start, stage) -> bool:
    """Whether a model is the shipped one of a stage, or hardly moved from it."""
    shipped = weights.load(stage_folder(stage), vision=hasattr(start, "vision"))
    if not _same_kind(shipped, start):
        return False
    target, begin = _flat(shipped), _flat(start)
    distance = np.linalg.norm(_flat(model) - target)
    return distance < COPIED * np.linalg.norm(begin - target)


def _columns(rows, *names):
    return [{name: row[name] for name in names} for row in rows]


def _held_out_problems():
    rows = {"seed": HELD_OUT, "levels": (3,), "split": "test"}
    return word_problems.generate(QUESTIONS, **rows)


def _greedy(model, tokenizer, test):
    settings = {"max_tokens": 64, "buckets": (48,), "samples": 0, "log": False}
    return evaluate(model, tokenizer, test, **settings)


def _solved(model, tokenizer):
    """The share of the held-out problems that a model solves greedily."""
    return _greedy(model, tokenizer, _held_out_problems()).greedy


def _maths(attempt, stage, given, meter, to_beat, *, copies=(), score=_solved):
    """Runs an attempt that trains the model of a stage of the maths notebooks."""
    folder = stage_folder(stage)
    tokenizer = chat.load_tokenizer(folder)
    return _run_attempt(
        lambda model: attempt(model, tokenizer, *given),
        lambda: weights.load(folder),
        lambda model: score(model, tokenizer),
        meter,
        to_beat,
        copies,
    )


def _keeps_names(text, row, people):
    """Whether an answer has the right number and keeps the names of its question.

    It names nobody else, and names somebody where the worked solution does.
    """
    named, due = (people & set(re.findall(r"\w+", x)) for x in (text, row["answer"]))
    right = extract_strict(text) == extract_strict(row["answer"])
    return right and named <= set(row["names"]) and bool(named) >= bool(due)


def _food(attempt, stage, given, meter, to_beat):
    """Runs an attempt that trains the model of a stage of the food notebooks."""
    folder = stage_folder(stage)
    tokenizer = chat.load_tokenizer(folder)
    tools = ToolUse(nutrition.TINY, [nutrition.TOOL], turns=3, max_result_tokens=20)

    def start():
        model = weights.load(folder, vision=True)
        model.remat = "none"  # so small that storing all activations is faster
        return model

    def score(model):
        """The share of held-out pictures whose whole conversation is right."""
        test = _pictures(PICTURES, HELD_OUT, "test")
        look = {"max_tokens": 16, "pictures": food_traces.pictures, "buckets": (40,)}
        return evaluate_food(model, tokenizer, test, tools, samples=0, **look).greedy

    return _run_attempt(
        lambda model: attempt(model, tokenizer, *given),
        start,
        score,
        meter,
        to_beat,
        copies=("food_grpo",),
    )


def _pictures(count, seed, split="train"):
    """Questions about drawn food as those of notebook 09: one in seven without any."""
    drawn = food_pictures.generate(
        count, seed=seed, split=split, levels=(1,), no_food=0.15
    )
    return food_traces.ask(drawn, seed=seed)


def _answer_row(problem, answer, good):
    number = str(gold_number(problem["answer"]))
    row = {"question": problem["question"], "number": number}
    return row | {"answer": answer, "good": good}


def _labelled_answers(count, seed):
    """Good and cheap answers by turns, each to a question of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    problems = word_problems.generate(count, seed=seed, levels=(1, 2, 3))
    for i, problem in enumerate(problems):
        shown, _ = _cheap_answers(problem["answer"], rng)
        answer = problem["answer"] if i % 2 else shown[i // 2 % len(shown)]
        rows.append(_answer_row(problem, answer, bool(i % 2)))
    return rows


def _held_out_answers(seed):
    """All answers to each of the held-out questions, in random order."""
    rng = np.random.default_rng(seed)
    rows = []
    problems = {"seed": seed, "levels": (1, 2, 3), "split": "test"}
    for problem in word_problems.generate(PAIRS, **problems):
        rows.append(_answer_row(problem, problem["answer"], True))
        for answers in _cheap_answers(problem["answer"], rng):
            rows += [_answer_row(problem, answer, False) for answer in answers]
    return [rows[i] for i in rng.permutation(len(rows))]


def _cheap_answers(solution, rng):
    """Cheap answers to a problem: seven labelled kinds, and eight that are not.

    Args:
      solution: the worked answer.
      rng: draws what is wrong, and by how much.
    """
    n, off = int(gold_number(solution)), int(rng.integers(1, 9))
    part, wrong = int(rng.integers(1, max(n, 2))), n + off
    line = f"\n#### {n}"
    work = solution.removesuffix(line)
    slip = work.replace(f"={n}>>{n}", f"={wrong}>>{wrong}")
    labelled = [
        f"#### {n}",
        f"<<1=1>>1{line}",
        f"It is <<{n}+0={n}>>{n}.{line}",
        f"{slip}\n#### {wrong}",
        f"{work}\n#### {wrong}",
        f"{solution}\nThat was easy.",
        f"#### {wrong}",
    ]
    others = [
        f"It is <<{n}*1={n}>>{n}.{line}",
        f"It is <<{wrong}-{off}={n}>>{n}.{line}",
        f"It is <<{part}+{n - part}={n}>>{n}.{line}",
        f"It is <<2*{n}/2={n}>>{n}.{line}",
        f"{slip}{line}",
        f"{work}\nAnswer: {n}",
        f"It is <<{part}+{off}={part + off}>>{part + off}.\n#### {wrong}",
        f"{work}\n<<1=1>>1{line}",
    ]
    return labelled, others
