"""A real model beside TRL: arithmetic, what is refused, and our side of it in small."""

import csv
import dataclasses
import pathlib
import sys

import course_notebooks  # noqa: F401  finds notebooks/readme_peers.py
import pytest
import readme_peers

from helpers import runtime
from helpers.text import chat

HERE = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "bench"))

import real_case  # noqa: E402
import real_ours  # noqa: E402
import real_peers  # noqa: E402
from bench import BenchError  # noqa: E402

STAGES = real_peers.STAGES
SMALL = real_case.RealCase(
    model=str(runtime.ROOT / "data" / "tiny" / "sft"),
    rank=2,
    sft_rows=4,
    sft_steps=2,
    prompts=4,
    group=4,
    grpo_steps=2,
    held_out=6,
    own_sft_pieces=2,
    own_grpo_pieces=2,
)


def line(library, seed=0, stage="grpo", scale=1.0, **figures):
    found = {"library": library, "numbers": "float32", "stage": stage, "seed": seed}
    found |= {"n": 200}
    found |= {"greedy": 0.7, "low": 0.63, "high": 0.76, "steps": 28}
    found |= {"cpu_s_step": 40 * scale, "wall_s_step": 20 * scale}
    found |= {"wall_s": 600 * scale, "peak_mb": 2000 * scale}
    return found | {"cores": 2, "versions": "jax 0.10.2", "load": 1.0} | figures


def test_ratios_are_of_means_over_the_seeds_of_a_stage():
    rows = [line("ours"), line("trl", scale=2), line("trl", stage="sft", scale=9)]
    rows += [line("ours", seed=1, scale=3), line("trl", seed=1, scale=6)]
    assert real_peers.ratios(rows, "grpo") == pytest.approx(
        dict.fromkeys(real_peers.TARGETS, 2.0)
    )


def test_scores_apart_are_those_outside_of_either_interval():
    rows = [line("ours"), line("trl", greedy=0.65, low=0.58, high=0.71)]
    assert real_peers.apart(rows) == []
    rows += [line("ours", seed=1), line("trl", seed=1, greedy=0.5, low=0.4, high=0.72)]
    assert real_peers.apart(rows) == [("grpo", 1)]


def test_the_typical_step_is_not_the_one_that_compiles():
    steps = [{"seconds": s, "cpu_seconds": 2 * s} for s in (90.0, 5.0, 4.0, 60.0)]
    trained = {
        "rows": steps,
        "wall_s": 159.0,
        "peak_mb": 1.0,
        "cores": 2,
        "versions": "",
        "load": 0,
    }
    graded = {"n": 8, "greedy": 0.5, "low": 0.2, "high": 0.8}
    found = real_peers.line("float32", "ours", "sft", 0, trained, graded)
    assert (found["wall_s_step"], found["cpu_s_step"]) == (5.0, 10.0)
    assert (found["wall_s"], found["steps"]) == (159.0, 4)


def test_another_recipe_is_refused_where_there_are_trainings(tmp_path):
    place = real_case.Place(tmp_path / "work")
    real_peers.settle(place, SMALL)
    real_peers.settle(place, SMALL)
    assert place.case() == SMALL
    with pytest.raises(BenchError, match="with other rank.*--work"):
        real_peers.settle(place, dataclasses.replace(SMALL, rank=3))


def test_what_is_finished_is_not_run_again(tmp_path):
    place = real_case.Place(tmp_path)
    path = place.result("trl", "sft", 0)
    real_case.write(path, {"rows": []})
    assert real_peers.once(path, {}, "trl", place, "sft", 0) == {"rows": []}


def test_two_algorithms_are_not_compared():
    step = {"loss": 2.0, "grad_norm": 6.0}
    real_peers.agree("it", 1e-4, step, {"loss": 2.00005, "grad_norm": 6.0005})
    for other in ({"loss": 2.001}, {"grad_norm": 6.01}):
        with pytest.raises(BenchError, match="two algorithms"):
            real_peers.agree("it", 1e-4, step, step | other)
    with pytest.raises(BenchError, match="learning rates"):
        real_peers.agree_on_rates([{"learning_rate": 1e-3}], [{"learning_rate": 2e-3}])


def test_the_command_line_has_every_field_of_the_recipe():
    choice, case = real_peers.given(["--seeds", "4", "--grpo_steps", "3"])
    assert choice.seeds == [4]
    assert case == dataclasses.replace(real_case.RealCase(), grpo_steps=3)


def test_readme_says_nothing_before_it_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(readme_peers, "TABLE", tmp_path / "real_peers.csv")
    monkeypatch.setattr(readme_peers, "CURVES", tmp_path / "real_peers_curves.csv")
    assert readme_peers.section() == ""
    points = [
        {"library": library, "numbers": "float32", "seed": seed, "step": step}
        | {"right": 0.1 * step + bonus}
        for library, bonus in (("ours", 0.0), ("trl", 0.1))
        for seed in (0, 1)
        for step in (1, 2, 3)
    ]
    both = [
        line(x, seed, s) for s in STAGES for seed in (0, 1) for x in ("ours", "trl")
    ]
    real_peers.save(both, readme_peers.TABLE)
    real_peers.save(points, readme_peers.CURVES)
    real_peers.save([line("ours", numbers="bfloat16", scale=0.5)], readme_peers.TABLE)
    said = readme_peers.section()
    assert (
        "| GRPO | bfloat16 | this course | 1 | 70.0% (63.0 to 76.0) | 2 | 10 | 20 |"
        in said
    )
    assert "of GRPO takes TRL 1.0 times the processor time, one of SFT 1.0" in said
    assert (
        "| GRPO | float32 | TRL | 2 | 70.0% (70.0 to 70.0) | 2 | 20 | 40 | 2.0 GB |"
        in said
    )
    assert "this course from 20% to 20%; TRL from 30% to 30%" in said
    assert "200 held-out" in said
    assert "SFT ends with the same score in both, seed by seed. GRPO ends with" in said
    real_peers.save(
        [line("ours", 0, "sft"), line("trl", 0, "sft", greedy=0.65)], readme_peers.TABLE
    )
    assert "SFT ends with the same score" not in readme_peers.section()
    names = {text.get_text() for text in readme_peers.picture(points).axes[0].texts}
    assert names == {"this course", "TRL"}


def test_a_training_measured_again_takes_its_own_row_alone(tmp_path):
    path = tmp_path / "real_peers.csv"
    every = [
        line(x, seed, s) for s in STAGES for seed in (0, 1, 2) for x in ("ours", "trl")
    ]
    real_peers.save(every, path)
    again = [line(x, 1, "grpo", greedy=0.9) for x in ("ours", "trl")]
    real_peers.save(again, path)
    real_peers.save([line("ours", 1, "grpo", numbers="bfloat16")], path)
    with path.open(newline="") as file:
        kept = list(csv.DictReader(file))
    assert [(r["stage"], r["seed"]) for r in kept if r["library"] == "trl"] == [
        (stage, str(seed)) for stage in STAGES for seed in (0, 1, 2)
    ]
    changed = {(r["stage"], r["seed"]) for r in kept if r["greedy"] == "0.9"}
    assert changed == {("grpo", "1")} and len(kept) == 13


@pytest.mark.slow
def test_our_side_trains_saves_and_grades_in_small(tmp_path):
    place = real_case.Place(tmp_path)
    real_peers.settle(place, SMALL)
    real_ours.prepare(place, 0)
    found = real_case.read(place.rows(0))
    assert [len(found["rates"][stage]) for stage in STAGES] == [2, 2]
    (row, *_), *_ = found["sft"]
    assert row["tokens"][: len(row["prompt"])] == row["prompt"]
    assert not any(row["mask"][: len(row["prompt"])]) and sum(row["mask"]) > 5
    for stage in STAGES:
        real_ours.STAGES[stage](place, 0)
        real_ours.grade(place, 0, "ours", stage)
        trained = real_case.read(place.result("ours", stage, 0))
        graded = real_case.read(place.result("ours", f"{stage}-graded", 0))
        figures = real_peers.line("float32", "ours", stage, 0, trained, graded)
        assert 0 <= figures["low"] <= figures["greedy"] <= figures["high"] <= 1
        assert figures["n"] == 6 and "jax" in figures["versions"]
        real_peers.agree_on_rates(
            trained["rows"], [{"learning_rate": x} for x in found["rates"][stage]]
        )


@pytest.mark.slow
def test_the_step_for_trl_to_repeat_has_all_its_answers(tmp_path):
    place = real_case.Place(tmp_path)
    real_peers.settle(place, SMALL)
    real_ours.prepare(place, 0)
    real_ours.sft(place, 0)
    real_ours.check(place, 0)
    step = real_case.read(place.result("ours", "check", 0))
    assert len(step["answers"]) == len(step["rewards"]) == 16
    assert all(0 < len(answer) <= SMALL.answer for answer in step["answers"])
    ends = chat.eos_ids(chat.load_tokenizer(SMALL.model))
    ended = [answer for answer in step["answers"] if answer[-1] in ends]
    assert step["tokens"] == sum(map(len, ended)) > 0


def test_tables_are_read_as_they_are_written(tmp_path):
    real_peers.save([line("ours")], tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="") as file:
        (found,) = csv.DictReader(file)
    assert found["library"] == "ours" and float(found["peak_mb"]) == 2000
