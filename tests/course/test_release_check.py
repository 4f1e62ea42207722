"""`make release-check` passes where tag, badges and set-up cells agree."""

import os
import shutil
import subprocess

import course_notebooks as course
import pytest
from course_notebooks import ROOT

from tests.colab import release_check


@pytest.fixture
def repository(tmp_path):
    """A committed and tagged copy with one notebook; its folder, and git."""
    for folder in ("notebooks", "helpers"):
        (tmp_path / folder).mkdir()
    shutil.copy(course.path("06"), tmp_path / "notebooks")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "helpers" / "losses.py").write_text("x = 1\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        options = {"env": environment, "check": True, "capture_output": True}
        subprocess.run(command, cwd=tmp_path, **options)

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", f"v{release_check_version()}")
    return tmp_path, git


def release_check_version():
    text = (ROOT / "pyproject.toml").read_text()
    return text.split('\nversion = "')[1].split('"')[0]


def test_a_state_passes_whose_tag_badges_and_cells_agree(repository):
    folder, git = repository
    assert release_check.problems(folder) == []
    git("tag", "-d", f"v{release_check_version()}")
    (problem,) = release_check.problems(folder)
    assert "git has no tag" in problem


def test_changed_helpers_and_old_badges_are_refused(repository):
    folder, _ = repository
    (folder / "helpers" / "losses.py").write_text("x = 2\n")
    (problem,) = release_check.problems(folder)
    assert "helpers/losses.py" in problem
    (notebook,) = (folder / "notebooks").glob("*.ipynb")
    notebook.write_text(notebook.read_text().replace("/blob/v", "/blob/v9."))
    problems = "\n".join(release_check.problems(folder))
    assert f"{notebook.name}: a badge opens v9." in problems
    assert f"{notebook.name}: no badge opens {notebook.name}" in problems


def test_the_course_itself_disagrees_in_nothing_but_the_tag():
    problems = release_check.problems(ROOT)
    assert all("git has no tag" in line or "differ from" in line for line in problems)
