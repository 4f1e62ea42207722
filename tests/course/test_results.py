"""The results table: rows replaced by stage and seed, whole files, clear errors."""

import concurrent.futures
import json
import multiprocessing

import pytest

from helpers.course import results

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


def test_the_file_has_the_fields_and_plain_types():
    import numpy as np

    arrays = {"greedy": np.float32(0.5), "n": np.int64(512), "seconds": 3}
    results.record({**ROW, **arrays, "strict": 0.4})
    (row,) = json.loads(results.path().read_text())
    assert row["greedy"] == 0.5 and row["strict"] == 0.4
    assert list(row)[: len(results.FIELDS)] == list(results.FIELDS)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"greedy": 50.0}, "divide percentages by 100"),
        ({"pass8": float("nan")}, "pass8 of the stage 'sft' is nan"),
        ({"n": None}, "n of the stage 'sft' is None"),
    ],
)
def test_a_wrong_row_is_refused_and_the_table_kept(change, message):
    results.record(ROW)
    before = results.path().read_bytes()
    with pytest.raises(ValueError, match=message):
        results.record({**ROW, **change})
    with pytest.raises(ValueError, match="needs 'params'"):
        results.record({"stage": "sft"})
    assert results.path().read_bytes() == before


def test_a_damaged_file_is_named():
    results.record(ROW)
    results.path().write_text("[{")
    with pytest.raises(ValueError, match="results.json is not valid JSON"):
        results.rows()


def test_two_notebooks_recording_at_once_both_keep_their_rows():
    rows = [{**ROW, "seed": seed} for seed in range(24)]
    spawn = multiprocessing.get_context("spawn")  # JAX's threads do not survive fork
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=spawn) as pool:
        list(pool.map(results.record, rows))
    assert [row["seed"] for row in results.rows()] == list(range(24))


def test_the_table_shows_percentages():
    table = results.markdown([{**ROW, "stage": "student"}])
    assert "| student, distilled | 400,000 | 50.0% | 45.0% – 55.0% | 25.0%" in table
    head, rule, row = table.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")


def test_seeds_are_averaged_beside_the_own_run(monkeypatch, tmp_path):
    table = tmp_path / "learning.csv"
    monkeypatch.setattr(results, "LEARNING", table)
    assert "make seeds" in results.across_seeds("sft")
    table.write_text(
        "stage,seed,greedy,pass1,pass8\n"
        "sft,0,0.30,0.10,0.50\nsft,1,0.40,0.20,0.60\nsft,2,0.35,0.15,0.55\n"
        "grpo,0,0.90,0.80,0.95\n"
    )
    results.record({**ROW, "greedy": 0.456})
    header, rule, sft, grpo = results.across_seeds("sft", "grpo").splitlines()
    assert header.count("|") == rule.count("|") == sft.count("|") == grpo.count("|")
    assert [cell.strip() for cell in sft.split("|")[2:-1]] == [
        "3",
        "35.0% (30.0 to 40.0)",
        "45.6%",
        "15.0% (10.0 to 20.0)",
        "55.0% (50.0 to 60.0)",
    ]
    assert [cell.strip() for cell in grpo.split("|")[2:4]] == [
        "1",
        "90.0% (90.0 to 90.0)",
    ]
    assert "| – |" in grpo


def test_colabs_older_compiler_is_not_mixed_into_the_table(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "TPU_FIT", tmp_path / "tpu_fit.csv")
    head, row, *_ = FIT.splitlines()
    lines = [f"{head},versions", f"{row},jax 0.10", f"{row},jax 0.7"]
    results.TPU_FIT.write_text("\n".join(lines) + "\n")
    assert results.compiled("v5e-1").count("Qwen2.5-0.5B") == 1


def test_stops_of_all_seeds_are_averaged(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "LABELS", tmp_path / "labels.csv")
    results.LABELS.write_text(
        "seed,step,cpu_seconds,greedy\n0,0,0,0.3\n0,90,20,0.9\n1,0,0,0.3\n1,90,30,0.8\n"
    )
    first, last = results.labels_by_compute()
    assert first == {"step": 0, "cpu_seconds": 0.0, "greedy": 0.3}
    assert last["cpu_seconds"] == 25 and last["greedy"] == pytest.approx(0.85)


FIT = """model,program,topology,preset,tokens,hbm_percent,arguments_gb,temporaries_gb,\
tflop,modelled_ms,modelled_peak_percent
Qwen/Qwen2.5-0.5B-Instruct,grpo,v5e-1,v5e-1,18432,41.25,1.04,5.5,36.6,412.4,45.1
Qwen/Qwen2.5-0.5B-Instruct,sft,v5e-8,v5e-8,1,1,1,1,1,1,1
google/gemma-3-1b-it,grpo,v5e-1,v5e-1,65536,,,,,,
google/gemma-3-1b-it,grpo,v5e-1,,65536,1,1,1,1,1,1
"""


def test_what_the_compiler_said_is_shown_for_one_preset_and_called_modelled(
    monkeypatch, tmp_path
):
    table = tmp_path / "tpu_fit.csv"
    monkeypatch.setattr(results, "TPU_FIT", table)
    assert "make tpu-check" in results.compiled("v5e-1")
    table.write_text(FIT)
    said, _, head, _, *rows = results.compiled("v5e-1").splitlines()
    assert "v5e-1" in said and "not measured" in said
    assert rows == [
        "| Qwen2.5-0.5B-Instruct | grpo | 18,432 | 41% | 1.04 GiB | 5.50 GiB "
        "| 36.6 TFLOP | 412 ms | – | – | 45% |",
        "| gemma-3-1b-it | grpo | does not fit |" + " |" * 8,
    ]
    assert all(row.count("|") == head.count("|") for row in rows)


def test_both_times_are_shown_and_the_longer_one_is_quoted(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "TPU_FIT", tmp_path / "tpu_fit.csv")
    head, row, *_ = FIT.splitlines()
    for roofline, shown, longer in (
        ("900", "| 412 ms | 900 ms | 1,234 | 45% |", 900),
        ("300", "| 412 ms | 300 ms | 1,234 | 45% |", 412.4),
        ("", "| 412 ms | – | 1,234 | 45% |", 412.4),
    ):
        results.TPU_FIT.write_text(
            f"{head},roofline_ms,unpriced_calls\n{row},{roofline},1234\n"
        )
        assert shown in results.compiled("v5e-1")
        named = {"modelled_ms": "412.4", "roofline_ms": roofline}
        assert results.quoted_ms(named) == longer
    results.TPU_FIT.write_text(f"{head},roofline_ms,kernels_ms\n{row},300,50\n")
    assert "| 412 + 50 ms | 300 ms |" in results.compiled("v5e-1")
    assert results.quoted_ms(named | {"kernels_ms": "50"}) == 462.4


def test_programs_of_no_preset_are_shown_by_what_their_rows_hold(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "TPU_FIT", tmp_path / "tpu_fit.csv")
    results.TPU_FIT.write_text(FIT)
    said = results.compiled("v5e-1", model="google/gemma-3-1b-it", tokens=65536)
    assert said.count("gemma-3-1b-it") == 2 and "Qwen" not in said
    said = results.compiled("v5e-8", model="google/gemma-3-1b-it")
    assert "compiled yet" in said and "make tpu-check" in said and "|" not in said


def test_programs_beside_a_base_in_nf4_are_shown_where_they_are_asked_for():
    on_chip = {"model": "google/gemma-3-4b-it", "program": "grpo", "prompts": 8}
    beside_int8 = results.compiled("v5e-1", **on_chip)
    beside_nf4 = results.compiled("v5e-1", **on_chip, trained="LoRA 32 on NF4")
    assert beside_int8.count("gemma") == beside_nf4.count("gemma") == 1
    assert beside_int8 == results.compiled("v5e-1", **on_chip, trained="LoRA 32")
    assert "5.71 GiB" in beside_int8 and "4.26 GiB" in beside_nf4


def test_a_real_models_stages_stand_with_interval_or_range(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "REAL", tmp_path / "real.csv")
    results.REAL.write_text(
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
        "| --- | --: | --: | --: |",
        "| as it comes | – | 0.5% (0.1 to 2.8) | 0.6% (0.3 to 1.2) of 1,319 |",
        "| SFT | 67.0% (60.2 to 73.1) | 50.0% (49.0 to 51.0) "
        "| 3.0% (1.4 to 6.4) of 200 |",
    ]
    assert results.real([1], base="as it comes", sft="SFT").splitlines()[2:] == [
        "| SFT | 51.0% (44.0 to 58.0) |"
    ]
