"""Write README's tables from what was measured: `make notebooks` ends with this.

The table of notebooks comes from helpers/syllabus.py. The results table and the picture
of the walk come from build/committed/results.json, and are kept in data/results/.
"""

import json
import re

import publish
from publish import ROOT

from helpers import plotting, results
from helpers.syllabus import LESSONS

KEPT = ROOT / "data" / "results"


def notebooks_table() -> str:
    """One row per notebook: number, title, minutes on a laptop, badges."""
    lines = ["| # | notebook | laptop | open in |", "|---|---|--:|---|"]
    for number, lesson in LESSONS.items():
        link = f"[{lesson.title}](notebooks/{lesson.file}.ipynb)"
        minutes = f"{lesson.minutes['laptop']} min"
        badges = publish.badges(number)
        lines.append(f"| {number} | {link} | {minutes} | {badges} |")
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between the marks `<!-- name -->` and `<!-- /name -->`.

    Raises:
      ValueError: the marks are not there.
    """
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"README.md has no marks <!-- {name} --> … <!-- /{name} -->.")
    return re.sub(pattern, lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.DOTALL)


def main() -> None:
    """Keep the rows and the picture of the walk, and rewrite README's two tables."""
    readme = ROOT / "README.md"
    text = fill(readme.read_text(), "notebooks", notebooks_table())
    table = results.rows()
    if table:
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / "walk.json").write_text(json.dumps(table, indent=1) + "\n")
        (KEPT / "walk.png").write_bytes(plotting.png(plotting.walk(table)))
        text = fill(text, "results", results.markdown(table))
    readme.write_text(text)


if __name__ == "__main__":
    main()
