"""The table of compiled programs: what is kept, what fails; and what is compiled."""

import dataclasses

import jax
import numpy
import numpy as np
import pytest

from helpers.model.known import KNOWN
from helpers.recipes.presets import FOOD, PRESETS
from helpers.runtime.sharding import make_mesh
from helpers.tpu import compiler, programs, topology
from scripts import tpu_cases, tpu_check


def row(**changes):
    """A row of the table as it is read from the file."""
    sizes = dict.fromkeys(tpu_check.SIZES, "1") | {
        "trained": "all",
        "versions": "jax 1",
    }
    return sizes | {"preset": "", "hbm_percent": "50.0", "verdict": ""} | changes


def test_a_program_compiled_anew_replaces_its_row_and_no_other():
    old = [row(), row(model="2"), row(versions="jax 0")]
    new = row(hbm_percent="60.0")
    assert tpu_check.merged(old, [new]) == [new, *old[1:]]
    cut = row(pieces="2")
    assert tpu_check.merged(old, [cut]) == [cut, *old[1:]]


def test_every_case_has_a_row_of_its_own():
    places = [tpu_check.place(tpu_check.named(case)) for case in tpu_cases.cases()]
    twice = {place for place in places if places.count(place) > 1}
    assert not twice


def test_programs_that_are_gone_leave_the_table_but_for_another_compilers(monkeypatch):
    monkeypatch.setattr(tpu_check, "versions", lambda: "jax 2")
    case = tpu_cases.Case("Qwen/Qwen3-0.6B", "grpo", "v5e-1")
    mine = {name: str(x) for name, x in tpu_check.named(case).items()}
    mine |= {"versions": "jax 2"}
    gone, colabs = mine | {"prompts": "9"}, mine | {"prompts": "9", "versions": "jax 1"}
    assert tpu_check.of_today([mine, gone, colabs]) == [mine, colabs]


def test_a_case_is_old_until_this_compiler_has_said_where_its_time_goes(monkeypatch):
    monkeypatch.setattr(tpu_check, "versions", lambda: "jax 2")
    case = tpu_cases.Case("Qwen/Qwen3-0.6B", "grpo", "v5e-1")
    new = {name: str(x) for name, x in tpu_check.named(case).items()}
    new |= {"versions": "jax 2", "places": "elsewhere 1.0 2.0", "verdict": ""}
    new |= {"pieces": "7"}
    assert not tpu_check.is_old(case, [new])
    assert tpu_check.is_old(case, [])
    for change in ({"versions": "jax 1"}, {"places": ""}, {"prompts": "9"}):
        assert tpu_check.is_old(case, [new | change])
    assert not tpu_check.is_old(case, [new | {"places": "", "verdict": "Too large"}])


def test_a_table_of_old_and_new_rows_has_the_columns_of_both(monkeypatch, tmp_path):
    monkeypatch.setattr(tpu_check, "TABLE", tmp_path / "tpu_fit.csv")
    tpu_check.write([row(), row(roofline_ms="3.0")])
    assert [old.get("roofline_ms") for old in tpu_check.table()] == ["", "3.0"]


def test_a_row_of_before_places_were_told_is_compiled_again(monkeypatch):
    """Its program and compiler are the same: only what was asked is not."""
    case = tpu_cases.Case("Qwen/Qwen3-0.6B", "grpo", "v5e-1")
    program = jax.jit(lambda x: x @ x)
    x = jax.numpy.zeros((8, 8))
    monkeypatch.setattr(tpu_cases.Case, "build", lambda _: (program, (x,), 0.0))
    monkeypatch.setattr(tpu_check, "versions", lambda: "jax 1")
    monkeypatch.setattr(compiler, "mesh", lambda _: numpy.zeros(1))
    new = tpu_check.measure(case, {})
    assert new["roofline_ms"] >= 0 and new["pallas_calls"] == 0 <= new["compile_s"]
    assert new["unpriced_calls"] >= 1  # this machine's compiler has no prices
    key = new["program_hash"]
    place, modelled, least = new["places"].split()
    assert (place, modelled) == ("elsewhere", "0.0") and 0 <= float(least) < 1
    assert tpu_check.measure(case, {key: {"places": ""}}) == new
    for kept in ({"places": new["places"]}, {"verdict": "Too large"}):
        assert tpu_check.measure(case, {key: kept}) is kept


def test_a_program_that_does_not_fit_has_a_row_that_says_so(monkeypatch):
    case = tpu_cases.Case("Qwen/Qwen3-0.6B", "grpo", "v5e-1")
    program, x = jax.jit(lambda x: x @ x), jax.numpy.zeros((8, 8))
    monkeypatch.setattr(tpu_cases.Case, "build", lambda _: (program, (x,), 1.0))
    monkeypatch.setattr(tpu_check, "versions", lambda: "jax 1")
    monkeypatch.setattr(compiler, "mesh", lambda _: numpy.zeros(1))
    none = compiler.Report("v5e-1", 1, verdict="Does not fit:\nneeds 20G.")
    monkeypatch.setattr(compiler, "report", lambda *_: none)
    found = tpu_check.measure(case, {})
    assert found["verdict"] == "Does not fit: needs 20G." and tpu_check.tight(found)
    assert found["hbm_percent"] == found["modelled_peak_percent"] == ""


def test_shares_of_the_peak_are_with_all_links_hidden_and_with_none():
    case = tpu_cases.Case("Qwen/Qwen3-0.6B", "grpo", "v5e-8")
    told = {"chips": "8", "modelled_ms": "600", "roofline_ms": "750"}
    found = tpu_check.stated(told | {"links_ms": "250"}, case)
    assert found["tflop"] == round(case.flops() / 1e12, 2)
    hidden = 100 * case.flops() / (8 * 197e12 * 0.75)
    assert found["modelled_peak_percent"] == pytest.approx(hidden, abs=0.05)
    assert found["serial_peak_percent"] == pytest.approx(0.75 * hidden, abs=0.05)
    too_large = {"links_ms": "0", "modelled_ms": "0", "roofline_ms": "0"}
    none = tpu_check.stated(told | too_large, case)
    assert none["modelled_peak_percent"] == none["serial_peak_percent"] == ""


def test_old_rows_are_counted_anew_however_their_update_was_cut():
    known = {tpu_check.place(tpu_check.named(case)) for case in tpu_cases.cases()}
    rows = [row for row in tpu_check.table() if tpu_check.place(row) in known]
    first = rows[0]
    changed = [row | {"tflop": "0", "pieces": "99"} for row in rows]
    gone = first | {"prompts": "12345"}
    *found, same = tpu_check.restated([*changed, gone])
    assert [row["tflop"] for row in found] == [float(row["tflop"]) for row in rows]
    assert same == gone and found[0]["pieces"] == "99"


def test_a_program_needs_room_to_spare_but_where_all_weights_are_trained():
    assert tpu_check.tight(row(trained="LoRA 32", hbm_percent="90.1"))
    assert not tpu_check.tight(row(trained="LoRA 32", hbm_percent="89.9"))
    assert tpu_check.tight(row(trained="nothing", hbm_percent="90.1"))
    assert not tpu_check.tight(row(trained="all", hbm_percent="99.9"))
    assert tpu_check.tight(row(trained="all", hbm_percent="100.1"))
    assert tpu_check.tight(row(hbm_percent="", verdict="Does not fit"))


def test_every_preset_has_all_five_programs_with_its_own_sizes():
    for name in topology.SLICES:
        mine = [case for case in tpu_cases.shipped() if case.preset == name]
        assert len({case.program for case in mine}) == 5
        for case in mine:
            assert case.topology == name and case.model == PRESETS[name].model
            rows = PRESETS[name].group if case.program == "evaluation" else 1
            sft = case.program == "sft"
            prompts = PRESETS[name].rows if sft else PRESETS[name].prompts
            assert case.prompts == prompts * rows
            assert case.rank == PRESETS[name].lora_rank
            cut = case.program in ("grpo", "distillation")
            assert case.pieces == (PRESETS[name].pieces if cut else 1)


def test_a_compiled_program_computes_again_what_its_preset_says(monkeypatch):
    models = []

    def update(model, *given, **split):
        models.append(model)
        return None, None

    monkeypatch.setattr(compiler, "mesh", lambda *_: make_mesh(jax.devices()[:1]))
    monkeypatch.setattr(programs, "update", update)
    other = dataclasses.replace(PRESETS["v5e-1"], remat="cheap")
    monkeypatch.setitem(PRESETS, "v5e-1", other)
    seeing = dataclasses.replace(FOOD["v5e-1-gemma3-4b"], remat="none")
    monkeypatch.setitem(FOOD, "v5e-1-gemma3-4b", seeing)
    four = dataclasses.replace(FOOD["v5e-1"], remat="attention")
    monkeypatch.setitem(FOOD, "v5e-1", four)
    tpu_cases.of_preset("v5e-1", "v5e-1", ["grpo"])[0].build()
    tpu_cases.SeeingCase(tpu_cases.GEMMA4B, "sft", "v5e-1").build()
    tpu_cases.Case(tpu_cases.QWEN, "sft", "v5e-1").build()
    assert [model.remat for model in models] == ["cheap", "none", "layer"]
    remats = [
        tpu_cases.Gemma4Case(*case).remat
        for case in (
            (tpu_cases.E2B, "sft", "v5e-1"),
            (tpu_cases.E4B, "sft", "v5e-1"),
            (tpu_cases.E2B, "distillation", "v5p:4x4x1"),
        )
    ]
    assert remats == ["attention", "layer", "layer"]


def test_a_larger_models_preset_is_compiled_for_the_machine_it_is_named_after():
    names = {case.preset for case in tpu_cases.larger()}
    asked = {name for name in PRESETS if name.startswith("v5e")}
    photos = {name for name in FOOD if name.endswith("gemma3-4b")}
    assert names | set(topology.SLICES) | photos == asked
    for case in tpu_cases.larger():
        assert case.preset.startswith(case.topology + "-")
        assert case.model == PRESETS[case.preset].model
        assert case in tpu_cases.cases()


def test_tokens_count_a_prompt_once_for_its_group():
    case = tpu_cases.Case(
        "Qwen/Qwen3-0.6B", "grpo", "v5e-1", prompts=3, group=4, prompt_tokens=5
    )
    assert case.tokens == 3 * (5 + 4 * 256)


@pytest.mark.parametrize("program", ["grpo", "rollout", "evaluation", "distillation"])
def test_a_prompt_is_asked_by_its_last_token_alone(program):
    """One more token of it adds no product with the layers that only read keys."""
    sizes = {"prompts": 1, "group": 1, "completion_tokens": 1, "pictures": 0}
    sizes |= {"rank": 0, "teacher": tpu_cases.LARGEST}

    def more(program):
        two = [
            tpu_cases.Gemma4Case(
                tpu_cases.E2B, program, "v5e-1", prompt_tokens=tokens, **sizes
            ).flops()
            for tokens in (8, 9)
        ]
        return two[1] - two[0]

    forward = 2 * 1.9e9  # with the 1.9 billion weights of all layers
    assert more("sft") > 3 * forward
    passes = 1 if program in ("rollout", "evaluation") else 3
    of_teacher = 2 * 30e9 if program == "distillation" else 0
    assert more(program) - of_teacher < 0.5 * passes * forward


def test_gspo_is_counted_as_grpo_and_clips_answers():
    """Where every token of an answer moves alike, its ratio clips none at 0.2."""
    rng = np.random.default_rng(0)
    old = rng.normal(-1, 0.1, (1, 2, 4))
    moved = old + np.array([[[1e-3], [-1e-3]]])  # beyond 3e-4, far within 0.2
    batch = {
        "old_logprobs": old,
        "logprobs": old,
        "loss_mask": np.ones((1, 2, 4)),
        "advantages": np.array([[1.0, -1.0]]),
    }
    scores = {"logprobs": moved, "entropy": np.zeros((1, 2, 4))}
    clipped = {}
    for program in ("grpo", "gspo"):
        case = tpu_cases.Case(tpu_cases.QWEN3, program, "v5e-1")
        objective, _ = case.objective(1)
        clipped[program] = float(objective.loss(scores, batch)[1]["clip_fraction"])
    assert clipped == {"grpo": 0.0, "gspo": 1.0}
    one, other = list(tpu_cases.far())[:2]
    assert (one.program, other.program) == ("grpo", "gspo")
    assert one.flops() == other.flops() and one.topology == other.topology


@pytest.mark.parametrize(
    "case", tpu_check.table() or [None], ids=lambda row: row and row["program_hash"]
)
def test_committed_rows_are_of_models_and_slices_that_there_are(case):
    assert case is not None, "data/results/tpu_fit.csv is missing: make tpu-check"
    assert case["model"] in KNOWN
    assert case["topology"] in {one.topology for one in tpu_cases.cases()}
    assert not tpu_check.tight(case)


def test_a_row_says_beside_what_its_program_learns():
    rows = {(c.model, c.program, c.topology): c for c in tpu_cases.teachers()}
    small = tpu_cases.E2B
    trained = [
        tpu_check.trained(rows[key])
        for key in (
            (small, "distillation", "v5e-1"),
            (small, "rollout", "v6e:2x4"),
            (small, "rollout", "v5e-8"),
            (tpu_cases.LARGEST, "answers", "v5e-8"),
        )
    ]
    assert trained == [
        "LoRA 32 on int8 with a table on the host from gemma-4-E4B-it",
        "LoRA 32 beside gemma-4-31B-it",
        "LoRA 32, each matrix over 2 chips beside gemma-4-31B-it in int8",
        "nothing",
    ]
