"""Notebook 15 with a file of the reader's own: nothing that holds of ours is asked."""

import json

import course_notebooks as course
import nbformat
import pytest

from helpers.course.stages import stage_folder
from helpers.text import chat

# How the cells that meet the file begin: rows, reader, rewards, ten answers.
CELLS = "MINE = None", "limits = {", "def right(prompts", "good = [row"
OWN_REWARD = """
def right(prompts, completions, answer=None, **columns):
    return [float("Town" in text) for text in completions]
reward = RewardSet({right: 1.0})
"""


class Size:
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
    exec(f"import pathlib, sys\n{imports}", names)
    found = [[s for s in sources if s.startswith(start)] for start in CELLS]
    return [source for (source,) in found], names


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
    sources.insert(3, OWN_REWARD)
    for source in sources:
        exec(source, names)
    assert path.read_text() == text
    assert len(names["train"]) > 150 and len(names["found"].rows) == 200
    assert names["scores"][:5] == [1.0] * 5


def test_without_one_the_notebooks_own_problems_are_held_to_their_numbers(cells):
    sources, names = cells
    for source in sources:
        exec(source, names)
    assert names["scores"][:5] == [1.5] * 5
    names["found"].rows.pop()
    checked = sources[1].splitlines()[-1]
    with pytest.raises(AssertionError):
        exec(checked, names)
