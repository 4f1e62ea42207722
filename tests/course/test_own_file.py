"""Notebook 15 with rows of the reader's own: only the settings cell is another one."""

import dataclasses
import json

import course_notebooks as course
import jax
import numpy as np
import pandas
import pytest
from flax import nnx
from small_sizes import small

from helpers.recipes import presets

BUDGETS = dict(prompt_tokens=72, completion_tokens=40, pieces=2, packed=2)
SMALL = small(presets.CUSTOM["laptop-real"], **BUDGETS, rl=presets.Stage(6, 1e-3))
QUESTIONS = [f"What is the capital of land {i}?" for i in range(60)]
ANSWERS = [f"Town {i % 7}." for i in range(60)]


@pytest.fixture
def names(monkeypatch, tmp_path):
    """What the cells before the settings define."""
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setenv("COURSE_MODEL", SMALL.model)
    monkeypatch.chdir(course.FOLDER)
    (imports,) = course.tagged(course.read("15"), "imports")
    names = {"size": SMALL, "seed": 0, "storage": tmp_path}
    exec(imports.source, names)
    return names


def run(names, last=None, **settings):
    """Runs the cells from the upload on, to the one that begins so, or to the end."""
    sources = [cell.source for cell in course.code_cells(course.read("15"))]
    (start,) = [i for i, x in enumerate(sources) if x.startswith("inbox = ")]
    for source in sources[start:]:
        if source.startswith("mine = "):
            source = course.with_settings(source, **settings)
        course.run(source, names)
        if last and source.startswith(last):
            return
    assert last is None, "there is no such cell"


def messages(path):
    """Conversations with a system turn, of which SFT learns the answers."""
    system = {"role": "system", "content": "Be brief."}
    lines = [
        {
            "messages": [
                system,
                {"role": "user", "content": question},
                {"role": "assistant", "content": answer},
            ]
        }
        for question, answer in zip(QUESTIONS, ANSWERS, strict=True)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))


def alpaca(path):
    """A table with an instruction and its input."""
    columns = {"instruction": "Answer.", "input": QUESTIONS, "output": ANSWERS}
    pandas.DataFrame(columns).to_csv(path, index=False)


def pairs(path):
    """Preferences, of which the chosen answer counts."""
    columns = {"prompt": QUESTIONS, "chosen": ANSWERS, "rejected": "I do not know."}
    pandas.DataFrame(columns).to_parquet(path)


SHAPES = [
    ("rows.jsonl", messages, "sft"),
    ("rows.csv.gz", alpaca, "sft+grpo"),
    ("rows.parquet", pairs, "grpo"),
]


@pytest.mark.slow
@pytest.mark.parametrize("file, write, method", SHAPES)
def test_three_shapes_of_rows_go_the_whole_road(
    file, write, method, names, tmp_path, capsys
):
    """Interrupted, resumed, measured, shown, talked to, exported and asked again."""
    (tmp_path / "rows").mkdir()
    write(tmp_path / "rows" / file)  # which the settings find there
    run(names, METHOD=method, EXPORTS=("peft",) if method == "grpo" else ("hf",))
    output = capsys.readouterr().out
    trained = {"sft": ["SFT"], "grpo": ["GRPO"], "sft+grpo": ["SFT", "GRPO"]}[method]
    assert list(names["stages"]) == ["downloaded", *trained]
    assert ("The training was interrupted." in output) == ("grpo" in method)
    if "grpo" in method:
        assert [row["step"] for row in names["table"]] == [1, 2, 3, 4, 5, 6]
        assert "checkpoints on disk: 00000003 00000004" in output
    ends = [row["answer"] for row in names["train"][:5]]
    assert {*ends} <= {*ANSWERS} and names["scores"][:5] == [1.3] * 5
    for stage, report in names["stages"].items():
        mean, low, high = names["bars"][f"right, {stage}"]
        assert low <= mean <= high and mean == report.parts["reward/right"]
    (identical,) = names["equal"].values()
    assert identical >= len(names["then"]) - 1
    assert f"vllm serve {names['exports']}" in output
    if method == "grpo":  # whose adapters the last cell loaded
        sources = [cell.source for cell in course.code_cells(course.read("15"))]
        (baseline,) = [x for x in sources if x.startswith("# New adapters")]
        names["runs"] = tmp_path / "again"
        course.run(baseline, names)  # in the same kernel begins with new ones
        downloaded, now = (
            jax.tree.leaves(nnx.state(model))
            for model in (names["fresh"](), names["policy"])
        )
        for one, other in zip(downloaded, now, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_reward_of_any_name_takes_the_place_of_ours(names, tmp_path):
    """And the file stays as it is."""
    path = tmp_path / "mine.jsonl"
    rows = [{"ask": q, "reply": a} for q, a in zip(QUESTIONS, ANSWERS, strict=True)]
    path.write_text(text := "\n".join(map(json.dumps, rows)))
    settings = {"ROWS": str(path), "COLUMNS": {"question": "ask", "answer": "reply"}}
    run(names, "WEIGHTS = ", **settings)

    def has_town(prompts, completions, **columns):
        return [float("Town" in text) for text in completions]

    names["reward"] = names["RewardSet"](has_town)
    sources = [cell.source for cell in course.code_cells(course.read("15"))]
    (ten,) = [x for x in sources if x.startswith("good = [")]
    course.run(ten, names)
    assert names["scores"] == [1.0] * 5 + [0.0, 1.0, 0.0, 1.0, 0.0]
    assert path.read_text() == text and len(names["loaded"].rows) == 60


def test_an_answer_is_compared_as_a_number_only_if_it_is_one(names):
    sources = [cell.source for cell in course.code_cells(course.read("15"))]
    (cell,) = [x for x in sources if x.startswith("def agrees")]
    course.run(cell, names)
    for text, gold, same in (
        ("So it is 5.", "5 + 0 = 5\n#### 5", True),
        ("I say\nPea-3", "PEA-3", True),
        ("APP-3", "PEA-3", False),
    ):
        assert names["agrees"](text, gold) == same


def test_other_settings_have_another_folder(names):
    run(names, "asked = ")
    first = names["runs"].name
    run(names, "asked = ", TOKENS=(72, 32))
    assert names["runs"].name != first
    run(names, "asked = ")
    assert names["runs"].name == first


def test_rows_without_answers_are_no_rows_for_sft(names):
    with pytest.raises(ValueError, match="SFT needs answers"):
        run(names, "columns, source", ROWS="rules", METHOD="sft")


def test_bytes_are_counted_as_the_compiler_counts_them(names):
    """Those of laptop_fit.csv, of an update."""
    run(names, "def memory_gb", ROWS="rules")
    for row in names["results"].measured("laptop_fit")[:3]:
        small = row["model"] == presets.CUSTOM["laptop"].model
        size = dataclasses.replace(
            presets.CUSTOM["laptop"], remat="none" if small else "layer"
        )
        names |= {"size": size, "TOKENS": (size.prompt_tokens, size.completion_tokens)}
        needed = names["memory_gb"](names["KNOWN"][row["model"]])
        compiled = (row["arguments_gb"] + row["temporaries_gb"]) * 1e9 / 2**30
        # A cache of all answers may need more than the update, which is compiled.
        assert 0.9 * compiled < needed < 1.5 * compiled, row["model"]
