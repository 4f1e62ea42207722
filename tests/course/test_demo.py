"""The demo's table is arithmetic on the compiler's rows."""

import csv

import pytest

from helpers.course import demo, results
from helpers.recipes.presets import FOOD

ROW = {
    "pictures": "1",
    "prompts": "8",
    "group": "8",
    "hbm_percent": "70.4",
    "modelled_ms": "1000",
    "roofline_ms": "500",
    "verdict": "",
}


@pytest.fixture
def told(monkeypatch, tmp_path):
    """told(row, …): the cells of each line of the table, from these rows."""

    def tell(*rows):
        path = tmp_path / "tpu_fit.csv"
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, ["model", "program", "topology", *ROW])
            writer.writeheader()
            writer.writerows(ROW | row for row in rows)
        monkeypatch.setattr(results, "TPU_FIT", path)
        lines = demo.costs().splitlines()
        assert len({line.count("|") for line in lines}) == 1
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]

    return tell


def row(program, model=demo.STUDENT, topology=demo.ONE, **columns):
    names = {"model": model, "program": program, "topology": topology}
    return names | {name: str(value) for name, value in columns.items()}


def test_what_each_costs(told):
    assert FOOD[demo.ONE].completion_tokens == 128
    assert FOOD[demo.ONE].sft.steps == FOOD[demo.ONE].rl.steps == 150
    on_eight = {"topology": demo.TEACHES_ON}
    teacher, before, after = told(
        row("answers", demo.TEACHER, **on_eight, prompts=64, group=1),
        row("sft", modelled_ms=400),
        row("rollout", modelled_ms=3000, roofline_ms=3200),
        row("grpo", modelled_ms=4800),
        row("distillation", **on_eight, modelled_ms=1234.5, hbm_percent=55),
    )
    assert teacher[1:] == ["nothing", demo.TEACHES_ON, "64", "70%", "8,192"]
    assert before[1:] == ["nothing", demo.ONE, "64", "70%", "2,560"]
    assert after[2:] == before[2:]
    # 150 · 0.4 s, and 150 · (3.2 + 4.8) s
    assert after[1] == (
        "v5e-1: SFT 1 min, GRPO 20 min; or v6e:2x4: 1,234 ms a step of distillation, "
        "55% of HBM"
    )


def test_what_was_not_compiled_or_does_not_fit_is_not_made_up(told):
    teacher, before, after = told(
        row("rollout", pictures=0), row("sft"), row("grpo", verdict="Too large")
    )
    for line in (teacher, before):
        assert line[3:] == ["not compiled yet", "", ""]
    assert after[1] == "not compiled yet"
