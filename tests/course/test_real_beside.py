"""What is measured beside the stages of a real model: a small one in its place."""

import csv
import dataclasses
import sys

import disconnected
import jax
import pytest
from flax import nnx
from test_real import SMALL
from tiny_models import needs_bfloat16

from helpers.model import lora
from helpers.recipes import maths, presets
from scripts import real, real_dtypes, real_forgotten


@pytest.fixture(autouse=True)
def few_problems(tmp_path, monkeypatch):
    monkeypatch.setattr(maths, "GENERATED", {"train": 60, "test": 8})
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))


def test_a_capital_is_found_in_a_sentence():
    said = ["It is paris.", "São Paulo", "Brasília!", "Lyon"]
    right = ["Paris", "Brasilia", "Brasilia", "Paris"]
    assert real_forgotten.names_it(said, said, right) == [1.0, 0.0, 1.0, 0.0]
    assert len(real_forgotten.ROWS) == 48


def test_what_learned_nothing_forgot_nothing_and_noise_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(real, "WORK", tmp_path)
    monkeypatch.setattr(real_forgotten, "TABLE", tmp_path / "forgotten.csv")
    monkeypatch.setattr(real_forgotten.presets, "preset", lambda name: SMALL)
    monkeypatch.setattr(sys, "argv", ["real_forgotten"])
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "0"))
    there = maths.recipe(SMALL)
    there.keep("sft")  # fresh adapters change nothing
    state = nnx.state(there.policy, lora.Adapter)
    noise = jax.tree.map(lambda x: jax.random.normal(jax.random.key(1), x.shape), state)
    nnx.update(there.policy, noise)
    there.keep("grpo")
    real_forgotten.main()
    with open(tmp_path / "forgotten.csv", newline="") as file:
        base, sft, grpo = csv.DictReader(file)
    assert [row["stage"] for row in (base, sft, grpo)] == ["base", "sft", "grpo"]
    alike = ("n", "capitals", "low", "high", "marked", "loss")
    assert [sft[name] for name in alike] == [base[name] for name in alike]
    assert float(grpo["loss"]) > 2 * float(base["loss"])


@pytest.mark.slow
def test_bfloat16_lies_further_from_its_sampler_than_float32(tmp_path, monkeypatch):
    needs_bfloat16()
    monkeypatch.setattr(real_dtypes, "WORK", tmp_path)
    # So small a model stays within GSPO's own clip: between the two formats' gaps.
    monkeypatch.setattr(real_dtypes, "CLIP", (1e-5, 1e-5))
    found = {
        kind: real_dtypes.measured(disconnected.SMALL, kind, seed=0)
        for kind in real_dtypes.KINDS
    }
    gap = {kind: float(row["gap_mean"]) for kind, row in found.items()}
    assert 10 * gap["float32"] < gap["bfloat16"], gap
    # Some processors round what multiplies a bfloat16 weight, too, and others do not.
    assert gap["float32"] < 2 * gap["weights"] < 4 * gap["bfloat16"], gap
    assert found["float32"]["outside_clip"] == 0 < found["bfloat16"]["outside_clip"]
    for row in found.values():
        assert row["steps"] == disconnected.SMALL.sft.steps
        assert float(row["loss_last"]) < float(row["loss_first"])


@pytest.mark.slow
def test_loss_curves_of_the_formats_are_of_the_same_rows_and_rounded(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(real_dtypes, "WORK", tmp_path)
    small = dataclasses.replace(disconnected.SMALL, sft=presets.Stage(3, 1e-3))
    found = real_dtypes.curves(small, seed=0)
    assert [row["step"] for row in found] == [1, 2, 3]
    assert {row["rows"] for row in found} == {1}
    for row in found:
        exact, *rounded = (row[kind] for kind in real_dtypes.KINDS)
        assert rounded == pytest.approx([exact] * 2, rel=0.03)
        assert exact != rounded[1], "it was not computed in bfloat16"
