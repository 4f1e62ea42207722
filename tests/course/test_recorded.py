"""Recorded runs: whole, of one budget, and read as what they are."""

import csv
import statistics

import exercise_runs as runs
import pytest

from helpers.course import recorded
from helpers.recipes.presets import FAMILY, table
from scripts import diagnoses, distil, family, food_arms, lora_ranks


def test_numbers_are_numbers_and_seeds_are_told_by_mean_and_range(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    written = [("b", 0.5, 1), ("a", 0.25, 2), ("b", 1.0, 3)]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([("run", "x", "n"), *written])
    rows = recorded.rows("t")
    assert [tuple(row.values()) for row in rows] == written
    assert [type(row["n"]) for row in rows] == [int] * 3
    found = recorded.spread(rows, "run", "x")
    assert list(found.items()) == [("b", (0.75, 0.5, 1.0)), ("a", (0.25, 0.25, 0.25))]


def test_the_family_was_run_whole_and_nobody_had_more_answers():
    rows = recorded.rows("family")
    assert {(row["run"], row["seed"]) for row in rows} == {
        (name, seed) for name in family.RUNS for seed in family.SEEDS
    }
    ended = {(row["run"], row["seed"]): row["greedy"] for row in rows}
    for seed in family.SEEDS:
        assert ended["GSPO", seed] == ended["GSPO-token", seed]
    budget = family.STEPS * family.PROMPTS * family.GROUP
    for row in rows:
        method, updates = family.RUNS[row["run"]]
        assert row["updates"] == updates and row["answers"] <= budget
        assert row["answers"] == budget or method.resample
        assert row["steps"] == family.STEPS or row["tied_left"] < row["tied_drawn"]
        assert row["low"] <= row["greedy"] <= row["high"]


def test_students_were_run_whole():
    rows, budget = recorded.rows("distillation"), distil.STEPS * distil.PROMPTS
    arms = {"teacher", "start", *distil.ARMS}
    assert {(row["arm"], row["seed"]) for row in rows} == {
        (arm, seed) for arm in arms for seed in distil.SEEDS
    }
    for row in rows:
        assert row["low"] <= row["greedy"] <= row["high"]
        assert row["pass1"] <= row["pass8"] and row["questions"] <= budget
        assert row["questions"] == budget or "KL" not in row["arm"]


def test_ranks_were_run_whole_and_trained_as_many_numbers_as_they_say():
    rows = recorded.rows("lora_ranks")
    arms = {"rank 2": 2, "rank 8": 8, "rank 32": 32}
    assert sorted((row["arm"], row["seed"]) for row in rows) == sorted(
        (arm, seed) for arm in (*arms, "all weights") for seed in lora_ranks.SEEDS
    )
    # Width 96, heads of 32: three of queries, one of keys; 256 inside; four layers.
    sides = 2 * (96 + 96) + 2 * (96 + 32) + 3 * (96 + 256)
    for row in rows:
        assert row["low"] <= row["greedy"] <= row["high"]
        assert row["numbers"] == 4 * sides * arms.get(row["arm"], 0) or (
            row["arm"] == "all weights" and row["numbers"] == 459_712
        )


def test_ways_of_imitating_traces_were_run_whole():
    rows = recorded.rows("food_arms")
    assert sorted((row["arm"], row["seed"]) for row in rows) == sorted(
        (arm, seed)
        for arm in food_arms.ARMS
        for seed in (food_arms.SEEDS if arm != "base" else food_arms.SEEDS[:1])
    )
    for row in rows:
        assert row["n"] == 360 and row["right_of_food"] <= row["looks_up"]
        # Of all pictures, those without food can all be right or none of them.
        food, all_right = row["n_food"], row["right"] * row["n"]
        without = all_right - row["right_of_food"] * food
        assert -0.1 <= without <= row["n"] - food + 0.1
        assert (row["arm"] == "base") == (row["looks_up"] == 0)


@pytest.mark.parametrize("name", FAMILY)
def test_the_table_of_the_family_has_a_row_for_each_method(name):
    (row,) = [
        line
        for line in table().splitlines()
        if f"| {name} |" in line or (f"| [{name}]" in line)
    ]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    method = FAMILY[name]
    assert ("drawn again" in cells[-1]) == bool(method.resample)
    assert float(cells[-2]) == method.switches.get("beta", 0)
    assert ("std" in cells[-3]) == (method.advantage == "mean-std")


def test_wrong_answers_of_the_teacher_are_left_out_whatever_their_order(monkeypatch):
    """Batches by hand: every second answer is right."""
    import numpy as np

    from helpers.course.stages import stage_folder
    from helpers.text import chat

    monkeypatch.setattr(distil, "STEPS", 1)
    monkeypatch.setattr(distil, "PROMPTS", 6)
    tokenizer = chat.load_tokenizer(stage_folder("grpo"))
    asked = distil.questions(0)[::-1]
    prompts = chat.prompts_tokens(tokenizer, [row["question"] for row in asked])
    texts = [row["answer"] if i % 2 else "#### -987654" for i, row in enumerate(asked)]
    said = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]

    def padded(lists):
        width = max(map(len, lists))
        ids = np.array([[*x, *[0] * (width - len(x))] for x in lists])
        return ids, np.array([[i < len(x) for i in range(width)] for x in lists])

    (prompt, prompt_mask), (completion, mask) = padded(prompts), padded(said)
    batch = {"prompt": prompt, "prompt_mask": prompt_mask.astype(int)}
    batch |= {"completion": completion[:, None], "loss_mask": mask[:, None] * 1.0}
    (kept,), share = distil.right([batch], tokenizer, 0)
    assert share == 0.5 == statistics.mean(i % 2 for i in range(6))
    assert kept["loss_mask"].any(axis=(1, 2)).tolist() == [False, True] * 3
    assert (kept["loss_mask"][1::2] == batch["loss_mask"][1::2]).all()


def test_what_notebook_08_says_of_the_family_is_what_was_measured():
    rows = recorded.rows("family")
    score = recorded.spread(rows, "run", "greedy")
    upper = [score[name][1] for name in ("DAPO", "GRPO", "GSPO")]
    lower = [score[name][2] for name in ("Dr. GRPO", "RLOO", "CISPO")]
    assert min(upper) > max(lower)
    assert score["this course"][2] - score["this course"][1] > 0.2, "one seed"
    clipped = recorded.spread(rows, "run", "clip_fraction")
    assert clipped["this course"][2] < 0.005 and clipped["12 updates"][2] < 0.01
    assert clipped["12 updates"][0] > 2.5 * clipped["this course"][0]
    assert clipped["GSPO"][1] > 0.3 and score["12 updates"][2] < 0.36
    moved = recorded.spread(rows, "run", "approx_kl")
    named = [name for name in FAMILY if name in moved]
    assert sorted(named, key=lambda name: -moved[name][0])[:2] == ["RLOO", "CISPO"]
    steps = recorded.spread(rows, "run", "steps")["drawn again"][0]
    assert steps < 0.6 * family.STEPS
    assert score["drawn again"][1] < score["this course"][2], "ranges overlap"


def test_what_notebook_11_says_of_the_students_is_what_was_measured():
    rows = recorded.rows("distillation")
    greedy, drawn, reach = (
        recorded.spread(rows, "arm", name) for name in ("greedy", "pass1", "pass8")
    )
    four = [name for name in greedy if "KL" in name]
    assert max(greedy[x][0] for x in four) - min(greedy[x][0] for x in four) < 0.015
    for text in ("offline", "on-policy"):
        forward, reverse = f"{text}, forward KL", f"{text}, reverse KL"
        assert 0.13 < drawn[reverse][0] - drawn[forward][0] < 0.185
        assert reach[reverse][0] >= reach[forward][0]
    for seed in distil.SEEDS:
        now = {row["arm"]: row["greedy"] for row in rows if row["seed"] == seed}
        sifted = now.pop("hard, only what is right")
        assert sifted > max(now[name] for name in (*four, "hard: the teacher's text"))


def test_the_readings_of_notebook_07_are_those_recorded():
    (diagnosis,) = runs.solved("07-3")
    (shown,) = (c for c in runs.notebooks()["07"].cells if "readings = " in c.source)
    lines = shown.outputs[0].text.strip().splitlines()[1:]
    told = {letter: list(map(float, rest)) for letter, *rest in map(str.split, lines)}
    rows = recorded.rows("diagnoses")
    assert list(dict.fromkeys(row["run"] for row in rows)) == [*diagnoses.RUNS]
    assert sorted(told) == sorted(diagnosis[name] for name in diagnoses.RUNS)
    for name in diagnoses.RUNS:
        own = [row for row in rows if row["run"] == name]
        read = [row[column] for column in diagnoses.COLUMNS for row in own]
        assert told[diagnosis[name]] == read, name
