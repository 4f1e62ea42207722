"""Where the target programs' modelled time goes, for docs/compiler.md."""

import collections

from readme_compiler import _rows

from helpers.course import results
from scripts import tables

PEERS = results.TPU_FIT.with_name("tpu_peers.csv")

GEMMA = "google/gemma-3-4b-it"
E2B = "google/gemma-4-E2B-it"
PHOTOS = {"pictures": "1", "trained": "LoRA 32"}
TARGETS = (  # what a program is called, which row it is, and the share aimed at if any
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
    (
        "Gemma 4 E2B with photos, SFT",
        {"model": E2B, "topology": "v5e-1", "program": "sft", **PHOTOS},
        None,
    ),
    (
        "the same, GRPO",
        {"model": E2B, "topology": "v5e-1", "program": "grpo", **PHOTOS},
        None,
    ),
    (
        "the same, GRPO, eight chips",
        {"model": E2B, "topology": "v5e-8", "program": "grpo", **PHOTOS},
        None,
    ),
    (
        "Gemma 4 E4B with photos, GRPO, int8",
        {"model": "google/gemma-4-E4B-it", "topology": "v5e-1", "program": "grpo"}
        | {"pictures": "1"},
        None,
    ),
)
GROUPS = {  # the functions of the course that make each part
    "weights": (
        *("layer.Layer.project", "layer.Layer.feed_forward", "layer._beside"),
        *("adapted.", "unrolled._", "ops._product"),
        *("gemma4.Gemma4Layer.", "per_layer.PerLayer.__call__"),
    ),
    "attention": (
        *("attention.", "attention_blocks.", "long_attention."),
        *("layer.Layer.", "rope."),
    ),
    "tower": ("vision.", "gemma4_vision."),
    "vocabulary": ("head.", "scoring.", "distillation.", "choosing."),
    "norms": ("ops.rms_norm",),
    "slices and copies": (
        *("transformer.", "elsewhere", "gemma4._Walk.", "gemma4._joined"),
        "per_layer.PerLayer.rows",
    ),
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
        aim = f"{aim}%" if aim else "–"
        row = next(iter(_rows(**wanted)), None)
        if row is None or not row.get("places"):
            lines.append(
                f"| {name} | {aim} | not compiled anew |{' |' * (3 + len(parts_of))}"
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
            *(name, aim, f"{float(row['modelled_peak_percent']):.0f}%"),
            *(f"{part_by_part(row):.0f}%", f"{float(row['serial_peak_percent']):.0f}%"),
            f"{made:.2f} times",
            *(f"{results.quoted_ms(row):,.0f} ms", *times),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _attention_of_grpo()])


def _attention_of_grpo() -> str:
    """What GRPO's attention takes above its bound, in a paragraph."""
    (row,) = _rows(preset="v5e-1", program="grpo")
    priced, bound = grouped(row["places"])["attention"]
    found = [place.rsplit(" ", 2) for place in row["places"].split("; ")]
    scores = [x for name, *x in found if name == "attention_blocks.attend_causally"]
    ((scored, least),) = (map(float, x) for x in scores)
    quoted = results.quoted_ms(row)
    share = float(row["modelled_peak_percent"])
    then = share * quoted / (quoted - priced + bound)
    return (
        f"GRPO misses its aim by attention, {priced:,.0f} ms against {bound:,.0f}: at "
        f"that bound it would reach {then:.0f}%. Of it {scored:,.0f} ms (at least "
        f"{least:,.0f}) are scores, softmax and the sums of values: heads of 64 fill "
        "half of the units, exponentials are passes of their own, and an answer that "
        "looks at the question of its group does not go through the kernel of *Long "
        f"texts* below. The other {priced - scored:,.0f} ms ({bound - least:,.0f}) "
        "turn, scale and lay out queries, keys and values and join those of question "
        "and answer, mostly passes over numbers without a product."
    )


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
