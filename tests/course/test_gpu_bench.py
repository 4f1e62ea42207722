"""The GPU's benchmark, on a CPU: its rows, its table, and its drivers in small."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))

import bench  # noqa: E402
import gpu  # noqa: E402
import ours  # noqa: E402

FIGURES = {
    "grpo_wall_s": 2.5,
    "sft_wall_s": 0.5,
    "decode_wall_s": 0.25,
    "rollout_tok_s": 16.0,  # two seconds for the 32 tokens of a tiny step
    "device_gb": 1.5,
    "versions": {"jax": "0.12"},
}
read = gpu.tables.read


def test_a_row_is_written_at_once_and_a_failing_one_stops_no_other(
    tmp_path, monkeypatch, capsys
):
    table, calls, written = tmp_path / "gpu.csv", [], []

    def call(library, python, case, settings, parts, seconds):
        calls.append((library, *parts))
        written.append(len(read(table)))
        if parts == ["sft"] and len(calls) <= 8:
            raise bench.BenchError("out of memory")
        return FIGURES

    monkeypatch.setattr(bench, "call", call)
    arguments = ["--tiny", "--table", str(table), "--trl-python", "python-with-trl"]
    gpu.main(arguments)
    assert calls == [(row.library, row.program.split(",")[0]) for row in gpu.all_rows()]
    assert written == [0, 1, 2, 2, 2, 3, 4, 5]
    assert capsys.readouterr().out.count("out of memory") == 2
    first = read(table)[0]
    assert list(first) == gpu.FIELDS and json.loads(first["versions"])
    assert gpu.TABLE.read_text().splitlines()[0] == ",".join(gpu.FIELDS)
    assert [float(first[x]) for x in gpu.NUMBERS] == [2500, 16, 500, 1.5]
    gpu.main(arguments)  # only what failed
    assert calls[8:] == [("ours", "sft"), ("trl", "sft")]
    gpu.main(arguments)  # nothing
    assert len(calls) == 10 and len(read(table)) == 8


def test_no_row_is_begun_without_time_or_gpu(tmp_path, monkeypatch):
    table = tmp_path / "gpu.csv"
    gpu.main(["--tiny", "--table", str(table), "--minutes", "0"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="no GPU"):
        gpu.main(["--table", str(table)])
    assert not table.exists()


def test_decoding_is_measured_beside_what_bandwidth_allows(tmp_path, monkeypatch):
    def call(library, python, case, settings, parts, seconds):
        return ours.decode(case) | {"versions": {}}

    monkeypatch.setattr(bench, "call", call)
    monkeypatch.setattr(ours, "bandwidth", lambda numbers: 1e6)
    table = tmp_path / "gpu.csv"
    gpu.main(["--tiny", "--table", str(table), "--rows", "5"])
    measured, limit = read(table)
    assert (measured["library"], measured["update_ms"]) == ("ours", "")
    assert limit["library"] == "bandwidth limit"
    # In bfloat16: the vocabulary, the layer's matrices and three norms; keys and values
    # of eight numbers for 8 tokens of two prompts, and 4.5 tokens of four answers.
    weights = 64 * 16 + 16 * (16 + 8 + 8 + 16 + 3 * 32) + 3 * 16
    read_bytes = 2 * (weights + 2 * 8 * (2 * 8 + 4 * 4.5))
    assert float(limit["rollout_tok_s"]) == pytest.approx(
        4 * 1e6 / read_bytes, rel=1e-3
    )
    seconds = 32 / float(measured["rollout_tok_s"])
    assert float(measured["ms_step"]) == pytest.approx(1000 * seconds, rel=0.01)


@pytest.mark.slow
def test_our_rows_run_in_small(tmp_path):
    table = tmp_path / "gpu.csv"
    gpu.main(["--tiny", "--table", str(table), "--rows", "3", "6"])
    sft, grpo = read(table)
    assert (sft["program"], sft["dtype"]) == ("sft", "bfloat16")
    assert (grpo["program"], grpo["dtype"]) == (f"grpo, {gpu.T4_GB} GB", "float32")
    assert 0 < float(grpo["update_ms"]) < float(grpo["ms_step"])
    assert float(sft["update_ms"]) == float(sft["ms_step"]) > 0
