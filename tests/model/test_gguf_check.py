"""The table that `make gguf-check` wrote: llama.cpp's answers beside ours."""

import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "golden"))

import llama_cases  # noqa: E402
import llama_cpp  # noqa: E402


def test_the_table_has_every_case_within_its_bounds():
    rows = list(csv.DictReader(llama_cpp.TABLE.open()))
    kinds = [(case.name, kind) for case in llama_cases.CASES for kind in case.kinds]
    assert [(row["model"], row["type"]) for row in rows] == kinds
    for row in rows:
        assert float(row["largest_gap"]) <= llama_cpp.MOST_BEHIND[row["type"]]
        gap = float(row["mean_logprob_gap"] or 0)
        assert gap <= llama_cpp.MOST_APART[row["type"]]
        assert row["versions"].startswith(llama_cpp.NEEDS[0][0])
        assert int(row["prompts"]) >= 8 and int(row["tokens"]) >= 72
