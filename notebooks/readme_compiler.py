"""What the TPU's compiler says, for docs/compiler.md, and its headline for README."""

import csv
import gzip

from helpers.course import results
from helpers.tpu import GENERATIONS, ahead_of_time, kept_programs, where_time_goes
from scripts import tables, tpu_cases, tpu_check, tpu_published

MACHINES = {"v5e-1": "one chip (Colab)", "v5e-8": "eight chips (Kaggle)"}


def tpu_tables() -> str:
    """What the presets' programs ask of the two free machines."""
    return "\n\n".join(results.compiled(name) for name in ahead_of_time.SLICES)


def pictures_tables() -> str:
    """What Gemma 3 4B with pictures asks for, and what sharing a picture saves."""
    model = "google/gemma-3-4b-it"
    tables = [
        results.compiled(machine, model=model, pictures=1, prompts=prompts)
        for machine, prompts in (("v5e-8", 16), ("v5e-1", 8))
    ]
    updates = {
        row["group"]: f"{float(row['tflop']):,.0f} TFLOP and "
        f"{results.quoted_ms(row):,.0f} ms"
        for row in _rows(model=model, program="grpo", pictures="1", topology="v5e-8")
    }
    said = (
        "The answers of a group share their picture: the update of 16 questions with 8 "
        f"answers each takes {updates['8']}; with picture and prompt for every answer "
        f"it would take {updates['1']}."
    )
    four_bits = results.compiled(
        "v5e-1", model=model, pictures=1, prompts=8, trained="LoRA 32 on NF4"
    )
    beside = (
        "The update on one chip once more, beside a base stored in four bits (NF4):"
    )
    return "\n\n".join([*tables, said, beside, four_bits])


def published_table() -> str:
    """Steps that others measured on real chips, and the compiler's of our program."""
    lines = [
        "| model | slice | batch | measured | the same, causal | a step "
        "| compiler's sum | of it products | kernels | roofline | links "
        "| without a price | by the longer |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in tables.read(tpu_published.TABLE):
        batch = f"{row['rows']} × {int(row['length']):,} a chip"
        cells = [
            f"[{row['model']}]({row['source']})",
            row["topology"],
            batch,
            f"{float(row['published_percent']):.0f}%",
            f"{float(row['published_percent_causal']):.0f}%",
            f"{float(row['published_ms']) / 1e3:.1f} s",
        ]
        if row["verdict"]:
            cells += ["does not fit", *[""] * 6]
        elif not row["modelled_ms"]:
            cells += ["not compiled yet", *[""] * 6]
        else:
            seconds = "modelled product kernels roofline links".split()
            seconds = [f"{name}_ms" for name in seconds]
            cells += [f"{float(row[name]) / 1e3:.1f} s" for name in seconds]
            cells.append(f"{int(row['unpriced_calls']):,}")
            cells.append(f"{float(row['modelled_percent']):.0f}%")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n" + _beside_measured()


def _beside_measured():
    """How the compiler's time of our programs compares with the steps of others."""
    told = [
        f"{ratio:.2f} ({row['model']}, {row['topology']})"
        for row, ratio in _of_measured()
    ]
    serial = [
        f"{ratio + float(row['links_ms']) / float(row['published_ms']):.2f}"
        for row, ratio in _of_measured()
    ]
    return (
        "The longer of the two (sum with kernels, roofline) over the measured step: "
        f"{', '.join(told)}. Messages are not in it, and attention is at the chip's "
        f"peak; with all links busy and nothing hidden: {', '.join(serial)}."
    )


def _of_measured():
    """(row, time by the compiler over the measured one) of each program that fits."""
    rows = [row for row in tables.read(tpu_published.TABLE) if row["modelled_ms"]]
    return [(row, results.quoted_ms(row) / float(row["published_ms"])) for row in rows]


def long_texts() -> str:
    """SFT on rows that go through the kernel, as a Markdown table."""
    lines = [
        "| model | machine | rows | of HBM | compiler's sum | kernels at least "
        "| roofline | of peak | compiled in |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for case in tpu_cases.long_texts():
        named = {name: str(x) for name, x in tpu_check.named(case).items()}
        for row in _rows(**named):
            cells = (
                row["model"].rpartition("/")[2],
                row["topology"],
                f"{case.prompts} × {case.tokens // case.prompts:,}",
                f"{float(row['hbm_percent']):.0f}%",
                *(
                    f"{float(row[name]):,.0f} ms"
                    for name in ("modelled_ms", "kernels_ms", "roofline_ms")
                ),
                f"{float(row['modelled_peak_percent']):.0f}%",
                f"{row['compile_s']} CPU-s",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def witnesses() -> str:
    """Where the compiler's sum and the roofline part, in notebook 01's two programs."""
    chip, priced, wholes = GENERATIONS["v5e"], [], []
    for again in (False, True):
        text = gzip.decompress(kept_programs.file(again).read_bytes()).decode()
        found = where_time_goes.instructions(text)
        wholes += where_time_goes.shares(found, chip, lambda one: "all")
        rows = where_time_goes.shares(found, chip, lambda one: (one.phase, one.kind))
        (row,) = (row for row in rows if row.label == ("forward", "product"))
        priced.append(row.modelled_ms * chip.tflops / row.tflop / 1e3)
    kept, twice = wholes
    more = {
        name: f"{getattr(twice, name) / getattr(kept, name) - 1:+.0%}"
        for name in ("tflop", "modelled_ms", "bound_ms")
    }
    return (
        "- Large products are priced near the peak, and wait for what they write: the "
        f"forward products of notebook 01's program take {priced[1]:.2f} times what "
        "their FLOPs take at the peak where little is kept for the backward pass, and "
        f"{priced[0]:.2f} times where all of it is written out.\n"
        "- So the sum can shrink where the roofline grows. With each layer computed "
        f"again that program's FLOPs change by {more['tflop']}, the compiler's sum by "
        f"{more['modelled_ms']}, its roofline by {more['bound_ms']}."
    )


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
    ratios = [ratio for _, ratio in _of_measured()]
    return (
        f"A GRPO step of Qwen2.5-0.5B takes {', '.join(parts)}. Of {len(ratios)} steps "
        "that MaxText's authors measured on real slices, the same sizes compiled from "
        f"this course take {min(ratios):.2f} to {max(ratios):.2f} times as long by the "
        "longer of the two, messages between chips left out."
    )


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
