"""The table of models holds what the compiler's table says, row for row."""

import csv
import re

import course_notebooks as course
import pytest

from helpers.course import which_model as module
from helpers.model.known import KNOWN
from helpers.recipes.presets import OWN, PRESETS

ROW = {
    "model": "Qwen/Qwen3-0.6B",
    "program": "grpo",
    "topology": "v5e-1",
    "preset": "",
    "pictures": "0",
    "prompts": "16",
    "tokens": "36864",
    "group": "8",
    "trained": "LoRA 32",
    "hbm_percent": "41.4",
    "verdict": "",
    "versions": "jax 2",
}


@pytest.fixture
def table(monkeypatch, tmp_path):
    """table(row, …) has the compiler say only these."""

    def write(*rows):
        path = tmp_path / "tpu_fit.csv"
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(ROW))
            writer.writeheader()
            writer.writerows(ROW | row for row in rows)
        monkeypatch.setattr(module, "TPU_FIT", path)
        return [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in module.choices().splitlines()[2:]
        ]

    return write


def test_a_model_has_a_row_with_a_cell_for_each_machine(table):
    (line,) = table({}, {"topology": "v5e-8", "hbm_percent": "12.5", "prompts": "64"})
    assert line[:3] == ["Qwen/Qwen3-0.6B", "596M", "no"]
    assert line[3:] == [
        "41% (16 × 8, 2,304 tokens)",
        "12% (64 × 8, 576 tokens)",
        "3.7 GB (8 × 8)",
    ]


def test_the_presets_own_program_comes_first_then_text_alone(table):
    other = {"hbm_percent": "95", "pictures": "1"}
    (line,) = table(other, {}, {"preset": "v5e-1", "hbm_percent": "70"})
    assert line[3] == "70% (16 × 8, 2,304 tokens)" and line[4] == "–"
    assert table(other, {})[0][3] == "41% (16 × 8, 2,304 tokens)"
    assert table(other)[0][3] == "95% (16 × 8, 2,304 tokens with a photo)"


def test_rows_of_an_older_compiler_are_not_the_presets_of_today(table):
    colabs = {"preset": "v5e-1", "hbm_percent": "39", "versions": "jax 1"}
    today = {"preset": "v5e-1", "hbm_percent": "41", "prompts": "64"}
    (line,) = table({"program": "rollout"}, colabs, today)
    assert line[3] == "41% (64 × 8, 576 tokens)"


def test_what_is_no_choice_is_left_out(table):
    others = (
        {"program": "rollout"},
        {"trained": "all"},
        {"trained": "LoRA 32 on int8 with a table on the host"},
        {"topology": "v5e:8x8"},
        {"verdict": "Does not fit", "hbm_percent": ""},
        {"group": "1"},
    )
    assert table(*others) == []


def test_models_stand_by_size_and_gated_ones_are_marked():
    lines = [line.split(" | ") for line in module.choices().splitlines()[2:]]
    names = [line[0].removeprefix("| ") for line in lines]
    assert {row.model for row in PRESETS.values() if row.name.startswith("v5e")} <= {
        *names
    }
    sizes = [line[1] for line in lines]
    numbers = [
        float(s[:-1]) * {"M": 1e6, "B": 1e9}[s[-1]] for s in sizes if re.match(r"\d", s)
    ]
    assert numbers == sorted(numbers) and set(names) <= set(KNOWN)
    tokens = dict(zip(names, (line[2] for line in lines), strict=True))
    assert tokens["google/gemma-3-1b-it"] == "yes" and tokens["Qwen/Qwen3-1.7B"] == "no"


def test_the_largest_that_fits_leaves_room_and_needs_no_token(table):
    def row(model, percent, **columns):
        return {"model": model, "hbm_percent": percent, **columns}

    table(
        row("Qwen/Qwen3-0.6B", "50"),
        row("Qwen/Qwen2.5-0.5B-Instruct", "20"),
        row("Qwen/Qwen3-1.7B", "90.5"),
        row("google/gemma-3-1b-it", "40"),
        row("Qwen/Qwen2.5-1.5B-Instruct", "80", topology="v5e-8"),
    )
    assert module.largest_that_fits("v5e-1", spare=10) == "Qwen/Qwen3-0.6B"
    assert module.largest_that_fits("v5e-1", spare=5) == "Qwen/Qwen3-1.7B"
    assert module.largest_that_fits("v5e-8", spare=10) == "Qwen/Qwen2.5-1.5B-Instruct"


def test_notebook_15_takes_the_largest_that_fits_as_it_says():
    taken = module.largest_that_fits("v5e-1", spare=10)
    assert taken == OWN["v5e-1"].model == "google/gemma-4-E2B-it"
    text = "\n".join(cell.source for cell in course.read("15").cells)
    assert "On a TPU the model is Gemma 4 E2B, the largest" in text
