"""The table of compiled programs: what stays, what fails; and what is compiled."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from helpers.model.config import KNOWN
from helpers.recipes.presets import PRESETS
from helpers.tpu import compiler, topology
from scripts import tables, tpu_cases, tpu_check

CASE = tpu_cases.Case("Qwen/Qwen3-0.6B", "grpo", "v5e-1")


def row(**changes):
    """A row of the table as it is read from the file."""
    sizes = {name: str(getattr(CASE, name)) for name in tpu_check.SIZES}
    sizes |= {"versions": "jax 2", "hbm_percent": "50.0", "verdict": ""}
    return sizes | changes


@pytest.fixture
def compiled_here(monkeypatch):
    """The case's program is a matmul, compiled for this machine."""
    program, x = jax.jit(lambda x: x @ x), jnp.zeros((8, 8))
    monkeypatch.setattr(tpu_cases.Case, "build", lambda _: (program, (x,), 1.0))
    monkeypatch.setattr(tpu_check, "versions", lambda: "jax 2")


def test_no_two_cases_share_a_row():
    cases = tpu_cases.cases()
    places = {
        tuple(getattr(case, name) for name in tpu_check.SIZES if name != "pieces")
        for case in cases
    }
    assert len(places) == len(cases)


def test_an_unchanged_program_is_not_compiled_again(compiled_here):
    new = tpu_check.measure(CASE, {})
    assert new["modelled_ms"] == 0 <= new["roofline_ms"] < 1
    assert new["unpriced_calls"] >= 1  # this machine's compiler has no prices
    assert new["tflop"] == round(CASE.flops() / 1e12, 2)
    assert new.keys() == tables.read(tpu_check.TABLE)[0].keys()
    known = {new["program_hash"]: {"known": "row"}}
    assert tpu_check.measure(CASE, known) == {"known": "row"}
    assert tpu_check.measure(dataclasses.replace(CASE, prompts=9), known) != known


def test_a_program_that_does_not_fit_has_a_row_that_says_so(compiled_here, monkeypatch):
    none = compiler.Report("v5e-1", 1, verdict="Does not fit:\nneeds 20G.")
    monkeypatch.setattr(compiler, "report", lambda *_: none)
    row = tpu_check.measure(CASE, {})
    assert row["verdict"] == "Does not fit: needs 20G." and tpu_check.tight(row)
    assert row["hbm_percent"] == row["modelled_peak_percent"] == ""


def test_shares_of_the_peak_are_with_all_links_hidden_and_with_none(
    compiled_here, monkeypatch
):
    times = {"modelled_ms": 600, "roofline_ms": 750, "links_ms": 250}
    tflop = CASE.flops() / 1e12
    report = compiler.Report("v5e-1", 1, hbm_gb=5, tflop=tflop, **times)
    monkeypatch.setattr(compiler, "report", lambda *_: report)
    row = tpu_check.measure(CASE, {})
    with_resident = 100 * (5 + 1.0) / 15.75  # with the GiB that stays beside it
    assert row["hbm_percent"] == pytest.approx(with_resident, abs=0.05)
    hidden = 100 * tflop / (197 * 0.75)
    assert row["modelled_peak_percent"] == pytest.approx(hidden, abs=0.05)
    assert row["serial_peak_percent"] == pytest.approx(0.75 * hidden, abs=0.05)


@pytest.mark.parametrize(
    "name, times, problem",
    [
        ("modelled_ms", 1.05, "2% more"),
        ("kernels_ms", 1.05, "2% more"),
        ("hbm_percent", 1.03, "2% more"),
        ("modelled_ms", 1.03, ""),
        ("hbm_percent", 0.5, ""),
        ("hbm_percent", 1.9, "2% more"),
    ],
)
def test_a_program_that_grew_fails_and_its_row_stays(
    monkeypatch, tmp_path, name, times, problem
):
    monkeypatch.setattr(tpu_check, "TABLE", tmp_path / "tpu_fit.csv")
    old = row(modelled_ms=400.0, kernels_ms=400.0, roofline_ms=1.0, compile_s="old")
    old |= {"hbm_percent": 50.0}
    another = old | {"versions": "jax 1", "hbm_percent": 10.0}  # is not compared
    assert tpu_check.record([another, old]) == []
    new = old | {name: times * old[name], "compile_s": "new"}
    problems = "".join(tpu_check.record([new]))
    assert problem in problems and bool(problem) == bool(problems)
    first, last = tables.read(tpu_check.TABLE)
    assert first["compile_s"] == "old"
    assert (last["compile_s"] == "old") == ("2% more" in problems)


def test_a_program_needs_room_to_spare_but_where_all_weights_are_trained():
    assert tpu_check.tight(row(trained="LoRA 32", hbm_percent="90.1"))
    assert not tpu_check.tight(row(trained="LoRA 32", hbm_percent="89.9"))
    assert not tpu_check.tight(row(trained="all", hbm_percent="99.9"))
    assert tpu_check.tight(row(trained="all", hbm_percent="100.1"))


def test_every_preset_has_its_programs_with_its_sizes():
    for name in topology.SLICES:
        mine = [case for case in tpu_cases.shipped() if case.preset == name]
        assert len({case.program for case in mine}) == 5
        for case in mine:
            preset = PRESETS[name]
            rows = preset.group if case.program == "evaluation" else 1
            prompts = preset.rows if case.program == "sft" else preset.prompts
            assert (case.model, case.remat) == (preset.model, preset.remat)
            assert case.prompts == prompts * rows and case.rank == preset.lora_rank


def test_only_the_last_token_of_a_prompt_needs_all_layers():
    """One more token of it adds no matmul in the layers that only read keys."""
    sizes = {"prompts": 1, "group": 1, "completion_tokens": 1, "pictures": 0, "rank": 0}

    def more(program):
        few, many = (
            tpu_cases.gemma4(tpu_cases.E2B, program, "v5e-1", **sizes, prompt_tokens=n)
            for n in (8, 9)
        )
        return many.flops() - few.flops()

    forward = 2 * 1.9e9  # with the 1.9 billion weights of all layers
    assert more("sft") > 3 * forward
    assert more("rollout") < 0.5 * forward and more("grpo") < 1.5 * forward


def test_committed_rows_are_of_models_and_slices_that_there_are():
    rows = tables.read(tpu_check.TABLE)
    topologies = {case.topology for case in tpu_cases.cases()}
    assert rows and {row["topology"] for row in rows} <= topologies
    assert {row["model"] for row in rows} <= set(KNOWN)
    assert not any(map(tpu_check.tight, rows))
