"""Write README's tables from what was measured: `make notebooks` ends with this.

The table of notebooks comes from helpers/course/syllabus.py, that of speed from
data/results/bench_cpu.csv, those of TPUs from data/results/tpu_fit.csv. The results
table and the picture of the walk come from build/committed/results.json, and are kept
in data/results/.
"""

import csv
import json
import re

import publish
from publish import ROOT

from helpers.course import results, walk_figure
from helpers.course.syllabus import LESSONS
from helpers.plots import plotting
from helpers.tpu import ahead_of_time

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


def speed_table() -> str:
    """Ratios of data/results/bench_cpu.csv, at widths 128 and 256; above 1 is ours."""
    with open(KEPT / "bench_cpu.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "| against | prompt + answer | GRPO step | rollout | SFT step | peak memory |",
        "|---|---|--:|--:|--:|--:|",
    ]
    columns = ("grpo_step_ratio", "rollout_ratio", "sft_ratio", "peak_ratio")
    for peer, name in (("tunix", "google-tunix"), ("trl", "TRL")):
        for lengths in ("64+64", "256+64"):
            cells = [
                " / ".join(
                    f"{float(row[column]):.1f}×"
                    for row in rows
                    if (row["peer"], row["lengths"]) == (peer, lengths)
                )
                for column in columns
            ]
            lines.append(f"| {name} | {lengths} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", first_steps(rows)])


def first_steps(rows: list[dict]) -> str:
    """Seconds to the end of the first step, least to most over all cases."""

    def spans(whose, peers):
        for kind in ("cold", "warm"):
            name = f"{whose}_first_step_{kind}_s"
            seconds = [float(row[name]) for row in rows if row["peer"] in peers]
            yield f"{min(seconds):.0f} to {max(seconds):.0f}"

    both = ("tunix", "trl")
    asked = {"here": ("ours", both), "google-tunix": ("peer", both[:1])}
    asked |= {"TRL": ("peer", both[1:])}
    said = [f"{who} {' and '.join(spans(*of))} s" for who, of in asked.items()]
    return (
        "A first step also compiles, but for TRL's. With nothing kept of earlier runs, "
        f"and with all that they compiled, it is done after: {'; '.join(said)}."
    )


def tpu_tables() -> str:
    """What the presets' programs ask of the two free machines."""
    return "\n\n".join(results.compiled(name) for name in ahead_of_time.SLICES)


def pictures_table() -> str:
    """What Gemma 3 4B with pictures asks for, and what sharing a picture saves."""
    tables = [
        results.compiled(machine, pictures=1, prompts=prompts)
        for machine, prompts in (("v5e-8", 16), ("v5e-1", 2))
    ]
    with open(results.TPU_FIT, newline="") as file:
        updates = {
            row["group"]: f"{float(row['tflop']):,.0f} TFLOP and "
            f"{float(row['modelled_ms']):,.0f} ms"
            for row in csv.DictReader(file)
            if (row["program"], row["pictures"], row["topology"])
            == ("grpo", "1", "v5e-8")
        }
    said = (
        "The answers of a group share their picture: the update of 16 questions with 8 "
        f"answers each takes {updates['8']}; with picture and prompt for every answer "
        f"it would take {updates['1']}."
    )
    return "\n\n".join([*tables, said])


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
    """Keep the rows and the picture of the walk, and rewrite README's tables."""
    readme = ROOT / "README.md"
    text = fill(readme.read_text(), "notebooks", notebooks_table())
    text = fill(text, "speed", speed_table())
    text = fill(text, "tpu", tpu_tables())
    text = fill(text, "pictures", pictures_table())
    table = results.rows()
    if table:
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / "walk.json").write_text(json.dumps(table, indent=1) + "\n")
        (KEPT / "walk.png").write_bytes(plotting.png(walk_figure.walk(table)))
        text = fill(text, "results", results.markdown(table))
    readme.write_text(text)


if __name__ == "__main__":
    main()
