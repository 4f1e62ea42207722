"""Notebook 15 with a file of the reader's own: nothing that holds of ours is asked."""

import dataclasses
import json

import course_notebooks as course
import jax
import nbformat
import numpy as np
import pytest
from flax import nnx

from helpers.course.stages import stage_folder
from helpers.recipes import presets
from helpers.text import chat

# How the cells that meet the file begin: rows, reader, rewards, ten answers.
CELLS = "MINE = None", "limits = {", "def right(prompts", "good = [row"
CUSTOM_REWARD = """
def right(prompts, completions, answer=None, **columns):
    return [float("Town" in text) for text in completions]
reward = RewardSet({right: 1.0})
"""

# And of the rest: what measures, trains, is cut off and goes on, shows and takes home.
REST = (
    *("BUDGET = {", "def train_by_rows", "class Disconnect", "def train_by_reward"),
    *("try:\n    policy", "policy = lora.load(lora.remove(policy)"),
    *(
        "bars = {}",
        "both = [stages",
        "disk = storage",
        "def same_answers",
        "def load_export",
        "equal = {}",
    ),
    "print(ask(policy",
)
GRADED = """
def length(prompts, completions, **columns):
    return [len(text) / 10 for text in completions]
reward = RewardSet(length)
"""


class Size:
    name = "laptop"
    prompt_tokens, completion_tokens = 72, 48


@pytest.fixture
def cells(monkeypatch, tmp_path):
    """(their sources, the names of the notebook so far)."""
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    book = nbformat.read(course.FOLDER / "15_own_model.ipynb", as_version=4)
    sources = [cell.source for cell in book.cells if cell.cell_type == "code"]
    (imports,) = (s for s in sources if "from helpers import batches" in s)
    tokenizer = chat.load_tokenizer(stage_folder("base"))
    names = {"size": Size, "seed": 0, "tokenizer": tokenizer}
    names |= {"MODEL": "a/model", "storage": tmp_path}
    exec(f"import pathlib, sys\n{imports}", names)
    return cells_of(sources, CELLS), names


def cells_of(sources, starts):
    """The cells that begin so, one for each."""
    matches = [[s for s in sources if s.startswith(start)] for start in starts]
    return [source for (source,) in matches]


def test_a_file_of_ones_own_is_read_tried_and_left_as_it_is(cells, tmp_path):
    sources, names = cells
    rows = [
        {"question": f"What is the capital of land {i}?", "answer": f"Town {i}."}
        for i in range(200)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text(text := "\n".join(map(json.dumps, rows)))
    assert sources[0].startswith("MINE = None")
    sources[0] = sources[0].replace("MINE = None", f"MINE = {str(path)!r}", 1)
    sources.insert(3, CUSTOM_REWARD)
    for source in sources:
        course.run(source, names)
    assert path.read_text() == text
    assert len(names["train"]) > 150 and len(names["loaded"].rows) == 200
    assert names["scores"][:5] == [1.0] * 5


@pytest.mark.slow
def test_a_reward_of_any_name_and_size_goes_the_whole_road(cells, tmp_path, capsys):
    """One that no cell knows, beyond 1: cut off, gone on with, drawn, taken home."""
    begin, names = cells
    book = nbformat.read(course.FOLDER / "15_own_model.ipynb", as_version=4)
    sources = [cell.source for cell in book.cells if cell.cell_type == "code"]
    small = dataclasses.replace(
        presets.CUSTOM["laptop-real"],
        model=str(stage_folder("sft")),
        lora_rank=2,
        prompts=4,
        group=2,
        chunk=100,
        prompt_tokens=72,
        completion_tokens=8,
        sft=presets.Stage(2, 1e-3),
        rl=presets.Stage(8, 1e-3),
    )
    names["size"] = small
    rows = [
        {"question": f"What are {i} and {i}?", "answer": f"#### {2 * i}"}
        for i in range(60)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    begin[0] = begin[0].replace("MINE = None", f"MINE = {str(path)!r}", 1)
    (model,) = cells_of(sources, ["MODEL = os.environ"])
    for source in (model, *begin[:3], GRADED, begin[3], *cells_of(sources, REST)):
        course.run(source, names)
    output = capsys.readouterr().out
    assert "The training was interrupted." in output and "00000006" in output
    looked = [row["eval/length"] for row in names["table"] if "eval/length" in row]
    assert len(looked) == 2
    assert {*names["bars"]} == {"length, downloaded", "length, SFT", "length, GRPO"}
    for stage, (mean, low, high) in zip(
        names["stages"], names["bars"].values(), strict=True
    ):
        assert low <= mean <= high
        assert mean == names["stages"][stage].parts["reward/length"]
    assert names["equal"]["peft"] == len(names["held_out"][:20])
    # A cell that measures what came, run again in the same kernel, begins with that.
    names |= {"runs": tmp_path / "again"}
    course.run(cells_of(sources, REST[:1])[0], names)
    downloaded, now = (
        jax.tree.leaves(nnx.state(model))
        for model in (names["fresh"](), names["policy"])
    )
    for one, other in zip(downloaded, now, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not (tmp_path / "runs" / names["runs"].name / "export").exists()
