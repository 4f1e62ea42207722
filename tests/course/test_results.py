"""The results table: rows replaced by stage and seed, whole files, clear errors."""

import concurrent.futures

import pytest

from helpers.course import results
from helpers.recipes.presets import CUSTOM

ROW = {
    "stage": "sft",
    "params": 400_000,
    "greedy": 0.5,
    "pass1": 0.25,
    "pass8": 0.75,
    "low": 0.45,
    "high": 0.55,
    "n": 512,
    "seed": 0,
    "seconds": 61.5,
}


@pytest.fixture(autouse=True)
def build(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def test_a_row_replaces_the_one_of_its_stage_and_seed():
    assert results.rows() == []
    for stage, seed, greedy in (("sft", 0, 0.1), ("sft", 1, 0.2), ("sft", 0, 0.3)):
        results.record({**ROW, "stage": stage, "seed": seed, "greedy": greedy})
    assert [(r["seed"], r["greedy"]) for r in results.rows()] == [(0, 0.3), (1, 0.2)]


def test_rows_stand_in_the_order_of_the_walk_whatever_ran_first():
    for stage in ("student", "mine", "grpo", "base", "sft"):
        results.record({**ROW, "stage": stage})
    stages = [row["stage"] for row in results.rows()]
    assert stages == ["base", "sft", "grpo", "student", "mine"]


def test_two_notebooks_recording_at_once_both_keep_their_rows():
    """Each opens the lock itself, so threads exclude each other as processes do."""
    rows = [{**ROW, "seed": seed} for seed in range(24)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(results.record, rows))
    assert [row["seed"] for row in results.rows()] == list(range(24))


def test_a_stage_that_was_not_sampled_keeps_its_row_without_pass_at_k():
    results.record({**ROW, "pass1": None, "pass8": None})
    (row,) = results.rows()
    assert row["pass1"] is row["pass8"] is None and row["greedy"] == 0.5
    assert "| 50.0% | 45.0% – 55.0% | – | – | 512 |" in results.markdown([row])


def test_programs_beside_a_base_in_nf4_are_shown_on_request():
    on_chip = {"model": "google/gemma-3-4b-it", "program": "grpo", "prompts": 8}
    beside_int8 = results.compiled("v5e-1", **on_chip)
    beside_nf4 = results.compiled("v5e-1", **on_chip, trained="LoRA 32 on NF4")
    assert beside_int8.count("gemma") == beside_nf4.count("gemma") == 1
    assert beside_int8 == results.compiled("v5e-1", **on_chip, trained="LoRA 32")
    assert "5.71 GiB" in beside_int8 and "4.26 GiB" in beside_nf4


def test_a_real_models_stages_stand_with_interval_or_range(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    (tmp_path / "real.csv").write_text(
        "stage,task,seed,n,greedy,low,high\n"
        "base,two_step,0,200,0.005,0.0009,0.0278\n"
        "base,gsm8k,0,1319,0.006,0.003,0.012\n"
        "sft,two_step,0,200,0.49,0.42,0.56\n"
        "sft,two_step,1,200,0.51,0.44,0.58\n"
        "sft,one_step,0,200,0.67,0.6022,0.7314\n"
        "sft,gsm8k,0,200,0.03,0.014,0.064\n"
    )
    table = results.real(base="as it comes", sft="SFT", grpo="GRPO")
    assert table.splitlines() == [
        "|  | one step | two steps | GSM8K |",
        "|---|--:|--:|--:|",
        "| as it comes | – | 0.5% (0.1 to 2.8) | 0.6% (0.3 to 1.2) of 1,319 |",
        "| SFT | 67.0% (60.2 to 73.1) | 50.0% (49.0 to 51.0) "
        "| 3.0% (1.4 to 6.4) of 200 |",
    ]
    assert results.real([1], base="as it comes", sft="SFT").splitlines()[2:] == [
        "| SFT | 51.0% (44.0 to 58.0) |"
    ]


def row_of(table, name):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_what_the_compiler_estimates_is_called_modelled_and_the_longer_time_quoted():
    table = results.compiled("v5e-1")
    assert table.startswith("Modelled by the compiler for v5e-1, not measured")
    (row,) = [
        row
        for row in results._tpu_fit()
        if row["preset"] == "v5e-1" and row["program"] == "grpo"
    ]
    assert f"{row['hbm_percent']:.0f}%" in table and f"{row['tokens']:,}" in table
    assert "Not compiled yet" in results.compiled("v5e-1", model="nobody/nothing")
    assert results.quoted_ms(row) == max(
        row["modelled_ms"] + (row["kernels_ms"] or 0), row["roofline_ms"]
    )


def test_models_stand_by_size_with_what_they_take():
    table = results.choices()
    sizes = [row["parameters"] for row in results.measured("laptop_fit")]
    lines = table.splitlines()[2:]
    assert len(lines) == len(sizes) == len({row["model"] for row in results.fits()})
    shown = [float(line.split("|")[2].strip(" MB")) for line in lines]
    millions = [s * (1 if " M" in line or "M |" in line else 1000) for s, line in
                zip(shown, lines, strict=True)]  # fmt: skip
    assert millions == sorted(millions)
    assert row_of(table, "google/gemma-3-1b-it")[1] == "yes"
    size, token, one, _, laptop = row_of(table, "Qwen/Qwen3-0.6B")
    assert (size, token) == ("596M", "no") and "%" in one and "GB" in laptop


def test_notebook_15_takes_the_largest_model_that_leaves_a_tenth_of_a_chip_free():
    parameters = {r["model"]: r["parameters"] for r in results.measured("laptop_fit")}
    fits = {
        row["model"]
        for row in results.fits()
        if row["topology"] == "v5e-1" and row["hbm_percent"] <= 90
        if not row["model"].startswith(results.GATED)
    }
    assert max(fits, key=parameters.get) == CUSTOM["v5e-1"].model


def test_the_walk_draws_every_stage_once_with_its_figures():
    stages = ("base", "sft", "grpo", "gspo", "student_start", "student")
    rows = [
        {**ROW, "stage": stage, "greedy": 0.1 * i + 0.2}
        for i, stage in enumerate(stages)
    ]
    food = {**ROW, "stage": "food_sft", "greedy": 0.45, "pass8": None, "n": 360}
    (axes,) = results.walk([food, *rows, {**rows[0], "seed": 1, "greedy": 0.99}]).axes
    texts = {text.get_text() for text in axes.texts}
    shown = {f"{100 * row['greedy']:.0f}" for row in [*rows, food]}
    assert texts == shown | {"maths, n = 512", "food, n = 360"}
    at = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    assert at[-1] - at[-2] > at[1] - at[0], "the worlds stand apart, food last"
    assert axes.get_title("left").startswith("From 20% to 70%")


def test_the_ladder_draws_means_of_seeds_and_names_what_is_enough(
    monkeypatch, tmp_path
):
    runs = [
        (16, 0, "sft", 0.4),
        (64, 0, "sft", 0.7),
        (240, 0, "sft", 0.8),
        (16, 0, "grpo", 0.8),
        (64, 0.36, "sft", 0.5),
        (64, 0.36, "grpo", 0.9),
    ]
    lines = [
        f"maths,{count},{careless},{method},{seed},{greedy + 0.02 * seed}"
        for count, careless, method, greedy in runs
        for seed in (0, 1)
    ]
    head = "world,demonstrations,careless,method,seed,greedy"
    (tmp_path / "ladder.csv").write_text("\n".join([head, *lines]))
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    (axes,) = results.ladder("maths").axes
    drawn = [[*zip(*line.get_data(), strict=True)] for line in axes.get_lines()]
    assert drawn[0] == [(16, 41), (64, 71), (240, 81)]
    beside = 64 * 1.04  # careless points stand beside the others
    assert sorted(drawn[1:]) == [[(16, 81)], [(beside, 51)], [(beside, 91)]]
    assert "from 16 demonstrations does what SFT does with 240" in axes.get_title(
        "left"
    )

    lines = [line for line in lines if ",240," not in line]
    (tmp_path / "ladder.csv").write_text("\n".join([head, *lines]))
    (axes,) = results.ladder("maths").axes
    assert "from 16 demonstrations beats SFT with 64" in axes.get_title("left")


@pytest.mark.parametrize("table, share", [("ladder", "greedy"), ("rules", "follows")])
def test_recorded_intervals_are_wilsons(table, share):
    for row in results.measured(table):
        p, n, z = row[share], row["n"], 1.96
        half = z * (p * (1 - p) / n + z**2 / (4 * n**2)) ** 0.5
        low, high = ((p + z**2 / (2 * n) + s * half) / (1 + z**2 / n) for s in (-1, 1))
        assert (row["low"], row["high"]) == pytest.approx((low, high), abs=2e-4)
