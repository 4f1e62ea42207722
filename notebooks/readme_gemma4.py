"""What the TPU's compiler says of Gemma 4, for docs/compiler.md."""

import collections

from readme_compiler import _rows

from helpers.course import results
from helpers.model import KNOWN
from helpers.tpu import ahead_of_time
from scripts import tpu_cases, tpu_check

MACHINES = {
    "31B": ("v6e:2x4", "v5e-8"),
    "E2B": ("v5e-1", "v5e-8", "v6e:2x4", "v5p:4x4x1"),
    "E4B": ("v5e-1", "v5e-8"),
}
PROGRAMS = "sft rollout grpo distillation evaluation answers".split()
MOST = 360  # CPU-seconds to compile, three minutes of two cores
SPARED = (  # E2B's programs on one chip, whether with photos, their name, ms before
    ("grpo", 1, "GRPO with photos", 2243.9),
    ("grpo", 0, "GRPO without", 2059.9),
    ("rollout", 1, "the rollout with photos", 2304.8),
    ("answers", 1, "answers about photos", 5508.3),
    ("evaluation", 0, "evaluation", 3190.1),
)


def programs_tables() -> str:
    """What its programs ask of each chip, on every machine."""
    return "\n\n".join(
        results.compiled(machine, model=f"google/gemma-4-{size}-it")
        for size, machines in MACHINES.items()
        for machine in machines
    )


def spared() -> str:
    """What prompts would cost after the last layer that makes keys, in a paragraph."""
    layers = []
    for model in (tpu_cases.E2B, tpu_cases.E4B):
        config = KNOWN[model]
        own = config.layers - config.gemma4.sharing
        layers.append(f"{own} of {config.layers}")
    parts = []
    for program, pictures, name, before in SPARED:
        case = _case(tpu_cases.E2B, program, pictures)
        more = case.flops(asked=case.prompt_tokens) - case.flops()
        now = results.quoted_ms(_row(case))
        parts.append(
            f"{more / 1e12:.0f} TFLOP in {name} ({before:,.0f} → {now:,.0f} ms)"
        )
    sft = _case(tpu_cases.E2B, "sft", 1)
    share = float(_row(sft)["modelled_peak_percent"])
    alone = share * sft.flops(asked=1) / sft.flops()
    return (
        f"Only the first {layers[0]} layers of E2B make keys and values ({layers[1]} "
        "of E4B). Behind the last of these nothing reads a prompt's tokens but the "
        "last one, which goes on alone (`scoring.prefill`). On one chip of E2B that "
        f"spares {', '.join(parts)}. The rows of these, and of GRPO with its table on "
        "the host, are of today; all others of E2B and E4B but SFT's were compiled "
        "before, and take longer by such work. SFT's rows are counted whole, as its "
        "program computes them: with what answers need alone, "
        f"{share:.0f}% of E2B on one chip would be {alone:.0f}. Models whose every "
        "layer makes keys lose a prompt's part of the last one, 2% at most."
    )


def _row(case):
    """The row of a case."""
    return _rows(**{name: str(x) for name, x in tpu_check.named(case).items()})[0]


def _case(model, program, pictures):
    """The case on one chip, without a teacher beside it."""
    for case in (*tpu_cases.students(), *tpu_cases.teachers()):
        told = case.model, case.program, case.pictures, case.topology
        if told == (model, program, pictures, "v5e-1") and not case.beside_teacher:
            return case
    raise LookupError(f"There is no case of {model}, {program}, on one chip.")


def compile_table() -> str:
    """CPU-seconds that programs took to compile, least to most of each kind."""
    found: dict[tuple, list[int]] = collections.defaultdict(list)
    for row in _rows():
        if row["compile_s"]:
            key = row["model"], row["topology"], row["program"]
            found[key].append(int(row["compile_s"]))
    lines = [
        f"| model | machine | {' | '.join(PROGRAMS)} |",
        f"|---|---|{'--:|' * len(PROGRAMS)}",
    ]
    shown = [
        (f"google/gemma-4-{size}-it", machine)
        for size, machines in MACHINES.items()
        for machine in machines
    ]
    shown += [(tpu_cases.GEMMA4B, machine) for machine in ahead_of_time.SLICES]
    for model, machine in shown:
        cells = [_span(found.get((model, machine, each), [])) for each in PROGRAMS]
        name = model.rpartition("/")[2]
        lines.append(f"| {name} | {machine} | {' | '.join(cells)} |")
    others = [max(found[key]) for key in found if key[:2] not in shown]
    said = (
        "CPU-seconds that the programs took to compile, fewest to most where there are "
        "several of a kind; the longest were compiled beside other work (E2B's rollout "
        "with photos on one chip: 483, and 375 almost alone; as it was before, with "
        "prompts computed to the end, 230). Three minutes "
        f"of two cores were aimed at: in bold what took more than {MOST}. These miss "
        "it, GRPO of both default presets and distilling among them: an update of "
        "Gemma 4 holds each kind of layer twice, for questions and for answers, "
        "forward and backward. The programs of all other models took "
        f"{max(others)} at most."
    )
    return "\n".join([said, "", *lines])


def _span(seconds):
    if not seconds:
        return "–"
    low, high = f"{min(seconds):,}", f"{max(seconds):,}"
    shown = low if low == high else f"{low}–{high}"
    return f"**{shown}**" if max(seconds) > MOST else shown


def section() -> str:
    """All of it."""
    told = (
        "31B answers 64 photos at once on eight chips (of v5e in int8), E2B on one. "
        "E2B samples eight answers to each of eight prompts on one "
        "chip, to each of 16 on eight. The smallest slice on which 31B was compiled "
        "beside a student is Kaggle's v5e-8: 31B in int8, and each matrix of E2B over "
        "two chips; there is room for E4B as the student, too. On v6e:2x4 and "
        "v5p:4x4x1 31B is in bfloat16. One chip of v5e has no room for it: there E2B "
        "is distilled from E4B, both in int8 "
        "with their per-layer tables in the host's memory. (E4B has no larger teacher "
        "but 31B, so it is not distilled on one chip.) What is sampled beside a "
        "teacher leaves room for it. E4B alone is in int8 on one chip, its table on "
        "the host; on eight chips two share each of its matrices. There the per-layer "
        "table stays cut and its rows are sent: gathered whole, it brought E2B's "
        "rollout to 66% of a chip's memory, and E4B's beside 31B to 114%."
    )
    return "\n\n".join([told, spared(), compile_table(), programs_tables()])
