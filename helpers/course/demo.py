"""What the food demo costs with Gemma 4: its teacher, and the student that takes over.

Every number is the TPU compiler's (data/results/tpu_fit.csv), none was measured.
"""

import csv

from helpers.course import results
from helpers.recipes.presets import FOOD, Preset

TEACHER, STUDENT = "google/gemma-4-31B-it", "google/gemma-4-E2B-it"
TEACHES_ON = "v6e:2x4"
ONE = "v5e-1"


def costs() -> str:
    """Teacher, student before and student after, as a Markdown table.

    A model that serves answers as many rows at once as its compiled program does, each
    with a picture. Training is the preset's steps of SFT and of GRPO on one chip, and
    beside it a step of distilling from the teacher.
    """
    preset = FOOD[ONE]
    student = _serving(_row(STUDENT, "rollout", ONE), preset)
    lines = [
        "| who | to train | to serve | answers at once | of HBM | tokens a second |",
        "|---|---|---|--:|--:|--:|",
        f"| teacher, {_short(TEACHER)} | nothing | {TEACHES_ON} | "
        f"{_serving(_row(TEACHER, 'answers', TEACHES_ON), preset)} |",
        f"| student before, {_short(STUDENT)} | nothing | {ONE} | {student} |",
        f"| student after | {_training(preset)} | {ONE} | {student} |",
    ]
    return "\n".join(lines)


def _training(preset: Preset) -> str:
    rows = {name: _row(STUDENT, name, ONE) for name in ("sft", "rollout", "grpo")}
    said = "not compiled yet"
    if all(rows.values()):
        ms = {name: results.quoted_ms(row) for name, row in rows.items() if row}
        grpo = preset.rl.steps * (ms["rollout"] + ms["grpo"])
        said = (
            f"{ONE}: SFT {preset.sft.steps * ms['sft'] / 6e4:.0f} min, "
            f"GRPO {grpo / 6e4:.0f} min"
        )
    far = _row(STUDENT, "distillation", TEACHES_ON)
    if far:
        said += (
            f"; or {TEACHES_ON}: {results.quoted_ms(far):,.0f} ms a step of "
            f"distillation, {float(far['hbm_percent']):.0f}% of HBM"
        )
    return said


def _serving(row: dict | None, preset: Preset) -> str:
    if not row:
        return "not compiled yet | |"
    answers = int(row["prompts"]) * int(row["group"])
    tokens = answers * preset.completion_tokens
    percent = float(row["hbm_percent"])
    speed = 1e3 * tokens / results.quoted_ms(row)
    return f"{answers} | {percent:.0f}% | {speed:,.0f}"


def _row(model: str, program: str, topology: str) -> dict | None:
    """The compiler's row of a program that fits, with pictures; None without one."""
    with open(results.TPU_FIT, newline="") as file:
        for row in csv.DictReader(file):
            names = row["model"], row["program"], row["topology"], row["pictures"]
            if names == (model, program, topology, "1") and not row["verdict"]:
                return row
    return None


def _short(model: str) -> str:
    return model.rpartition("/")[2]
