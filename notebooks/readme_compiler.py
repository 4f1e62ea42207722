"""What the TPU's compiler says, for docs/compiler.md, and its headline for README."""

import csv

from helpers.course import results
from helpers.tpu import ahead_of_time

MACHINES = {"v5e-1": "one chip (Colab)", "v5e-8": "eight chips (Kaggle)"}


def tpu_tables() -> str:
    """What the presets' programs ask of the two free machines."""
    return "\n\n".join(results.compiled(name) for name in ahead_of_time.SLICES)


def pictures_tables() -> str:
    """What Gemma 3 4B with pictures asks for, and what sharing a picture saves."""
    tables = [
        results.compiled(machine, pictures=1, prompts=prompts)
        for machine, prompts in (("v5e-8", 16), ("v5e-1", 8))
    ]
    updates = {
        row["group"]: f"{float(row['tflop']):,.0f} TFLOP and "
        f"{results.quoted_ms(row):,.0f} ms"
        for row in _rows(program="grpo", pictures="1", topology="v5e-8")
    }
    said = (
        "The answers of a group share their picture: the update of 16 questions with 8 "
        f"answers each takes {updates['8']}; with picture and prompt for every answer "
        f"it would take {updates['1']}."
    )
    four_bits = results.compiled(
        "v5e-1", pictures=1, prompts=8, trained="LoRA 32 on NF4"
    )
    beside = (
        "The update on one chip once more, beside a base stored in four bits (NF4):"
    )
    return "\n\n".join([*tables, said, beside, four_bits])


def headline() -> str:
    """Memory and both times of a GRPO step on the two free machines, in a sentence."""
    parts = []
    for preset, machine in MACHINES.items():
        both = [_rows(preset=preset, program=name)[0] for name in ("rollout", "grpo")]
        memory = max(float(row["hbm_percent"]) for row in both)
        modelled, least = (
            sum(float(row[name]) for row in both) / 1e3
            for name in ("modelled_ms", "roofline_ms")
        )
        answers = int(both[0]["prompts"]) * int(both[0]["group"])
        parts.append(
            f"on {machine} with {answers} answers {memory:.0f}% of the memory and "
            f"{modelled:.1f} s by the compiler's sum, {least:.1f} s by the roofline"
        )
    return f"A GRPO step of Qwen2.5-0.5B takes {', '.join(parts)}."


def _rows(**wanted):
    """Rows of tpu_fit.csv that have these values, of the newest compiler."""
    with open(results.TPU_FIT, newline="") as file:
        rows = list(csv.DictReader(file))
    newest = rows[0]["versions"]
    return [
        row
        for row in rows
        if row["versions"] == newest
        and all(row[name] == value for name, value in wanted.items())
    ]
