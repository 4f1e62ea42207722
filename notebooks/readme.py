"""Write what README and docs/compiler.md quote: `make notebooks` ends with this.

    python notebooks/readme.py

Nothing measured is written there by hand. The notebooks come from
helpers/course/syllabus.py; the picture of the walk and the seeds' ranges from
data/results/learning.csv (`make seeds`); the run of the committed notebooks from
build/committed/results.json, kept as data/results/walk.json; speed from bench_cpu.csv,
a real model beside TRL from real_peers.csv, TPUs from tpu_fit.csv.
"""

import csv
import json
import re

import human_minutes
import publish
import readme_compiler
import readme_decoding
import readme_gemma4
import readme_learning
import readme_left
import readme_peers
import readme_real
from publish import ROOT

from helpers.course import results
from helpers.course.syllabus import LESSONS, STAGES

KEPT = ROOT / "data" / "results"
README, COMPILER = ROOT / "README.md", ROOT / "docs" / "compiler.md"


def notebooks_table() -> str:
    """One row per notebook: number, title, a reader's and a laptop's minutes, links."""
    lines = ["| # | notebook | you | laptop | open in |", "|---|---|--:|--:|---|"]
    for number, lesson in LESSONS.items():
        link = f"[{lesson.title}](notebooks/{lesson.file}.ipynb)"
        minutes = f"{lesson.minutes['laptop']} min"
        opens = f"[![Colab][badge]][colab-{number}] [Kaggle][kaggle-{number}]"
        yours = sum(human_minutes.human_minutes(human_minutes.read(number)))
        lines.append(f"| {number} | {link} | {yours} min | {minutes} | {opens} |")
    left = [number for number, lesson in LESSONS.items() if not lesson.walk]
    return "\n".join(
        [
            *lines,
            "",
            f"`make course` runs all but {', '.join(left[:-1])} and {left[-1]}, whose "
            "results no other notebook uses.",
        ]
    )


def links() -> str:
    """The addresses that the table of notebooks refers to."""
    lines = [f"[badge]: {publish.COLAB_BADGE}"]
    for number in LESSONS:
        colab, kaggle = publish.addresses(number)
        lines += [f"[colab-{number}]: {colab}", f"[kaggle-{number}]: {kaggle}"]
    return "\n".join(lines)


def bench() -> list[dict]:
    """Rows of data/results/bench_cpu.csv."""
    with open(KEPT / "bench_cpu.csv", newline="") as file:
        return list(csv.DictReader(file))


PEERS = {"tunix": "google-tunix", "trl": "TRL"}


def speed() -> str:
    """How many times less time a GRPO step takes than the peers', in one sentence."""
    parts = []
    for peer, name in PEERS.items():
        ratios = [float(r["grpo_step_ratio"]) for r in bench() if r["peer"] == peer]
        parts.append(
            f"{min(ratios):.1f} to {max(ratios):.1f} times as fast as {name}'s"
        )
    return f"A GRPO step is {' and '.join(parts)}."


def speed_tables() -> str:
    """Ratios at widths 128 and 256, above 1 is ours; and seconds of first steps."""
    lines = [
        "| against | prompt + answer | GRPO step | rollout | SFT step | peak memory |",
        "|---|---|--:|--:|--:|--:|",
    ]
    columns = ("grpo_step_ratio", "rollout_ratio", "sft_ratio", "peak_ratio")
    for peer, name in PEERS.items():
        for lengths in ("64+64", "256+64"):
            cells = [
                " / ".join(
                    f"{float(row[column]):.1f}×"
                    for row in bench()
                    if (row["peer"], row["lengths"]) == (peer, lengths)
                )
                for column in columns
            ]
            lines.append(f"| {name} | {lengths} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", first_steps()])


def first_steps() -> str:
    """Seconds to the end of the first step, least to most over all cases."""
    asked = {"here": ("ours", tuple(PEERS))}
    asked |= {name: ("peer", (peer,)) for peer, name in PEERS.items()}
    lines = ["| first step done after | first time | again |", "|---|--:|--:|"]
    for name, (whose, peers) in asked.items():
        cells = []
        for kind in ("cold", "warm"):
            column = f"{whose}_first_step_{kind}_s"
            seconds = [float(row[column]) for row in bench() if row["peer"] in peers]
            cells.append(f"{min(seconds):.0f} to {max(seconds):.0f} s")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    said = (
        "The first step takes longer than the others: JAX compiles it, and keeps what "
        "it compiled for the next time. TRL runs on PyTorch, which compiles nothing "
        "here."
    )
    return "\n".join([*lines, "", said])


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between the marks `<!-- name -->` and `<!-- /name -->`.

    Raises:
      ValueError: the marks are not there.
    """
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"There are no marks <!-- {name} --> … <!-- /{name} -->.")
    return re.sub(pattern, lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.DOTALL)


def kept_run() -> list[dict]:
    """The rows of the run of the committed notebooks."""
    return json.loads((KEPT / "walk.json").read_text())


def renewed(kept: list[dict], run: list[dict]) -> list[dict]:
    """The kept rows with those of a run in the place of the same stages'.

    A run of some notebooks (`publish.py 07`) has only their stages; the others' rows
    stay, as their committed notebooks do.
    """
    rows = {row["stage"]: row for row in [*kept, *run]}
    order = [*STAGES, *(stage for stage in rows if stage not in STAGES)]
    return [rows[stage] for stage in order if stage in rows]


def readme(text: str) -> str:
    """README with everything that is generated as the data have it now."""
    found = readme_learning.measured()
    for name, content in {
        "walk": readme_learning.image(found),
        "notebooks": notebooks_table(),
        "learning": readme_learning.table(found),
        "results": results.markdown(kept_run()),
        "real": readme_real.image(real := readme_real.measured()),
        "real-table": readme_real.table(real),
        "real-lifts": readme_real.lifts(),
        "real-changes": readme_real.changes(),
        "speed": speed(),
        "speed-tables": speed_tables(),
        "real-peers": readme_peers.section(),
        "tpu": readme_compiler.headline(),
        "links": links(),
    }.items():
        text = fill(text, name, content)
    return text


def compiler(text: str) -> str:
    """docs/compiler.md with its tables as the data have them now."""
    text = fill(text, "tpu", readme_compiler.tpu_tables())
    text = fill(text, "gemma4", readme_gemma4.section())
    text = fill(text, "left", readme_left.left_table())
    text = fill(text, "decoding", readme_decoding.decoding_table())
    text = fill(text, "meshes", readme_left.meshes_table())
    text = fill(text, "peers", readme_left.peers_table())
    text = fill(text, "long", readme_compiler.long_texts())
    text = fill(text, "witnesses", readme_compiler.witnesses())
    text = fill(text, "published", readme_compiler.published_table())
    return fill(text, "pictures", readme_compiler.pictures_tables())


def main() -> None:
    """Keep the rows of the run, draw the walk, and rewrite what is generated."""
    run = results.rows()
    if run:
        rows = renewed(kept_run(), run)
        (KEPT / "walk.json").write_text(json.dumps(rows, indent=1) + "\n")
    (KEPT / "walk.png").write_bytes(readme_learning.png(readme_learning.measured()))
    (KEPT / "real.png").write_bytes(readme_real.png(readme_real.measured()))
    readme_peers.draw()
    README.write_text(readme(README.read_text()))
    COMPILER.write_text(compiler(COMPILER.read_text()))


if __name__ == "__main__":
    main()
