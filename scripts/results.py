"""Writes the tables of README.md and docs/ from the CSV files: `make results`.

    python -m scripts.results

Each table stands between two marks, `<!-- table NAME -->` and `<!-- /table -->`, and is
made by the entry of TABLES with that name. The prose around the tables is written by
hand.
"""

import pathlib
import re
import statistics
import sys

from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))

import publish  # noqa: E402

from helpers.course import results  # noqa: E402
from helpers.course.syllabus import LESSONS, STAGES  # noqa: E402
from helpers.plots import plotting  # noqa: E402

RESULTS = ROOT / "data" / "results"
PAYOFFS = {
    "00": "what each method buys, on three small models and a real one",
    "01": "what a TPU does well, and when its memory is the limit",
    "02": "write one layer of a decoder and match the library's",
    "03": "a score is an estimate, and its checker has bugs",
    "04": "imitate worked solutions; the model copies every habit in them",
    "04b": "train thin matrices beside a frozen base, stored in few bits",
    "05": "write a reward, and watch a policy exploit it",
    "06": "derive the policy gradient and the group baseline by hand",
    "07": "learn from right and wrong alone: the whole loop in view",
    "08": "change one line of the loss at a time, and measure it",
    "08b": "learn from pairs when nobody can write a better answer",
    "09": "pictures become tokens, and a tool call is text",
    "10": "RL with a tool inside the answer",
    "10b": "no solutions at all: a policy finds binary search by playing",
    "11": "hand what a model learned to one a third of its size",
    "12": "paged caches, continuous batching, speculative decoding",
    "13": "split a model over many chips without changing its results",
    "13b": "rollouts on machines that come and go",
    "13c": "record a step, and read what the compiler expects of a chip",
    "14": "an app that looks at a plate, calls a tool, and keeps a diary",
    "15": "your rows and your reward, from SFT to an exported model",
}
# Rows of the ladder that README shows: world, worked solutions, careless, method.
SHORT = (
    ("maths", 16, 0.0, "sft"),
    ("maths", 16, 0.0, "rft3"),
    ("maths", 16, 0.0, "grpo"),
    ("maths", 240, 0.36, "sft"),
    ("maths", 240, 0.36, "grpo"),
    ("maths", 240, 0.0, "sft"),
    ("maths", 700, 0.0, "sft"),
)
METHODS = {
    "sft": "SFT",
    "grpo": "SFT, then GRPO",
    "grpo_long": "SFT, then GRPO for twice as long",
    "rft1": "SFT, then rejection sampling",
    "rft3": "SFT, then three rounds of rejection sampling",
}


def markdown(header: list[str], rows: list[list]) -> str:
    """A Markdown table whose first column is text and whose others are numbers."""
    lines = [f"| {' | '.join(map(str, line))} |" for line in (header, *rows)]
    return "\n".join([lines[0], "|---" + "|--:" * (len(header) - 1) + "|", *lines[1:]])


def span(values: list[float], unit: str = "%") -> str:
    """Mean, lowest and highest, such as "86.5% (85.4 to 87.6)"."""
    scale, digits = (100, 1) if unit == "%" else (1, 0 if max(values) >= 10 else 2)
    mean, low, high = sum(values) / len(values), min(values), max(values)
    text = f"{scale * mean:,.{digits}f}{unit}"
    if len(values) == 1:
        return text
    return f"{text} ({scale * low:,.{digits}f} to {scale * high:,.{digits}f})"


def summary(table: str, by: str, columns: dict, names=None, where=None) -> str:
    """A table of means and ranges over the seeds, one row for each value of a column.

    Args:
      table: a file of data/results, without ".csv".
      by: the column whose values become rows, in the order of the file or of `names`.
      columns: {column: (its heading, its unit)}.
      names: {value: what the row is called}; None for all values as they are.
      where: {column: value} of the rows to take.
    """
    rows = [
        row
        for row in tables.read(RESULTS / f"{table}.csv")
        if (where or {}).items() <= row.items()
    ]
    names = names or {row[by]: row[by] for row in rows}
    lines = []
    for value, name in names.items():
        runs = [row for row in rows if row[by] == value]
        cells = [
            span([float(run[column]) for run in runs], unit)
            for column, (_, unit) in columns.items()
        ]
        lines.append([name, len(runs), *cells])
    return markdown(["", "runs", *[head for head, _ in columns.values()]], lines)


GREEDY = {"greedy": ("right, greedy", "%")}
SAMPLED = {"pass1": ("right, sampled", "%"), "pass8": ("any of 8 samples", "%")}
SECONDS = {"cpu_seconds": ("CPU-seconds", "")}
GAME = {"won_greedy": ("won, greedy", "%"), "won_sampled": ("won, sampled", "%")}


def learning(stages) -> str:
    """The stages of the walk over the seeds of `make seeds`."""
    names = {stage: STAGES[stage] for stage in stages}
    return summary("learning", "stage", GREEDY, names)


def notebooks() -> str:
    """One row for each notebook: title, payoff, minutes, badge."""
    lines = []
    electives = next(each for each, lesson in LESSONS.items() if not lesson.core)
    for number, lesson in LESSONS.items():
        if number == electives:
            lines.append(["**Electives**", "in any order", "", ""])
        colab, _ = publish.addresses(number)
        link = f"[{number} · {lesson.title}](notebooks/{lesson.file}.ipynb)"
        yours = sum(publish.human_minutes(publish.read(number)))
        minutes = f"{yours} + {lesson.minutes['laptop']}"
        badge = f"[![Colab]({publish.COLAB_BADGE})]({colab})"
        lines.append([link, PAYOFFS[number], minutes, badge])
    table = markdown(["notebook", "what you get", "minutes", "open"], lines)
    return table.replace("|---|--:|--:|--:|", "|---|---|--:|---|")


def real(task: str) -> str:
    """The stages of the real model on one kind of problem."""
    rows = tables.read(RESULTS / "real.csv")
    stages = dict.fromkeys(r["stage"] for r in rows if r["task"] == task)
    names = {stage: stage.replace("_", " ") for stage in stages}
    lenient = {"lenient": ("last number right", "%")}
    return summary("real", "stage", GREEDY | lenient, names, {"task": task})


def bench() -> str:
    """How many times faster and smaller this course is than the peers."""
    columns = ("grpo_step_ratio", "rollout_ratio", "sft_ratio", "peak_ratio")
    lines = [
        [
            {"tunix": "google-tunix", "trl": "TRL"}[row["peer"]],
            row["width"],
            row["lengths"],
            *(f"{float(row[column]):.1f}×" for column in columns),
        ]
        for row in tables.read(RESULTS / "bench_cpu.csv")
    ]
    head = ["against", "width", "prompt + answer"]
    return markdown([*head, "GRPO step", "rollout", "SFT step", "peak memory"], lines)


def challenges() -> str:
    """The challenges: the number to beat, and the course's own attempts."""
    rows = tables.read(RESULTS / "challenges.csv")
    lines = []
    for number in dict.fromkeys(row["notebook"] for row in rows):
        runs = [row for row in rows if row["notebook"] == number]
        reached = ", ".join(f"{float(run['reached']):.1%}" for run in runs)
        beat = f"{float(runs[0]['to_beat']):.0%}"
        lines.append([number, runs[0]["budget"], beat, reached])
    return markdown(["notebook", "budget", "beat", "the course's attempts"], lines)


def compiled() -> str:
    """Every model's GRPO update and distillation step, by the newest compiler."""
    rows = tables.read(RESULTS / "tpu_fit.csv")
    lines = []
    for row in rows:
        wanted = row["program"] in ("grpo", "distillation") and row["hbm_percent"]
        if not wanted or row["versions"] != rows[0]["versions"]:
            continue
        kernels = float(row["kernels_ms"] or 0)
        photos = " with photos" if row["pictures"] == "1" else ""
        lines.append(
            [
                f"{row['model'].split('/')[-1]}, {row['program']}{photos}",
                row["topology"],
                row["trained"],
                f"{int(row['tokens']):,}",
                f"{float(row['hbm_percent']):.0f}%",
                f"{float(row['modelled_ms']) + kernels:,.0f} ms",
                f"{float(row['roofline_ms']):,.0f} ms" if row["roofline_ms"] else "–",
            ]
        )
    head = ["program", "machine", "trained", "tokens", "memory", "sum", "roofline"]
    return markdown(head, sorted(lines))


def peers() -> str:
    """GRPO's loss and gradient of Gemma 3 270M, compiled beside google-tunix's."""
    rows = tables.read(RESULTS / "tpu_peers.csv")
    lines = []
    for answers in dict.fromkeys(row["answers"] for row in rows):
        pair = {row["library"]: row for row in rows if row["answers"] == answers}
        cells = [
            f"{float(row['modelled_ms']):,.0f} ms, {float(row['hbm_gb']):.1f} GiB"
            if row["fits"] == "True"
            else "does not fit"
            for row in (pair["ours"], pair["tunix"])
        ]
        lines.append([answers, *cells])
    return markdown(["answers", "this course", "google-tunix"], lines)


def ladder(keys=None) -> str:
    """What worked solutions buy, and what answers alone buy: mean and range.

    Args:
      keys: (world, worked solutions, careless, method) of the rows; None for all.
    """
    runs: dict[tuple, list[dict]] = {}
    fixed = [row | {"method": "steps"} for row in results.measured("ladder_steps")]
    for row in results.measured("ladder") + fixed:
        columns = ("world", "demonstrations", "careless", "method")
        runs.setdefault(tuple(row[name] for name in columns), []).append(row)
    every = [key for key in runs if key[3] in METHODS]
    every.sort(key=lambda key: (key[0] == "food", key[2], key[1]))
    lines = []
    for key in keys or every:
        world, count, careless, method = key
        cells = [
            span([run[column] for run in runs[key] if run[column] != ""], unit)
            for column, unit in (("greedy", "%"), ("cpu_seconds", ""))
        ]
        if not keys:
            steps = runs[(*key[:3], "steps")] if method == "sft" else []
            cells.append(span([run["greedy"] for run in steps]) if steps else "")
        quality = f", {careless:.0%} careless" if careless else ""
        name = f"{count:,} {'traces' if world == 'food' else 'solutions'}{quality}"
        lines.append([f"{name}: {METHODS[method]}", len(runs[key]), *cells])
    head = ["", "runs", "right, greedy", "CPU-seconds", "right after 64 steps"]
    return markdown(head[: len(lines[0])], lines)


def rules() -> str:
    """What SmolLM2-135M had learned of rules at three steps: mean and range."""
    runs: dict[tuple, list[dict]] = {}
    for row in results.measured("rules"):
        key = row["method"], row["rule"], row["step"]
        runs.setdefault(key, []).append(row)
    lines = [
        [
            f"{method}, {rule}, step {step}",
            len(rows),
            span([row["follows"] for row in rows]),
            span([row["base_nll"] for row in rows], ""),
        ]
        for (method, rule, step), rows in runs.items()
        if step in (0, 8, 24)
    ]
    return markdown(["", "runs", "follows", "nats a token, by the base"], lines)


def rule(word: str = "bread") -> str:
    """One held-out word before, after eight steps, after the hack, and with a cure.

    The answers are the first seed's, and the shares are means over the seeds.
    """
    shown = {
        ("rule", 0): "before",
        ("rule", 8): "after 8 steps of GRPO",
        ("rule", 24): "after 24 steps",
        ("rule_kl", 24): "after 24 steps, with a KL term",
    }
    follows: dict[tuple, list[float]] = {}
    for row in results.measured("rules"):
        if row["rule"] == "short":
            follows.setdefault((row["method"], row["step"]), []).append(row["follows"])
    answers = {
        (row["method"], row["step"]): row["answer"]
        for row in reversed(results.measured("rules_answers"))
        if (row["rule"], row["word"]) == ("short", word)
    }
    lines = [
        [name, answers[key], f"{statistics.fmean(follows[key]):.0%}"]
        for key, name in shown.items()
        if key in answers
    ]
    table = markdown(["", "its answer", "follow the rule"], lines)
    return table.replace("|---|--:|--:|", "|---|---|--:|")


TABLES = {
    "notebooks": notebooks,
    "results": lambda: ladder(SHORT),
    "ladder": ladder,
    "rule": rule,
    "rules": rules,
    "learning": lambda: learning(("sft", "grpo", "r1_zero", "food_sft", "food_grpo")),
    "game": lambda: summary("game_arms", "arm", GAME | SECONDS),
    "family": lambda: summary("family", "run", GREEDY | SECONDS),
    "distillation": lambda: summary("distillation", "arm", GREEDY | SAMPLED | SECONDS),
    "ranks": lambda: summary("lora_ranks", "arm", GREEDY),
    "food": lambda: summary("food_arms", "arm", {"right": ("right", "%")}),
    "challenges": challenges,
    "bench": bench,
    "real one step": lambda: real("one_step"),
    "real two steps": lambda: real("two_step"),
    "real three steps": lambda: real("three_step"),
    "real gsm8k": lambda: real("gsm8k"),
    "v5e-1": lambda: results.compiled("v5e-1"),
    "v5e-8": lambda: results.compiled("v5e-8"),
    "compiled": compiled,
    "peers": peers,
    "async": lambda: summary("async", "run", GREEDY | {"seconds": ("CPU-seconds", "")}),
}


def fill(text: str) -> str:
    """A page with all its tables as the CSV files have them now."""

    def table(match):
        return f"{match[1]}\n{TABLES[match[2]]()}\n<!-- /table -->"

    pattern = r"(<!-- table ([\w -]+) -->)\n.*?<!-- /table -->"
    return re.sub(pattern, table, text, flags=re.DOTALL)


def pages() -> list[pathlib.Path]:
    """The pages that hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main() -> None:
    """Rewrites the first figure and all tables."""
    figure = results.ladder("maths")
    (RESULTS / "ladder.png").write_bytes(plotting.png(figure))
    for page in pages():
        page.write_text(fill(page.read_text()))


if __name__ == "__main__":
    main()
