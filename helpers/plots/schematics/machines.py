"""Many chips: what is cut and sent, and how they are wired."""

import re

from helpers.plots.schematics.pieces import Picture
from helpers.plots.schematics.shapes import (
    HEARD,
    JUDGED,
    OTHER,
    PLAIN,
    SAID,
    Frame,
    Style,
)
from helpers.tpu import topology

CHIPS = (SAID, OTHER, JUDGED, Style("#F7E6EF", "#A5487A"))
LAYOUTS = (  # name, how the batch is cut, how the weights, what is sent
    ("Data parallel", "rows", "whole", "gradients: one all-reduce a step"),
    ("FSDP", "rows", "rows", "weights, gathered; gradients, scattered"),
    ("Tensor parallel", "whole", "columns", "activations: all-reduces in each layer"),
)
HOW = {"rows": "cut into rows", "columns": "cut into columns", "whole": "whole"}


def parallel() -> Picture:
    """Data parallelism, FSDP and tensor parallelism on four chips."""
    told = "; ".join(
        f"“{name}”: batch {HOW[batch]}, weights {HOW[weights]}, sent are {sent}"
        for name, batch, weights, sent in LAYOUTS
    )
    legend = (
        "0, 1, 2, 3: the chip that holds a piece. “all 4”: every chip holds it. Of two "
        "matrices in a row, tensor parallelism cuts the second into rows."
    )
    picture = Picture(
        "Four chips: what is cut, what is sent",
        "Three rows, each with the “batch”, the “weights” and what is “sent”. "
        f"{told}. {legend}",
    )
    columns = ((12, 76, "batch"), (104, 116, "weights"), (236, 112, "sent"))
    for x, w, name in columns:
        picture.label(x + w / 2, picture.top, name, bold=True, anchor="middle")
    y = picture.top + 22
    for name, batch, weights, sent in LAYOUTS:
        picture.label(12, y, name, size=13, bold=True)
        y += 20
        _matrix(picture, Frame(12, y, 76, 84), batch)
        _matrix(picture, Frame(104, y, 116, 84), weights)
        picture.box(236, y, 112, "", sent, PLAIN, h=84)
        y += 84 + 14
    picture.label(12, y - 2, legend)
    return picture


def _matrix(picture, frame, cut):
    """A matrix in pieces, each with the number of its chip."""
    x, y, w, h, _ = frame
    if cut == "whole":
        picture.cell(x, y, w, h, "all 4", HEARD)
        return
    for chip, style in enumerate(CHIPS):
        if cut == "rows":
            picture.cell(x, y + chip * h / 4, w, h / 4, str(chip), style)
        else:
            picture.cell(x + chip * w / 4, y, w / 4, h, str(chip), style)


def chip_to_network(pod: str = "v5e:16x16") -> Picture:
    """From a chip to its host, its pod, and the network between pods.

    Args:
      pod: a slice as `topology.named` takes it, of a kind that lies in a plane.
    """
    part = topology.named(pod)
    levels = _levels(part)
    told = "; ".join(f"“{name}”, {text}" for name, text in levels)
    picture = Picture(
        "The farther apart two chips, the slower they talk",
        f"Four pictures, from top to bottom, each a part of the next: {told}. The pod "
        "is drawn as its hosts, the network as three boxes “pod” on one line.",
    )
    y = picture.top
    draw = (_one_chip, _host, _pod, _network)
    for (name, text), inside in zip(levels, draw, strict=True):
        bottom = inside(picture, y, part)
        words = picture.label(160, y, name, size=13, bold=True)
        words = picture.label(160, words.bottom + 2, text, 188)
        y = max(bottom, words.bottom) + 26
        if inside is not _network:
            picture.arrow((78, bottom + 3), (78, y - 4))
    return picture


def _levels(part):
    """Name and facts of chip, host, pod and network; numbers stay with their units."""
    chip, on_host = part.chip, part.chips // part.hosts
    facts = {
        f"Chip ({chip.name})": f"{chip.hbm_gb} GB of memory, read at "
        f"{chip.gbytes} GB/s; {chip.tflops} TFLOP/s",
        "Host": f"{on_host} chips in one computer; links between chips: "
        f"{chip.link_gbytes} GB/s each way",
        "Pod": f"{part.hosts} hosts (the blocks), {part.chips} chips; the same "
        "links go on from host to host",
        "Data-centre network": "joins pods, with about 25 GB/s for a whole host",
    }
    return [
        (name, re.sub(r"(\d) (?=[GT])", "\\1\u00a0", text))
        for name, text in facts.items()
    ]


def _one_chip(picture, y, part):
    return picture.cell(57, y, 42, 42, "", SAID).bottom


def _host(picture, y, part):
    across, down = part.chip.host[1], part.chip.host[0]
    host = picture.cell(
        78 - 12 * across - 4, y, 24 * across + 8, 24 * down + 8, "", PLAIN
    )
    for i in range(across * down):
        x = host.x + 6 + 24 * (i % across)
        picture.cell(x, y + 6 + 24 * (i // across), 20, 20, "", SAID)
    return host.bottom


def _pod(picture, y, part):
    """A block a host, as they lie; the rings of the longest axes are not drawn."""
    rows, columns = (
        n // h for n, h in zip(part.shape[:2], part.chip.host[:2], strict=True)
    )
    pod = picture.cell(12, y, 132, 132, "", HEARD)
    w, h = 124 / columns, 124 / rows
    for i in range(rows * columns):
        x = pod.x + 4 + w * (i % columns) + 1
        picture.cell(x, y + 4 + h * (i // columns) + 1, w - 2, h - 2, "", PLAIN)
    return pod.bottom


def _network(picture, y, part):
    for i in range(3):
        pod = picture.cell(12 + 46 * i, y, 40, 40, "pod", HEARD)
        picture.line((pod.cx, pod.bottom), (pod.cx, pod.bottom + 14))
    picture.line((32, pod.bottom + 14), (124, pod.bottom + 14))
    return pod.bottom + 14
