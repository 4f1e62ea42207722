"""`scripts.assertions`: what was asserted is recorded with its margin, unchanged."""

import csv
import json
import math

import course_notebooks as course
import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.course import syllabus
from scripts import assertions, recording, seeds


def run(source, tmp_path, **names):
    """The records of a cell's assertions, run as its rewritten code."""
    recorder = recording.Recorder(tmp_path / "records.jsonl")
    exec(recording.rewritten(source, 3), names | {recording.NAME: recorder})
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("a < 3", [(True, 2, 3, 1)]),
        ("3 > a", [(True, 2, 3, 1)]),
        ("a > 3", [(False, 2, 3, -1)]),
        ("0.5 <= a <= 3", [(True, 2, 0.5, 1.5), (True, 2, 3, 1)]),
        ("a > 3 and b > 4", [(False, 2, 3, -1), (True, 5, 4, 1)]),
        ("all(x < 6 for x in (a, b))", [(True, 2, 6, 4), (True, 5, 6, 1)]),
        ("(v < 4).all()", [(True, 3, 4, 1)]),
        ("np.allclose(v, v + 0.25, rtol=0, atol=1)", [(True, 0.25, 1, 0.75)]),
        ("math.isclose(a, 2.5, abs_tol=0.25)", [(False, 0.5, 0.25, -0.25)]),
        ("a == 2", [(True, 2, 2, 0)]),
        ("v[v > 1].sum() < 6", [(True, 5, 6, 1)]),
        ("'a' in 'b'", [(False, None, None, None)]),
        ("not b", [(False, None, None, None)]),
        ("any([])", [(False, None, None, None)]),
    ],
)
def test_each_comparison_is_recorded_with_its_distance(tmp_path, condition, expected):
    names = dict(a=2, b=5, v=np.array([1.0, 2.0, 3.0]), np=np, math=math)
    rows = run(f"assert {condition}, 'why'", tmp_path, **names)
    found = [(r["held"], r["value"], r["bound"], r["margin"]) for r in rows]
    assert found == expected
    assert {row["cell"] for row in rows} == {3}
    assert all(row["assertion"].split()[0] in condition for row in rows)


@settings(max_examples=50)
@given(
    st.recursive(
        st.builds(
            "{} {} {}".format,
            st.sampled_from("ab"),
            st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
            st.sampled_from(["1", "2", "b", "a + 1", "b < 2"]),
        ),
        lambda inner: st.builds(
            "({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner
        ),
        max_leaves=4,
    ),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2]),
)
def test_all_hold_exactly_where_the_assertion_does(tmp_path_factory, condition, a, b):
    rows = run(f"assert {condition}", tmp_path_factory.mktemp("asserted"), a=a, b=b)
    assert all(row["held"] for row in rows) == eval(condition, {"a": a, "b": b})
    assert all(r["margin"] is None or (r["margin"] >= 0) >= r["held"] for r in rows)


def test_operands_are_evaluated_once_and_other_code_stays(tmp_path):
    source = (
        "def next_(called=[]):\n"
        "    called.append('é'); assert len(called) == 1, 'once'  # naïve\n"
        "    return len(called)\n\n"
        "for level in range(2):\n"
        "    assert (\n        0 < next_()\n        < 2 + level\n    )\n"
        "done = True\n"
    )
    with pytest.raises(NameError, match="stop"):
        run(source + "stop", tmp_path)
    rows = [json.loads(x) for x in (tmp_path / "records.jsonl").open()]
    values = [r["value"] for r in rows if "next_" in r["assertion"]]
    assert values == [1, 1, 2, 2], "the side between two signs was evaluated twice"
    code = recording.rewritten(source, 0)
    assert "naïve" in code and "done = True" in code and "assert" not in code.split("'")


def test_a_part_that_cannot_be_evaluated_after_a_false_one_is_left_out(tmp_path):
    rows = run("assert len(x) > 0 and x[0] > 1", tmp_path, x=[])
    assert [row["held"] for row in rows] == [False]
    with pytest.raises(IndexError):
        run("assert len(x) == 0 and x[0] > 1", tmp_path, x=[])


@pytest.mark.parametrize("number", course.NUMBERS)
def test_all_assertions_of_the_notebooks_can_be_rewritten(number):
    for cell in course.code_cells(course.read(number)):
        if "assert " in cell.source:
            code = recording.rewritten(cell.source, 0)
            compile(code, "cell", "exec")
            lines = [line.strip() for line in code.splitlines()]
            assert not [line for line in lines if line.startswith("assert ")]


@pytest.fixture
def a_walk(tmp_path, monkeypatch):
    """A walk of one notebook, whose tables and build folders are in tmp_path."""
    notebook = nbformat.v4.new_notebook()
    code = (
        "import pathlib\n"
        "from helpers import runtime\nfrom helpers.course import results\n"
        "seed = runtime.seed()\n"
        "for i in range(3):\n    assert seed + i < 4.5, 'near'\n"
        f"row = dict.fromkeys({list(results_fields())!r}, 0.5)\n"
        "results.record(row | dict(stage='base', params=5, n=9, seed=seed))\n"
        "with open(runtime.build_folder() / 'runs.txt', 'a') as file:\n"
        "    file.write('x')"
    )
    notebook.cells = [nbformat.v4.new_code_cell(code)]
    nbformat.write(notebook, tmp_path / "03_measuring.ipynb")
    lessons = {"03": syllabus.LESSONS["03"]}
    for module in (assertions, assertions.walk, assertions.publish):
        monkeypatch.setattr(module, "LESSONS", lessons)
    monkeypatch.setattr(assertions.walk, "FOLDER", tmp_path)
    monkeypatch.setattr(assertions.walk, "fingerprint", lambda: "as it is")
    monkeypatch.setattr(assertions.publish, "FOLDER", tmp_path)
    monkeypatch.setattr(assertions, "WORK", tmp_path / "work")
    monkeypatch.setattr(assertions, "TABLE", tmp_path / "assertions.csv")
    monkeypatch.setattr(seeds, "TABLE", tmp_path / "learning.csv")
    for name in ("COURSE_BUILD", "COURSE_SEED", "COURSE_PRESET"):
        monkeypatch.setenv(name, "")  # walk_seed sets them for its kernels
    return tmp_path


def results_fields():
    return ("greedy", "pass1", "pass8", "low", "high", "seconds")


@pytest.mark.slow
def test_walks_each_seed_once_and_keeps_the_worst_of_a_loop(a_walk):
    for seed in (1, 3, 1):
        assert assertions.walk_seed(seed, ["03"]) == []
    assert (a_walk / "work/1/runs.txt").read_text() == "x", "ran again without need"
    rows = {row["seed"]: row for row in assertions.read()}
    assert [rows["1"][n] for n in ("value", "bound", "margin")] == ["3", "4.5", "1.5"]
    assert (rows["1"]["held"], rows["3"]["held"]) == ("True", "False")
    assert rows["3"]["margin"] == "-0.5" and rows["1"]["relative_margin"] == "0.333333"
    learned = list(csv.DictReader((a_walk / "learning.csv").open()))
    assert [row["seed"] for row in learned] == ["1"], "only the seeds that are quoted"
    ((distance, worst, number),) = assertions.nearest(assertions.read())
    assert (distance, worst["seed"], number) == (-math.inf, "3", 2)

    assertions.records_of(1, "03").unlink()
    assertions.walk_seed(1, ["03"])
    assert (a_walk / "work/1/runs.txt").read_text() == "xx", "lost records are remade"


def test_nearest_counts_in_deviations_between_the_seeds():
    def rows(assertion, margins):
        for seed, margin in enumerate(margins):
            row = dict(notebook="04", cell="1", held="True", seed=str(seed))
            yield row | dict(assertion=assertion, margin=str(margin))

    table = [*rows("far > 0", [9, 10, 11]), *rows("near > 0", [0.1, 0.3, 0.2])]
    table += rows("sure == 1", [0, 0, 0])
    found = [(round(d, 6), row["assertion"]) for d, row, _ in assertions.nearest(table)]
    assert found == [(2, "near > 0"), (10, "far > 0")]


def test_what_another_rounding_may_cross_is_found():
    margins = ("0.04", "0.06", "0", "-0.01", "")
    table = [{"relative_margin": margin} for margin in margins]
    assert assertions.tight(table) == [{"relative_margin": "0.04"}]
