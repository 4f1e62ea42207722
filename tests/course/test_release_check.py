"""`make release-check` in a repository made for it: refuses each fault, and passes."""

import os
import shutil
import subprocess

import course_notebooks as course
import nbformat
import pytest
from course_notebooks import ROOT

from scripts import release_check

KEPT = ("02_model.ipynb", "07_grpo.ipynb")  # two will do


@pytest.fixture
def repository(tmp_path):
    """A committed and tagged copy of what is looked at; gives its folder and git."""
    (tmp_path / "notebooks").mkdir()
    for name in KEPT:
        shutil.copy(course.FOLDER / name, tmp_path / "notebooks")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "losses.py").write_text("x = 1\n")
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        done = subprocess.run(
            ["git", *who, *words],
            cwd=tmp_path,
            env=kept | quiet,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", "v0.1.0")
    return tmp_path, git


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_state_passes_whose_tag_badges_and_cells_agree(repository):
    folder, git = repository
    assert release_check.problems(folder) == []
    (folder / "notes.txt").write_text("beside the release")
    git("add", "-A")
    git("commit", "-qm", "two")
    assert release_check.problems(folder) == []
    git("tag", "-d", "v0.1.0")
    git("tag", "-a", "-m", "annotated", "v0.1.0")
    assert release_check.problems(folder) == []


def test_a_tag_is_missing_after_the_version_was_raised(repository):
    folder, _ = repository
    change(folder / "pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"')
    found = "\n".join(release_check.problems(folder))
    assert "git has no tag v0.2.0" in found
    for name in ("README.md", *KEPT):
        assert f"{name}: a badge of " in found
    assert "02_model.ipynb: the set-up cell has not TAG = v0.2.0" in found


def test_a_tag_on_a_commit_without_a_notebook_is_refused(repository):
    folder, git = repository
    git("rm", "-q", "--cached", "notebooks/07_grpo.ipynb")
    git("commit", "-qm", "two")
    git("tag", "-f", "v0.1.0")
    found = release_check.problems(folder)
    assert "the commit of v0.1.0 lacks notebooks/07_grpo.ipynb" in found


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("file", ["helpers/losses.py", "helpers/new.py"])
def test_helpers_that_the_tag_has_otherwise_are_refused(repository, file, committed):
    folder, git = repository
    (folder / file).write_text("x = 2\n")
    if committed:
        git("add", "-A")
        git("commit", "-qm", "two")
    (found,) = release_check.problems(folder)
    assert file in found and "not as in the commit of v0.1.0" in found


def test_each_badge_and_cell_is_looked_at(repository):
    folder, git = repository
    readme, first, second = (
        folder / "README.md",
        *(folder / "notebooks" / name for name in KEPT),
    )
    change(readme, "blob/v0.1.0/notebooks/07_grpo", "blob/v0.0.9/notebooks/07_grpo")
    notebook = nbformat.read(first, as_version=4)
    for cell in notebook.cells:
        if "badges" in cell.metadata.get("tags", []):
            cell.source = cell.source.split(" [![Open in Kaggle")[0]
    nbformat.write(notebook, first)
    change(second, 'TAG = \\"v0.1.0\\"', 'TAG = \\"main\\"')
    git("add", "-A")
    git("commit", "-qm", "two")
    git("tag", "-f", "v0.1.0")
    found = "\n".join(release_check.problems(folder))
    owner = "llm-post-training-course/llm-post-training-course"
    assert f"README.md: a badge of 07_grpo.ipynb opens {owner} at v0.0.9" in found
    assert "02_model.ipynb: no badge of Kaggle for 02_model.ipynb" in found
    assert "07_grpo.ipynb: the set-up cell has not TAG = v0.1.0" in found
    assert len(found.splitlines()) == 4  # README's badge is Colab's and Kaggle's


def test_the_course_itself_disagrees_in_nothing_but_perhaps_the_tag():
    notebooks = [course.path(number).name for number in course.NUMBERS]
    assert release_check.in_files(ROOT, notebooks) == []
