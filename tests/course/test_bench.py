"""The benchmark: its arithmetic, its table, its errors, and our side of it in small."""

import csv
import dataclasses
import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "bench"))

import bench  # noqa: E402
import case as cases  # noqa: E402

TOY = cases.Case(
    width=16,
    prompt=8,
    answer=8,
    layers=1,
    heads=2,
    kv_heads=1,
    vocab=32,
    prompts=2,
    group=2,
    warmup=1,
    steps=2,
)


def figures(scale=1.0, first=8.0, load=0.5):
    """Figures of one run that is `scale` times as slow and as large as ours."""
    return {
        "grpo_cpu_s": 0.5 * scale,
        "grpo_wall_s": 0.6 * scale,
        "rollout_cpu_s": 0.2 * scale,
        "rollout_tok_s": 8000 / scale,
        "sft_cpu_s": 0.4 * scale,
        "sft_tok_s": 16000 / scale,
        "peak_mb": 500 * scale,
        "first_step_s": first,
        "versions": {"jax": "0.10.2"},
        "load": load,
    }


def test_every_ratio_says_how_many_times_better_we_are():
    ours = [figures(first=10.0), figures(first=2.0)]
    theirs = [figures(2.0, first=20.0), figures(2.0, first=4.0, load=3.0)]
    line = bench.row("trl", cases.Case(), ours, theirs, cores=[1])
    for name in bench.RATIOS:
        assert line[name] == pytest.approx(2.0), name
    assert (line["peer"], line["width"], line["lengths"]) == ("trl", 128, "64+64")
    assert line["load"] == 3.0
    assert json.loads(line["versions"])["peer"] == {"jax": "0.10.2"}


def test_the_clocks_leave_out_the_warm_up():
    case = dataclasses.replace(TOY, warmup=1, steps=3)
    steps, rollouts = cases.Clock(), cases.Clock()
    # Steps of 10, 1, 2, 6 wall seconds and half as many CPU-seconds; each begins with
    # a rollout that takes half of it.
    ends = [0.0, 10.0, 11.0, 13.0, 19.0]
    steps.stamps = [(t, t / 2) for t in ends]
    for begin, end in zip(ends, ends[1:], strict=False):
        half = (begin + end) / 2
        rollouts.stamps += [(begin, begin / 2), (half, half / 2)]
    result = cases.grpo_figures(case, steps, rollouts)
    assert result["first_step_s"] == 10.0
    assert result["grpo_wall_s"] == 2.0
    assert result["grpo_cpu_s"] == 1.0
    assert result["rollout_cpu_s"] == 0.5
    assert result["rollout_tok_s"] == case.rows * case.answer / 1.0
    sft = cases.sft_figures(case, steps)
    assert sft["sft_cpu_s"] == pytest.approx(1.5)
    assert sft["sft_tok_s"] == pytest.approx(case.rows * case.length / 3.0)


@pytest.mark.slow
def test_ours_runs_in_small_and_reports_sane_figures(tmp_path):
    cache = tmp_path / "cache"
    result = bench.measure("ours", sys.executable, TOY, cache)
    assert result["case"] == dataclasses.asdict(TOY)
    assert {"jax", "flax", "python"} <= result["versions"].keys()
    assert 0 < result["rollout_cpu_s"] < result["grpo_cpu_s"] < result["first_step_s"]
    assert result["rollout_tok_s"] > 0 and result["sft_tok_s"] > 0
    assert 50 < result["peak_mb"] < 4000


def table():
    with bench.TABLE.open() as file:
        return list(csv.DictReader(file))


def test_the_committed_ratios_follow_from_the_committed_figures():
    for line in table():
        for name, (figure, less) in bench.RATIOS.items():
            mine, other = float(line[f"ours_{figure}"]), float(line[f"peer_{figure}"])
            expected = other / mine if less else mine / other
            assert float(line[name]) == pytest.approx(expected, rel=0.01, abs=0.006)
