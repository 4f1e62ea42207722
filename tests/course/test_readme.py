"""README and the notebooks show the tables that are kept in data/results."""

import json

import course_notebooks as course  # finds notebooks/readme.py, too
import readme

from helpers.course import results

ROOT = course.FOLDER.parent


def test_readme_shows_the_results_that_are_kept():
    kept = ROOT / "data" / "results" / "walk.json"
    table = json.loads(kept.read_text())
    assert results.markdown(table) in (ROOT / "README.md").read_text()
    assert {"base", "sft", "grpo", "gspo", "student"} <= {row["stage"] for row in table}
    assert (ROOT / "data" / "results" / "walk.png").exists()


def test_readme_shows_the_speed_that_was_measured():
    text = (ROOT / "README.md").read_text()
    assert readme.fill(text, "speed", readme.speed_table()) == text


def test_readme_shows_what_the_compiler_said():
    text = (ROOT / "README.md").read_text()
    assert readme.fill(text, "tpu", readme.tpu_tables()) == text
    assert readme.fill(text, "pictures", readme.pictures_table()) == text


def test_notebooks_show_what_readme_shows_of_the_compiler():
    shown = (ROOT / "README.md").read_text().splitlines()
    found = 0
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(file.read_text())["cells"]:
            for output in cell.get("outputs", []):
                text = "".join(output.get("data", {}).get("text/markdown", ""))
                if text.startswith("Modelled by the compiler"):
                    found += 1
                    old = [x for x in text.splitlines() if x not in shown]
                    assert not old, f"{file.name} is of an older table: {old[0]}"
    assert found >= 5
