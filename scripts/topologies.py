"""Asks the TPU compiler where the chips of its slices are (needs libtpu, no TPU).

    python -m scripts.topologies

Writes `data/results/topologies.csv`: one row a chip, with its place and its host. The
topology explorer of notebook 01 computes the same, and a test holds it to this table.
"""

import csv
import sys
from importlib import util

from helpers.tpu import compiler
from scripts.tpu_check import ROOT, versions, with_compiler

TABLE = ROOT / "data" / "results" / "topologies.csv"
SLICES = (
    *("v5e:1x1", "v5e:2x2", "v5e:2x4", "v5e:4x4", "v5e:4x8", "v5e:8x8", "v5e:16x16"),
    *("v6e:4x8", "v4:2x2x4", "tpu7x:2x4x4"),
    *("v5p:2x2x1", "v5p:2x2x2", "v5p:2x4x4", "v5p:4x4x4", "v5p:4x4x8"),
)


def rows(name: str) -> list[tuple]:
    """(slice, chip, x, y, z, host) of every chip, once if it is two devices."""
    found = dict.fromkeys(
        (*device.coords, device.process_index) for device in compiler.devices(name)
    )
    return [(name, chip, *place) for chip, place in enumerate(found)]


def main() -> None:
    """Writes the table."""
    with open(TABLE, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("slice", "chip", "x", "y", "z", "host", "versions"))
        for name in SLICES:
            writer.writerows((*row, versions()) for row in rows(name))


if __name__ == "__main__":
    sys.exit(main() if util.find_spec("libtpu") else with_compiler(__spec__.name))
