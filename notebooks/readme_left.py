"""Where the target programs' modelled time goes, for docs/compiler.md."""

import collections
import math

from readme_compiler import _rows

from helpers.course import results
from helpers.model import KNOWN, names
from helpers.recipes.presets import PRESETS
from helpers.tpu import GENERATIONS, ahead_of_time
from scripts import tables

PEERS = results.TPU_FIT.with_name("tpu_peers.csv")

GEMMA = "google/gemma-3-4b-it"
TARGETS = (  # what a program is called, which row it is, and the share it aims at
    ("SFT", {"preset": "v5e-1", "program": "sft"}, 35),
    ("GRPO", {"preset": "v5e-1", "program": "grpo"}, 35),
    ("distillation", {"preset": "v5e-1", "program": "distillation"}, 38),
    ("rollout", {"preset": "v5e-1", "program": "rollout"}, 25),
    ("Gemma 3 1B, GRPO", {"preset": "v5e-1-gemma3-1b", "program": "grpo"}, 42),
    (
        "Gemma 3 4B with photos, GRPO, eight chips",
        {"model": GEMMA, "topology": "v5e-8", "program": "grpo"}
        | {"pictures": "1", "prompts": "16"},
        45,
    ),
    (
        "the same on one chip, int8",
        {"model": GEMMA, "topology": "v5e-1", "program": "grpo"}
        | {"pictures": "1", "trained": "LoRA 32"},
        40,
    ),
    (
        "Llama-3.1-70B, GRPO, v5p:4x4x4",
        {"topology": "v5p:4x4x4", "program": "grpo"}
        | {"trained": "all, each matrix over 4 chips"},
        50,
    ),
)
GROUPS = {  # the functions of the course that make each part
    "weights": (
        *("layer.Layer.project", "layer.Layer.feed_forward", "layer._beside"),
        *("adapted.", "unrolled._", "ops._product"),
    ),
    "attention": (
        *("attention.", "attention_blocks.", "long_attention."),
        *("layer.Layer.", "rope."),
    ),
    "tower": ("vision.",),
    "vocabulary": ("head.", "scoring.", "distillation.", "choosing."),
    "norms": ("ops.rms_norm",),
    "slices and copies": ("transformer.", "elsewhere"),
}


def grouped(places: str) -> dict[str, tuple[float, float]]:
    """{part of the program: (priced, bound)} in ms, of a row's column of places.

    What belongs to no group is "rest".
    """
    sums: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for told in places.split("; "):
        name, modelled, least = told.rsplit(" ", 2)
        of = (group for group, starts in GROUPS.items() if name.startswith(starts))
        group = next(of, "rest")
        sums[group][0] += float(modelled)
        sums[group][1] += float(least)
    return {group: (priced, bound) for group, (priced, bound) in sums.items()}


def part_by_part(row) -> float:
    """The share of the peak if each place takes the longer of its price and its bytes.

    So copies and products hide nothing from each other; percent.
    """
    hidden = 0.0
    for told in row["places"].split("; "):
        priced, least = map(float, told.rsplit(" ", 2)[1:])
        hidden += max(0.0, least - priced)
    quoted = results.quoted_ms(row)
    return float(row["modelled_peak_percent"]) * quoted / (quoted + hidden)


def left_table() -> str:
    """Each target program: its share of peak, and the parts of its time."""
    parts_of = [*GROUPS, "rest"]
    lines = [
        "| program | aimed at | of peak | part by part | with links "
        "| products, of useful "
        f"| compiler's sum | {' | '.join(parts_of)} |",
        f"|---|{'--:|' * (6 + len(parts_of))}",
    ]
    for name, wanted, aim in TARGETS:
        row = next(iter(_rows(**wanted)), None)
        if row is None or not row.get("places"):
            lines.append(
                f"| {name} | {aim}% | not compiled anew |{' |' * (3 + len(parts_of))}"
            )
            continue
        parts = grouped(row["places"])
        chips = int(row["chips"])
        times = [
            f"{parts[part][0]:,.0f} ({parts[part][1]:,.0f})" if part in parts else "–"
            for part in parts_of
        ]
        made = float(row["executed_tflop"]) * chips / float(row["tflop"])
        cells = (
            *(name, f"{aim}%", f"{float(row['modelled_peak_percent']):.0f}%"),
            *(f"{part_by_part(row):.0f}%", f"{float(row['serial_peak_percent']):.0f}%"),
            f"{made:.2f} times",
            *(f"{results.quoted_ms(row):,.0f} ms", *times),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def decoding_table() -> str:
    """What a token of the presets' rollouts takes, and what bandwidth alone would.

    At least: every weight once, and keys and values of whole answers and of each
    question once, in bfloat16.
    """
    lines = [
        "| model | machine | answers a chip | a token | weights and cache alone "
        "| times that |",
        f"|---|---|{'--:|' * 4}",
    ]
    few = {"topology": "v5e-1", "prompts": "16", "trained": "LoRA 32"}
    few |= {"model": PRESETS["v5e-1"].model, "preset": ""}
    asked = [few, *({"preset": name} for name in PRESETS)]
    for row in (row for each in asked for row in _rows(program="rollout", **each)):
        name = row["topology"]
        config, sizes = KNOWN[row["model"]], PRESETS[row["preset"] or name]
        questions = int(row["prompts"]) / int(row["chips"])
        answers, length = questions * sizes.group, sizes.completion_tokens
        count = sum(math.prod(x.shape) for x in names.shapes(config).values())
        of_token = 2 * config.layers * config.kv_heads * config.head_dim
        cached = answers * length + questions * sizes.prompt_tokens
        chip = GENERATIONS[ahead_of_time.SLICES[name].partition(":")[0]]
        least = 2 * (count + cached * of_token) / chip.gbytes / 1e6
        took = results.quoted_ms(row) / length
        model = row["model"].split("/")[-1]
        cells = (model, name, f"{answers:.0f}", f"{took:.1f} ms", f"{least:.1f} ms")
        lines.append(f"| {' | '.join(cells)} | {took / least:.1f} |")
    return "\n".join(lines)


def meshes_table() -> str:
    """The update of 70B on 64 chips, by how many chips share a matrix."""
    lines = [
        "| a matrix lies over | of HBM | compiler's sum | messages | links "
        "| of peak | with links |",
        f"|---|{'--:|' * 2}---|{'--:|' * 3}",
    ]
    for row in _rows(topology="v5p:4x4x4", program="grpo"):
        over = row["trained"].removeprefix("all, each matrix over ")
        cells = (
            over if over != row["trained"] else "1 chip, when used",
            f"{float(row['hbm_percent']):.0f}%",
            f"{float(row['modelled_ms']):,.0f} ms",
            row["collectives"].replace("; ", ", "),
            f"{float(row['links_ms']):,.0f} ms",
            f"{float(row['modelled_peak_percent']):.0f}%",
            f"{float(row['serial_peak_percent']):.0f}%",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def peers_table() -> str:
    """GRPO's loss and gradient on one chip, ours and google-tunix's."""
    found: dict[str, dict] = collections.defaultdict(dict)
    for row in tables.read(PEERS):
        found[row["answers"]][row["library"]] = row
    lines = [
        "| answers | ours | google-tunix | as fast | memory, ours | google-tunix |",
        f"|--:|{'--:|' * 5}",
    ]
    for answers, both in found.items():
        if len(both) < 2:  # the run was cut
            continue
        ours, theirs = both["ours"], both["tunix"]
        cells = [answers, f"{float(ours['modelled_ms']):,.0f} ms"]
        if theirs["fits"] == "True":
            ratio = float(theirs["modelled_ms"]) / float(ours["modelled_ms"])
            cells += [f"{float(theirs['modelled_ms']):,.0f} ms", f"{ratio:.2f} times"]
            memory = f"{float(theirs['hbm_gb']):.1f} GiB"
        else:
            cells += ["does not fit", "–"]
            memory = theirs["verdict"].partition("needs ")[2].partition(" of")[0]
        cells += [f"{float(ours['hbm_gb']):.1f} GiB", memory]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
