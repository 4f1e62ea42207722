"""Rows of notebook 08b: what is kept, collected and shown."""

import csv
import json

import course_notebooks as course
import pytest

from helpers import runtime
from helpers.course import preference_results
from scripts import preferences

ROW = {
    "method": "DPO",
    "seed": 0,
    "greedy": 0.86,
    "low": 0.83,
    "high": 0.89,
    "names_kept": 0.95,
    "n": 500,
    "seconds": 12.34,
}


FILE = preference_results.TABLE  # the committed one; the tests below have their own


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(preference_results, "TABLE", tmp_path / "preferences.csv")


def test_rows_that_are_kept_are_found_again_and_others_refused():
    preference_results.keep([ROW])
    path = runtime.build_folder() / "preferences.json"
    assert json.loads(path.read_text()) == [ROW]
    with pytest.raises(ValueError, match="names_kept = 95"):
        preference_results.keep([ROW | {"names_kept": 95}])
    with pytest.raises(ValueError, match="give method, seed"):
        preference_results.keep([{"method": "DPO"}])
    assert json.loads(path.read_text()) == [ROW]


def test_a_seed_that_is_measured_again_takes_the_place_of_its_rows():
    other = ROW | {"method": "GRPO", "names_kept": 0.5}
    preferences.add([other, ROW])
    preferences.add([other | {"seed": 1}, ROW | {"seed": 1, "greedy": 0.88}])
    preferences.add([other, ROW | {"greedy": 0.84}])
    lines = preference_results.TABLE.read_text().splitlines()
    assert lines[0] == "method,seed,greedy,low,high,names_kept,n,seconds"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["GRPO", "0", "0.86"],
        ["GRPO", "1", "0.86"],
        ["DPO", "0", "0.84"],
        ["DPO", "1", "0.88"],
    ]


def test_the_table_of_seeds_has_means_and_spans():
    assert "Not measured yet" in preference_results.across_seeds()
    preferences.add([ROW, ROW | {"method": "GRPO"}])
    preferences.add([ROW | {"seed": 1, "greedy": 0.88, "names_kept": 0.97}])
    *_, dpo, _ = preference_results.across_seeds().splitlines()
    assert dpo == "| DPO | 2 | 87.0% (86.0 to 88.0) | 96.0% (95.0 to 97.0) | 12 |"
    assert "| GRPO | 1 |" in preference_results.across_seeds()


def test_what_notebook_08b_says_of_three_seeds_is_what_the_file_has():
    with open(FILE, newline="") as file:
        rows = list(csv.DictReader(file))

    def of(method, column):
        return [float(row[column]) for row in rows if row["method"] == method]

    start = of("GRPO", "greedy")[0]
    lost = [start - greedy for greedy in of("DPO as published", "greedy")]
    kept = of("DPO as published", "names_kept")
    text = " ".join(" ".join(cell.source for cell in course.read("08b").cells).split())
    told = [f"{100 * points:.1f}" for points in lost]
    assert f"loses {told[0]}, {told[1]} and {told[2]} points" in text
    assert f"it keeps {100 * min(kept):.0f} to {100 * max(kept):.0f}%" in text
    assert min(kept) >= 0.9 and min(lost) > 0.02
    for method in ("DPO, imitating too", "ORPO", "SFT on the chosen"):
        assert min(of(method, "names_kept")) >= 0.9
        assert min(of(method, "greedy")) >= start
    for method, said in (
        ("SFT on the chosen", "updates cost least (%.0f CPU-s;"),
        ("GRPO, one more reward", "needs %.0f CPU-s, its 5,120 answers"),
    ):
        seconds = of(method, "seconds")
        assert said % (sum(seconds) / len(seconds)) in text
