"""Recorded runs of a real model: a small one in its place, and small tasks."""

import csv
import dataclasses
import json
import types

import disconnected
import jax
import pytest

from helpers import runtime
from helpers.recipes import maths, presets
from helpers.tasks.maths import word_problems
from scripts import real, real_gsm8k, tables

TINY = runtime.ROOT / "data" / "tiny"
SMALL = dataclasses.replace(
    disconnected.SMALL,
    group=2,
    sft=presets.Stage(2, 1e-3),
    rl=presets.Stage(2, 1e-3),
    levels=(1, 2, 3),
)


def row(stage, task="one_step", seed=0, **figures):
    blank = dict.fromkeys([*real.FIELDS, "right", "right_lenient"], 0)
    return blank | {"model": "m", "stage": stage, "task": task, "seed": seed} | figures


def test_a_row_takes_the_place_of_its_earlier_one(tmp_path, monkeypatch):
    monkeypatch.setattr(real, "TABLE", tmp_path / "real.csv")
    assert real.read() == []
    real.write(row("grpo", greedy=0.5))
    real.write(row("base", greedy=0.1))
    real.write(row("base", seed=1, greedy=0.2))
    real.write(row("grpo", greedy=0.6))
    found = [(r["stage"], r["seed"], r["greedy"]) for r in real.read()]
    assert found == [("base", "0", "0.1"), ("base", "1", "0.2"), ("grpo", "0", "0.6")]


def test_a_row_names_the_device_that_is_no_cpu(monkeypatch):
    said, few = real.measured_with(), real.at_once()
    assert said.startswith(f"jax {jax.__version__} flax ") and " on " not in said
    gpu = types.SimpleNamespace(device_kind="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(real.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(real.jax, "devices", lambda: [gpu])
    assert real.measured_with() == f"{said} on {gpu.device_kind}"
    assert real.at_once() > few


def test_what_the_table_has_is_measured_again_of_adapters_trained_here(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(real, "TABLE", tmp_path / "real.csv")
    monkeypatch.setattr(real, "WORK", tmp_path / "build")
    monkeypatch.setattr(real, "tasks", lambda: {"one_step": [], "two_step": []})
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    asked = []

    def measure(there, task, *_):
        asked.append(task)
        return dict.fromkeys([*real.FIELDS, "right", "right_lenient"], 0)

    monkeypatch.setattr(real, "measure", measure)

    def again(stage, started, **more):
        asked.clear()
        there = types.SimpleNamespace(preset=SMALL, started=started)
        real.record(there, stage, 0, 1.0, **more)
        return list(asked)

    real.write(row("sft", model="sft"))  # as a clone has them
    real.write(row("base", model="sft"))
    assert again("base", "") == ["two_step"]
    assert again("sft", "sft 0a1b", wanted=["one_step"]) == ["one_step"]
    assert again("sft", "sft 0a1b") == ["two_step"]
    assert again("sft", "sft 0a1b") == []
    assert again("sft", "sft 77ff") == ["one_step", "two_step"], "trained anew"
    monkeypatch.setattr(real, "tasks", lambda: {"one_step": [{}], "two_step": []})
    assert again("sft", "sft 77ff") == ["one_step"], "on more questions"


def test_held_out_problems_are_of_one_level_each():
    found = real.tasks()
    for level, name in real.LEVELS.items():
        assert {row["level"] for row in found[name]} == {level}
        assert all(word_problems.in_test(row["id"]) for row in found[name])


@pytest.mark.slow
def test_stages_follow_each_other_and_what_is_measured_is_not_measured_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(real, "TABLE", tmp_path / "real.csv")
    monkeypatch.setattr(real, "WORK", tmp_path / "build")
    monkeypatch.setattr(real, "LEVELS", {2: "two_step"})
    monkeypatch.setattr(real, "N", 6)
    monkeypatch.setattr(real, "SAMPLED", 3)
    monkeypatch.setattr(real, "CHOSEN_ON", 4)
    monkeypatch.setattr(maths, "GENERATED", {"train": 60, "test": 8})
    monkeypatch.delenv("COURSE_GSM8K", raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    stages = [
        *real.BASE,
        "sft",
        "grpo",
        "sft_control",
        "grpo_one_step",
        "tool_sft",
        "tool_grpo",
        "tool_grpo_alone",
        "tool_student",
    ]
    real.run(SMALL, stages, seed=3)
    said = capsys.readouterr().out
    assert said.count("from sft, ") == 6 and said.count("from grpo, ") == 1
    assert said.count("from tool_grpo, ") == 3
    assert "with the calculator are right" in said
    with open(tmp_path / "real.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [r["stage"] for r in table] == stages
    one_by_one = tables.read(tmp_path / real.ANSWERED)
    for figures, found in zip(table, one_by_one, strict=True):
        assert [figures[name] for name in real.KEY] == [found[n] for n in real.KEY]
        assert float(figures["greedy"]) == round(found["right"].count("1") / 6, 4)
        assert len(found["right"]) == len(found["right_lenient"]) == 6
        lenient = found["right_lenient"].count("1") / 6
        assert float(figures["lenient"]) == round(lenient, 4)
    curves = tables.read(tmp_path / real.CURVES)
    assert {r["stage"] for r in curves} == {"grpo", "grpo_one_step", "tool_grpo"}
    for stage in ("grpo", "tool_grpo"):
        own = [r for r in curves if r["stage"] == stage]
        reached = "0.0004"  # two of the five steps that climb to 0.001
        assert [(r["seed"], r["rate"], r["step"]) for r in own] == [
            ("3", reached, "1"),
            ("3", reached, "2"),
        ]
        assert all(0 <= float(r["sampled"]) <= 1 for r in own)
    assert said.count("asked as") == 5 and said.index("asked as") < said.index("sft, ")
    for found in table:
        seed = "0" if found["stage"] in real.BASE else "3"
        assert (found["model"], found["seed"], found["n"]) == ("sft", seed, "6")
        assert 0 <= float(found["low"]) <= float(found["greedy"]) <= 1
        assert float(found["pass1"]) <= float(found["pass8"]) <= 1
        assert (float(found["seconds"]) > 0) == (found["stage"] not in real.BASE)
    monkeypatch.setattr(real, "measure", None)  # to call it would fail
    real.run(SMALL, stages, seed=3)


@pytest.mark.slow
def test_gsm8k_itself_is_trained_and_measured_on_its_own_questions(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(real, "TABLE", tmp_path / "real.csv")
    monkeypatch.setattr(real, "WORK", tmp_path / "build")
    monkeypatch.setattr(real, "LEVELS", {})
    monkeypatch.setattr(real, "SAMPLED", 2)
    few = {"prompts": 2, "packed": 2, "pieces": 2, "sft_pieces": 2}
    few |= {"completion_tokens": 24}
    few |= {"sft": presets.Stage(2, 1e-3), "rl": presets.Stage(1, 1e-3)}
    monkeypatch.setattr(real_gsm8k, "TWO_CORES", real_gsm8k.TWO_CORES | few)
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    for split, count in ("train", 12), ("test", 5):
        lines = [
            {"question": f"Ann has {n} hats and buys 2. How many?", "answer": answer}
            for n in range(count)
            for answer in [f"She has {n} + 2 = <<{n}+2={n + 2}>>{n + 2}.\n#### {n + 2}"]
        ]
        text = "\n".join(map(json.dumps, lines))
        (folder / f"{split}.jsonl").write_text(text)
    monkeypatch.setenv("COURSE_GSM8K", str(folder))
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    stages = ["gsm8k_sft", "gsm8k_tool_sft", "gsm8k_grpo", "gsm8k_tool_grpo"]
    real.run(SMALL, stages, seed=0)
    said = capsys.readouterr().out
    assert said.count("from gsm8k_sft, ") == 4, "two to train from, two to measure"
    table = tables.read(tmp_path / "real.csv")
    found = [(row["stage"], row["task"], row["n"]) for row in table]
    assert found == [(stage, "gsm8k", "5") for stage in stages]
    policy = maths.recipe(SMALL).start("gsm8k_sft").policy
    assert policy.layers.q_a[...].shape[-1] == 64, "its own rank"


def test_gsm8ks_questions_are_trained_in_the_words_they_are_measured_in():
    rows = [{"question": "How many?" + maths.ASK, "answer": "2"}]
    there = maths.Recipe(SMALL, None, None, rows, [])
    assert real_gsm8k.bare(there).train == [{"question": "How many?", "answer": "2"}]


def test_gsm8k_gets_what_this_machine_can_pay_for(monkeypatch):
    step = {}
    for device in "cpu", "gpu":
        monkeypatch.setattr(jax, "default_backend", lambda device=device: device)
        size = real_gsm8k.sized(SMALL)
        length = size.prompt_tokens + size.completion_tokens
        step[device] = size.rows * length, size.rows * length * size.sft.steps
    assert step["cpu"][0] == step["gpu"][0] / 4 == 2048
    assert step["cpu"][1] == step["gpu"][1] / 16, "a sixteenth of an epoch, not all"


def test_there_is_no_teacher_before_grpo_where_grpo_is_the_teacher(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setattr(maths, "GENERATED", {"train": 60, "test": 8})
    with pytest.raises(maths.WeightsError, match="notebook 07"):
        maths.recipe(SMALL).teacher()
