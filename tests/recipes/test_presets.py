"""Presets: which fits which devices, and what they hold."""

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
    [(chips(8, "cpu"), "laptop"), (chips(4), "v5e-1"), (chips(8), "v5e-8")],
)
def test_the_preset_fits_the_devices(monkeypatch, devices, name):
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert presets.preset().name == name


@pytest.mark.parametrize("mark", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
@pytest.mark.parametrize("platform, count", [("cpu", 1), ("gpu", 2)])
def test_a_free_machine_without_a_tpu_trains_a_real_model(
    monkeypatch, mark, platform, count
):
    monkeypatch.setenv(mark, "1")
    monkeypatch.setattr(jax, "devices", lambda: chips(count, platform))
    assert presets.preset().name == "laptop-real"
    monkeypatch.setattr(jax, "devices", lambda: chips(1))
    assert presets.preset().name == "v5e-1"


def test_every_machine_has_sizes_for_every_task():
    assert {*presets.PRESETS} == {*presets.FOOD} == {*presets.CUSTOM} - {"t4"}
    for table in (presets.PRESETS, presets.FOOD, presets.CUSTOM):
        for name, row in table.items():
            assert row.group == 8 and row.sft.save_every == row.sft.steps // 10
            assert name.startswith(row.name) or name == "laptop"
    assert not presets.PRESETS["laptop"].real and presets.PRESETS["v5e-1"].real
    assert presets.FOOD["v5e-8-qwen3-1.7b"] is presets.FOOD["v5e-8"]


def test_notebook_15_has_sizes_for_gpus_without_bfloat16(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: chips(1, "gpu"))
    chosen = presets.custom()
    assert (chosen.model, chosen.dtype) == ("Qwen/Qwen2.5-0.5B-Instruct", "float32")
    assert (chosen.prompt_tokens, chosen.completion_tokens) == (256, 256)
    monkeypatch.setattr(jax, "devices", lambda: chips(1, "cpu"))
    assert presets.custom() is presets.CUSTOM["laptop"]
    monkeypatch.setattr(jax, "devices", lambda: chips(8))
    assert presets.custom() is presets.CUSTOM["v5e-8"]


def test_the_preset_can_be_overridden(monkeypatch):
    monkeypatch.setenv("COURSE_PRESET", "v5e-8")
    assert presets.preset().name == "v5e-8"
    assert presets.preset("laptop").name == "laptop"
    with pytest.raises(ValueError, match="laptop, laptop-real, v5e-1, v5e-8,"):
        presets.preset("v5e-16")


def test_the_laptops_budgets_hold_every_question_and_solution():
    chosen = presets.preset("laptop")
    tokenizer = chat.load_tokenizer(runtime.ROOT / "data" / "tiny" / "base")
    rows = word_problems.generate(3000, seed=7, levels=(3,))
    questions = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    examples = chat.examples_tokens(
        tokenizer, [row["question"] for row in rows], [row["answer"] for row in rows]
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
    custom = presets.CUSTOM[name]
    assert custom.model == "google/gemma-4-E2B-it" and custom.remat == "layer"
    compiled = [
        case
        for case in tpu_cases.students()
        if (case.model, case.topology, case.pictures) == (custom.model, name, 0)
    ]
    assert {case.program for case in compiled} >= {"sft", "rollout", "grpo"}
    for case in compiled:
        assert (case.rank, case.remat) == (custom.lora_rank, custom.remat)
        assert case.prompt_tokens == custom.prompt_tokens
        assert case.completion_tokens == custom.completion_tokens
        if case.program == "evaluation":
            assert case.prompts == 64  # as many answers at a time as `score` asks for
            continue
        assert (case.prompts, case.group) == (custom.rows, custom.group)
        pieces = 1 if case.program == "rollout" else custom.pieces
        assert case.pieces == pieces


@pytest.mark.parametrize("minibatches", [2, 4])
def test_minibatches_of_notebooks_08_and_15_can_be_cut_into_their_pieces(minibatches):
    """They divide a preset's pieces among the updates of a batch."""
    for name, row in presets.PRESETS.items():
        pieces = row.pieces // minibatches or 1
        devices = 8 if name.startswith("v5e-8") else 1
        assert row.prompts % (minibatches * pieces * devices) == 0
        assert row.prompts // minibatches // pieces <= row.prompts // row.pieces
