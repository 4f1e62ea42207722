import json
import warnings

from helpers.training.logging import MetricsLog


def row(step, **more):
    numbers = {"loss": 0.5, "tokens_per_second": 1234.5, "seconds": 2.0}
    return {"step": step, **numbers, **more}


def test_a_log_goes_on_where_the_checkpoint_was(tmp_path):
    first = MetricsLog(tmp_path, {}, 0)
    first.write(row(1), [{"prompt": "a"}])
    position = first.position()
    first.write(row(2), [{"prompt": "lost"}])
    second = MetricsLog(tmp_path, position, 1)
    assert second.rows == [row(1)]
    second.write(row(2, again=1), [{"prompt": "b"}])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [row(1), row(2, again=1)]
    samples = (tmp_path / "samples.jsonl").read_text()
    assert "lost" not in samples and '{"step": 2, "prompt": "b"}' in samples


def test_half_a_row_that_a_full_disk_left_is_not_written_on(tmp_path):
    """The next row would continue that line, and the table could not be read again."""
    log = MetricsLog(tmp_path, {}, 0)
    log.write(row(1), [{"prompt": "a"}])
    for name in ("metrics.jsonl", "samples.jsonl"):
        with open(tmp_path / name, "a") as file:
            file.write('{"step": 2, "lo')
    log.write(row(2), [{"prompt": "b"}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = MetricsLog(tmp_path, log.position(), 2)
    assert again.rows == log.rows == [row(1), row(2)]
    samples = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["prompt"] for line in samples] == ["a", "b"]
