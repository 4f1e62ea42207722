"""Presets: which fits which devices, and what they hold."""

import dataclasses
import types

import jax
import pytest

from helpers import runtime
from helpers.model.ops import REMAT
from helpers.recipes import presets
from helpers.tasks.maths import word_problems
from helpers.text import chat
from scripts import tpu_cases


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "COURSE_PRESET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def chips(count, platform="tpu"):
    return [types.SimpleNamespace(platform=platform) for _ in range(count)]


@pytest.mark.parametrize(
    "devices, name",
    [
        (chips(1, "cpu"), "laptop"),
        (chips(8, "cpu"), "laptop"),
        (chips(1, "gpu"), "laptop"),
        (chips(1), "v5e-1"),
        (chips(4), "v5e-1"),
        (chips(8), "v5e-8"),
    ],
)
def test_the_preset_fits_the_devices(monkeypatch, devices, name):
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert presets.preset().name == name


@pytest.mark.parametrize("mark", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
@pytest.mark.parametrize("platform, count", [("cpu", 1), ("gpu", 1), ("gpu", 2)])
def test_a_free_machine_without_a_tpu_trains_a_real_model(
    monkeypatch, mark, platform, count
):
    monkeypatch.setenv(mark, "1")
    monkeypatch.setattr(jax, "devices", lambda: chips(count, platform))
    assert presets.preset().name == "laptop-real"
    monkeypatch.setattr(jax, "devices", lambda: chips(1))
    assert presets.preset().name == "v5e-1"


def test_the_preset_can_be_overridden(monkeypatch):
    monkeypatch.setenv("COURSE_PRESET", "v5e-8")
    assert presets.preset().name == "v5e-8"
    assert presets.preset("laptop").name == "laptop"
    with pytest.raises(ValueError, match="laptop, laptop-real, v5e-1, v5e-8,"):
        presets.preset("v5e-16")


@pytest.mark.parametrize("machine", ["v5e-1", "v5e-8"])
def test_another_model_is_asked_for_by_name_with_its_machines_sizes(machine):
    row = presets.preset(f"{machine}-qwen3-1.7b")
    assert row.model == "Qwen/Qwen3-1.7B"
    assert row.completion_tokens == presets.preset(machine).completion_tokens
    assert presets.FOOD[row.name] == presets.FOOD[machine]


@pytest.mark.parametrize("machine", ["v5e-1", "v5e-8"])
def test_gemma_3_is_a_choice_for_photos_and_leaves_the_maths_as_they_are(machine):
    row = presets.preset(f"{machine}-gemma3-4b")
    assert dataclasses.replace(row, name=machine) == presets.preset(machine)
    assert presets.FOOD[row.name].model == "google/gemma-3-4b-it"
    assert presets.FOOD[machine].model == "google/gemma-4-E2B-it"


@pytest.mark.parametrize("steps, between", [(150, 15), (28, 2), (3, 1)])
def test_a_disconnect_costs_a_tenth_of_a_stage_at_most(steps, between):
    assert presets.Stage(steps, 1e-3).save_every == between


def test_what_a_disconnect_costs_is_told():
    said = presets.PRESETS["v5e-1"].disconnect
    assert "15 of 150 steps of SFT at most, 15 of 150" in said


def test_the_default_models_need_no_token():
    open_ones = ("Qwen/", "HuggingFaceTB/", "google/gemma-4")
    for name in ("laptop", "laptop-real", "v5e-1", "v5e-8"):
        for row in (presets.PRESETS[name], presets.FOOD[name]):
            assert not row.real or row.model.startswith(open_ones)


def test_only_the_laptops_model_is_the_courses_own():
    shipped = [name for name, row in presets.PRESETS.items() if not row.real]
    assert shipped == ["laptop"]
    assert not presets.FOOD["laptop-real"].real  # no model that sees is small enough


def test_the_laptops_budgets_hold_every_question_and_solution():
    chosen = presets.preset("laptop")
    tokenizer = chat.load_tokenizer(runtime.ROOT / "data" / "tiny" / "base")
    rows = word_problems.generate(3000, seed=7, levels=(3,))
    questions = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    examples = chat.examples_tokens(
        tokenizer,
        [row["question"] for row in rows],
        [row["answer"] for row in rows],
    )
    assert max(map(len, questions)) <= chosen.prompt_tokens
    assert max(sum(mask) for _, mask in examples) <= chosen.completion_tokens


@pytest.mark.parametrize("table", [presets.PRESETS, presets.FOOD, presets.CUSTOM])
def test_an_update_can_be_cut_into_its_pieces_on_its_machine(table):
    for name, row in table.items():
        devices = 8 if name.startswith("v5e-8") else 1
        assert row.prompts % (row.pieces * devices) == 0
        assert row.rows % ((row.sft_pieces or 1) * devices) == 0
        assert row.remat in REMAT


@pytest.mark.parametrize("name", ["v5e-1", "v5e-8"])
def test_notebook_15_trains_gemma_4_with_the_sizes_that_were_compiled(name):
    own = presets.CUSTOM[name]
    assert own.model == "google/gemma-4-E2B-it" and own.remat == "layer"
    compiled = [
        case
        for case in tpu_cases.students()
        if (case.model, case.topology, case.pictures) == (own.model, name, 0)
    ]
    assert {case.program for case in compiled} >= {"sft", "rollout", "grpo"}
    for case in compiled:
        assert (case.rank, case.remat) == (own.lora_rank, own.remat)
        assert case.prompt_tokens == own.prompt_tokens
        assert case.completion_tokens == own.completion_tokens
        if case.program == "evaluation":
            assert case.prompts == 64  # as many answers at a time as `score` asks for
            continue
        assert (case.prompts, case.group) == (own.rows, own.group)
        pieces = 1 if case.program == "rollout" else own.pieces
        assert case.pieces == pieces


def test_notebook_15_trains_the_model_that_a_preset_names_and_shortly():
    names = {"gemma3-1b": "gemma-3-1b", "qwen3-1.7b": "Qwen3-1.7B"}
    names["gemma3-4b"] = "gemma-3-4b"
    assert {*presets.CUSTOM} == {*presets.PRESETS} - {"v5e-1-gemma3-4b"}
    for name, row in presets.CUSTOM.items():
        if name.startswith("v5e"):
            asked = next((m for end, m in names.items() if name.endswith(end)), "E2B")
            assert asked in row.model and row.name == name
            assert (row.sft.steps, row.rl.steps) == (40, 60) and not row.stored


def test_a_preset_that_notebook_15_cannot_run_is_refused_in_words():
    """It holds the base in bfloat16, and int8 alone leaves room on one chip."""
    assert presets.FOOD["v5e-1-gemma3-4b"].stored == "int8"
    with pytest.raises(ValueError, match="v5e-1-gemma3-4b.*COURSE_PRESET to .*v5e-1"):
        presets.CUSTOM["v5e-1-gemma3-4b"]


@pytest.mark.parametrize("minibatches", [2, 4])
def test_minibatches_of_notebooks_08_and_15_can_be_cut_into_their_pieces(minibatches):
    """They divide a preset's pieces among the updates of a batch."""
    for name, row in presets.PRESETS.items():
        pieces = row.pieces // minibatches or 1
        devices = 8 if name.startswith("v5e-8") else 1
        assert row.prompts % (minibatches * pieces * devices) == 0
        assert row.prompts // minibatches // pieces <= row.prompts // row.pieces


def test_a_batch_of_sft_has_as_many_rows_as_prompts_or_its_own_number():
    """Enough rollouts for a chip's bandwidth would be four epochs of GSM8K in SFT."""
    assert presets.PRESETS["laptop"].rows == presets.PRESETS["laptop"].prompts
    assert presets.PRESETS["v5e-1"].rows == 16 < presets.PRESETS["v5e-1"].prompts
