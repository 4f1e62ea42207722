"""`make real` with a small model in the place of the real one, and small tasks."""

import pytest
from small_sizes import small

from helpers.recipes import maths, presets
from scripts import real, tables

PIECES = dict(pieces=2, sft_pieces=2)
SMALL = small(presets.PRESETS["laptop-real"], **PIECES, levels=(1, 2, 3))


@pytest.mark.slow
def test_stages_follow_each_other_and_a_measurement_is_not_repeated(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(real, "TABLE", tmp_path / "real.csv")
    monkeypatch.setattr(real, "WORK", tmp_path / "build")
    monkeypatch.setattr(real, "LEVELS", {2: "two_step"})
    monkeypatch.setattr(real, "N", 6)
    monkeypatch.setattr(real, "SAMPLED", 3)
    monkeypatch.setattr(maths, "GENERATED", {"train": 60, "test": 8})
    monkeypatch.delenv("COURSE_GSM8K", raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    names = ["base", "sft", "tool_grpo"]
    with pytest.raises(ValueError, match="--stages sft tool_grpo"):
        real.run(SMALL, ["tool_grpo"], seed=3)
    real.run(SMALL, names, seed=3)
    table = tables.read(tmp_path / "real.csv")
    assert [row["stage"] for row in table] == names
    right = tables.read(tmp_path / "real_right.csv")
    for row, bits in zip(table, right, strict=True):
        assert [row[name] for name in real.KEY] == [bits[name] for name in real.KEY]
        assert float(row["greedy"]) == round(bits["right"].count("1") / 6, 4)
        assert row["seed"] == ("0" if row["stage"] in real.UNTRAINED else "3")
        assert 0 <= float(row["low"]) <= float(row["greedy"]) <= float(row["high"])
    curves = tables.read(tmp_path / "real_curves.csv")
    steps = [(row["stage"], row["step"]) for row in curves]
    assert steps == [("tool_grpo", "1"), ("tool_grpo", "2")]
    monkeypatch.setattr(real, "measure", None)  # to call it would fail
    real.run(SMALL, names, seed=3)
