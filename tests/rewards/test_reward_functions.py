"""Grading real answers and perturbed ones, format, length, and rewards that fail."""

import asyncio
import copy
import functools
import json
import math
import os
import re
from pathlib import Path

import forked
import numpy as np
import pytest

from helpers.rewards import answers, functions
from helpers.rewards.answers import extract_lenient, extract_strict
from helpers.rewards.functions import RewardError, RewardSet, row_columns
from helpers.tools import tool
from helpers.tools.grammars import GEMMA4, HERMES

REAL = Path(
    os.environ.get("COURSE_GSM8K")
    or Path(__file__).parents[3] / "shared" / "data" / "gsm8k"
)

CALL = '<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>'
HUGE = 10**6
HOSTILE = (
    "9" * HUGE, "#### " + "9" * HUGE, "1," * HUGE, "#### 1" + ",111" * HUGE,
    " 1" * HUGE, "1/" * HUGE, "1.111" * HUGE, "1e" * HUGE, "-" * HUGE, "#" * HUGE,
    "#### " * HUGE, "<<" * HUGE, "<<" + "(" * HUGE + "1=1>>", "<<" + "9*" * HUGE,
    "<<1=" + "1" * HUGE + ">>", "\n" * HUGE, "#### 1e" + "9" * HUGE, "\x00\ud800",
)  # fmt: skip


def check_hostile(longest):
    """Ends soon only where no step count grows with the square of the length."""
    answers.LONGEST_TEXT = longest
    checkers = (
        functions.correct,
        functions.format_reward,
        functions.annotations_hold,
        functions.length_penalty(100, soft=10),
    )
    golds = ["#### 7"] * len(HOSTILE)
    for function in checkers:
        scores = function(golds, HOSTILE, answer=golds)
        assert all(-1 <= score <= 0 for score in scores)
    assert not any(extract_lenient(text) == 7 for text in HOSTILE)


def test_a_million_characters_crash_no_checker_and_only_their_end_is_read(tmp_path):
    forked.run(check_hostile, HUGE, log=tmp_path / "log")
    check_hostile(answers.LONGEST_TEXT)
    text = "<<3+4=7>> #### 7" + "\n" * HUGE
    assert functions.correct([""], [text], answer=["7"]) == [0]
    assert functions.annotations_hold([""], [text]) == [0]
    assert extract_lenient(text) is None


# --------------------------------------------------------------------------- grading


def perturbed(gold):
    """Wrong answers that look like the right one: +1, sign, a digit lost, times ten."""
    digits = re.sub(r"\D", "", gold)
    negative = gold.startswith("-")
    value = -int(digits) if negative else int(digits)
    yield str(value + 1)
    yield f"{10 * value}"
    yield gold + "0"
    if value:
        yield str(-value)
        yield f"−{gold}" if not negative else gold[1:]
    for i in range(len(digits)):
        if rest := digits[:i] + digits[i + 1 :]:
            yield "-" * negative + rest


def assert_graded(texts):
    """Grades gold answers and their perturbations, in both ways."""
    wrongly = []
    for text in texts:
        body, _, gold = text.rpartition("#### ")
        right = int(gold.replace(",", ""))
        assert functions.gold_number(text) == functions.gold_number(gold) == right
        for answer in (gold, *perturbed(gold)):
            # A zero has no sign, and zeros in front have no weight; all else is wrong.
            value = int(answer.replace(",", "").replace("−", "-").replace("--", "-"))
            completion = f"{body}#### {answer}"
            for extract in (extract_strict, extract_lenient):
                if (extract(completion) == right) != (value == right):
                    wrongly.append((extract.__name__, completion))
    assert not wrongly, wrongly[:3]


@pytest.mark.parametrize("gold", ["7", "-3", "1,000", "110"])
def test_perturbed_answers_are_wrong(gold):
    assert len(list(perturbed(gold))) >= 4
    assert_graded([f"Half of it is <<48/2=24>>24.\n#### {gold}"])


@pytest.fixture(scope="module")
def real_answers():
    if not REAL.is_dir():
        pytest.skip(f"no GSM8K in {REAL}: set COURSE_GSM8K to its folder")
    train, test = (REAL / f"{split}.jsonl" for split in ("train", "test"))
    lines = train.read_text("utf-8").split("\n") + test.read_text("utf-8").split("\n")
    return [json.loads(line)["answer"] for line in lines if line]


def test_all_real_gold_answers_grade_as_right_and_perturbed_ones_as_wrong(real_answers):
    assert len(real_answers) == 8792
    assert_graded(real_answers)
    assert set(functions.format_reward([""] * 8792, real_answers)) == {1.0}


def test_all_real_annotations_hold_and_break_when_their_result_changes(real_answers):
    checks = [x for answer in real_answers for x in functions.annotations(answer)]
    assert len(checks) > 27_000 and all(checks)
    broken = [answer.replace(">>", "1>>") for answer in real_answers]
    checks = [holds for answer in broken for holds in functions.annotations(answer)]
    # .5 and .51 differ; 8. and 8.1 too: only "0" and "01" are one number
    assert len(checks) > 27_000 and not any(checks)


def test_grading_takes_messages_numbers_and_bare_answers():
    message = {"role": "assistant", "content": "#### 24"}
    in_parts = {"role": "assistant", "content": [{"type": "text", "text": "#### 24"}]}
    completions = ["#### 24", [message], [in_parts]]
    solution = "It is twice 12.\nSo it is $\\boxed{24}$."  # as MATH has them
    for answer in ("#### 24", "24", 24, 24.0, solution):
        assert functions.correct([""] * 3, completions, [answer] * 3) == [1.0] * 3


def test_tool_results_and_questions_are_not_the_models_words():
    completion = [
        {"role": "assistant", "content": "Let me look it up."},
        {"role": "tool", "content": "#### 24"},
        {"role": "assistant", "content": None},
    ]
    assert functions.completion_text(completion) == "Let me look it up.\n"
    assert functions.correct([""], [completion], ["#### 24"]) == [0.0]


def test_a_gold_answer_without_a_number_is_an_error_not_a_zero():
    for gold in ("nobody knows", "5x", "#### 12 - x"):
        with pytest.raises(ValueError, match=f"{gold}' has no number"):
            functions.correct([""], ["#### 5"], [gold])


# ---------------------------------------------------------------- format, sums, length


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("#### 24", 1),
        ("48/2=24\n#### -1,024\n\n", 1),
        ("24", 0),
        ("####24", 0),
        ("##### 24", 0),
        ("It is #### 24", 0),
        ("#### 24 apples", 0),
        ("#### 24\n#### 24", 0),
        ("#### 24\nThat was it.", 0),
    ],
)
def test_the_format_is_one_answer_line_at_the_end(text, score):
    assert functions.format_reward([""], [text]) == [score]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("no sums", 0),
        ("<<48/2=24>>24", 1),
        ("<<48/2=24>>24 and <<24+48=73>>73", 0.5),
        ("<<48/2=24", 0),
        ("<<48/2>>", 0),
        ("<<1+1=2=2>>", 0),
        ("<<>>", 0),
        ("<<1=1>>", 1),
        ("<<<<1+1=2>>", 0.5),
    ],
)
def test_the_share_of_sums_that_hold(text, share):
    assert functions.annotations_hold([""], [text]) == [share]


def test_the_length_penalty_grows_in_a_line_up_to_the_limit():
    texts = ["a" * n for n in (0, 6, 7, 8, 9, 10, 11, 99)]
    penalty = functions.length_penalty(10, soft=4)
    expected = [0, 0, -0.25, -0.5, -0.75, -1, -1, -1]
    assert penalty([""] * 8, texts) == expected
    words = functions.length_penalty(2, count=lambda text: len(text.split()))
    assert words([""] * 2, ["one two", "one two three"]) == [0, -1]


# ------------------------------------------------------------------------- reward sets


def ones(prompts, completions, **_):
    return [1.0] * len(completions)


def test_a_reward_set_is_the_weighted_sum_and_logs_each_mean():
    completions = ["#### 24", "24", "#### 3", "no"]
    weights = {functions.correct: 1.0, functions.format_reward: 0.1, ones: -2}
    rewards_ = RewardSet(weights)
    totals, means = rewards_([""] * 4, completions, answer=["24"] * 4, level=[1] * 4)
    assert totals == pytest.approx([1.1 - 2, -2, 0.1 - 2, -2])
    assert means == {
        "reward/correct": 0.25,
        "reward/format_reward": 0.5,
        "reward/ones": 1.0,
    }


def test_pairs_partials_objects_and_a_single_function_make_reward_sets():
    class Always:
        def __call__(self, prompts, completions, value=2.0, **_):
            return np.full(len(completions), value, np.float32)

    partial = functools.partial(ones)
    totals, means = RewardSet([(Always(), 0.5), (partial, 1)])(["", ""], ["", ""])
    assert totals == [2.0, 2.0] and set(means) == {"reward/Always", "reward/ones"}
    assert RewardSet(ones)([""], ["x"]) == ([1.0], {"reward/ones": 1.0})
    assert RewardSet([ones, Always()])([""], ["x"])[0] == [3.0]


def test_two_rewards_of_one_name_are_refused():
    short, long = functions.length_penalty(5), functions.length_penalty(50)
    with pytest.raises(ValueError, match="different names"):
        RewardSet([(short, 1), (long, 1)])


def raises_on_three(prompts, completions, answer, **_):
    return [1 / (3 - int(a)) for a in answer]


def gives(result):
    def broken(prompts, completions, **_):
        return result

    return broken


def wants_a_column(completions, solution):
    return [0.0] * len(completions)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raises_on_three, ["raises_on_three", "ZeroDivisionError", "row 2", "'third'"]),
        (gives([0, math.nan, 0]), ["broken", "nan", "row 1", "'second'"]),
        (gives([0, 1e308, 1e308]), ["broken", "1e+308", "row 1", "float32"]),
        (gives([0, 0, None]), ["broken", "None", "row 2", "'third'"]),
        (gives([0, [1], 0]), ["broken", "raised ValueError"]),
        (gives([0, 0]), ["broken", "2 scores for 3 completions"]),
        (gives(None), ["broken", "for 3 completions"]),
        (wants_a_column, ["wants_a_column", "TypeError", "'solution'", "answer"]),
    ],
)
def test_a_broken_reward_is_named_with_its_row_and_completion(function, words):
    completions = ["first", "second", "third"]
    with pytest.raises(RewardError) as error:
        RewardSet(function)([""] * 3, completions, answer=["1", "2", "3"])
    for word in words:
        assert word in str(error.value)


def tidies(prompts, completions, allowed, **_):
    prompts.clear()
    completions.sort()
    allowed.pop()
    return [0.0] * len(completions)


def is_allowed(prompts, completions, allowed, **_):
    pairs = zip(prompts, completions, allowed, strict=True)
    return [float(text in numbers) for _, text, numbers in pairs]


def test_what_one_reward_changes_no_other_one_and_no_caller_sees():
    given = {"prompts": ["a", "b"], "completions": ["7", "3"], "allowed": ["7", "5"]}
    before = copy.deepcopy(given)
    totals, _ = RewardSet({tidies: 1.0, is_allowed: 1.0})(**given)
    assert totals == [1.0, 0.0] and given == before


@pytest.mark.parametrize(
    "grammar, texts, right",
    [
        (GEMMA4, ["<|channel>thought\n#### 5\n<channel|>No idea."], 0.0),
        (HERMES, ["<think>maybe\n#### 5\n</think>No idea."], 0.0),
        (HERMES, ["#### 5\n" + CALL], 0.0),
        (HERMES, ["#### 5\n" + CALL, "No idea."], 0.0),
        (HERMES, ["Let me see.\n" + CALL, "<think>4?</think>\n#### 5"], 1.0),
        (GEMMA4, ["<|channel>thought\n4\n<channel|>\n#### 5"], 1.0),
    ],
)
def test_a_conversation_is_paid_for_its_answer_alone(grammar, texts, right):
    trace = tool.trace(grammar, texts, [])
    assert functions.correct([""], [trace], answer=["5"]) == [right]
    assert functions.format_reward([""], [trace]) == [right]


# --------------------------------------- rewards as users of TRL and Tunix write them


def tagged(texts):
    return [float("<b>" in text) for text in texts]


def swapped(completions, prompts, **columns):
    return tagged(completions)


def with_default(completions, solution=None, **columns):
    assert solution == ["s", None]
    return tagged(completions)


def without_columns(completions):
    return tagged(completions)


def by_position(prompts, completions, /, **columns):
    return tagged(completions)


def swapped_by_position(completions, prompts, /):
    return tagged(completions)


def names_of_its_own(_, texts, /, **columns):
    return tagged(texts)


def keywords(**columns):
    return tagged(columns["completions"])


def of_ids(completions, completion_ids, **columns):
    assert completion_ids == [[1], [2, 3]]
    return [float(len(ids) == 2) for ids in completion_ids]


def of_a_question(completions, question, **columns):
    assert question == ["a?", "b?"]
    return tagged(completions)


def of_a_chat(prompts, completions, **columns):
    assert prompts[0][-1]["content"] == "a?"
    return tagged([completion[0]["content"] for completion in completions])


def of_a_chat_by_get(completions, **columns):
    return tagged([completion[0].get("content") for completion in completions])


def of_a_chat_or_nothing(completions, **columns):
    def text_of(completion):
        try:
            return completion[0]["content"]
        except Exception:
            return ""

    return tagged(map(text_of, completions))


async def awaited(completions, **columns):
    await asyncio.sleep(0)
    return tagged(completions)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def limited(limit, completions, **columns):
    return tagged(completions)


class Judge:
    def __call__(self, completions, solution, **columns):
        return tagged(completions)


STYLES = (
    swapped, with_default, without_columns, by_position, swapped_by_position,
    names_of_its_own, keywords, of_ids, of_a_question, of_a_chat, of_a_chat_by_get,
    of_a_chat_or_nothing, awaited, decorated(without_columns), decorated(by_position),
    functools.partial(limited, 3), functools.partial(limited, limit=3), Judge(),
    Judge().__call__,
)  # fmt: skip


@pytest.mark.parametrize("function", STYLES)
def test_a_reward_is_called_by_the_names_that_it_uses(function):
    columns = {"question": ["a?", "b?"], "solution": ["s", None]}
    columns["completion_ids"] = [[1], [2, 3]]
    totals, _ = RewardSet(function)(["a?", "b?"], ["no <i>", "<b>"], **columns)
    assert totals == [0.0, 1.0]


def texts_first(texts, **columns):
    return tagged(texts)


UNCLEAR = texts_first, of_ids


@pytest.mark.parametrize("function", UNCLEAR)
def test_a_name_that_could_mean_prompts_is_an_error_not_a_guess(function):
    with pytest.raises(RewardError, match="missing"):
        RewardSet(function)(["a?"], ["<b>"], answer=["1"])


def test_none_is_a_row_that_another_reward_judges():
    def judges_tags(completions, **columns):
        return [1.0 if "<b>" in text else None for text in completions]

    both = RewardSet([(judges_tags, 1.0), (without_columns, 2.0)])
    assert both(["", ""], ["", "<b>"])[0] == [0.0, 3.0]
    with pytest.raises(RewardError, match="returned None for row 0"):
        RewardSet(judges_tags)(["", ""], ["", "<b>"])


def test_a_reward_is_given_every_column_and_none_where_a_row_lacks_it():
    rows = [{"question": "q", "gold": 1, "level": 2}, {"question": "r", "gold": 3}]
    columns = {"question": ["q", "r"], "gold": [1, 3], "level": [2, None]}
    assert row_columns([row | {"completion_ids": []} for row in rows]) == columns
