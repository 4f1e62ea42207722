"""The notebooks of the course, core first, and the stages that they train."""

import csv
import pathlib
from typing import NamedTuple


class Lesson(NamedTuple):
    """One notebook of the course.

    Attributes:
      file: name in notebooks/ without .ipynb; it begins with the number, 07 or 08b.
      title: as in its first heading.
      road: its short name on the road that every notebook shows.
      laptop: minutes on a laptop, as measured.
      tpu: minutes planned on a TPU; 0 where no real weights are trained.
      stages: the runs it trains, as named in build/runs and build/results.json.
      walk: whether `make course` runs it; False where no stage depends on it.
      core: whether it is part of the core; the electives come after it, in any order.
    """

    file: str
    title: str
    road: str
    laptop: int
    tpu: int = 0
    stages: tuple[str, ...] = ()
    walk: bool = True
    core: bool = True

    @property
    def minutes(self) -> dict[str, int]:
        """Minutes by preset."""
        on_tpu = {"v5e-1": self.tpu, "v5e-8": self.tpu} if self.tpu else {}
        return {"laptop": self.laptop} | on_tpu


def _rows(table: str) -> list[dict[str, str]]:
    """The rows of a CSV file beside this one, as text."""
    path = pathlib.Path(__file__).with_name(f"{table}.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _lessons() -> dict[str, Lesson]:
    """The rows of syllabus.csv by their number."""
    return {
        row["file"].partition("_")[0]: Lesson(
            *(row["file"], row["title"], row["road"]),
            *(int(row["laptop"]), int(row["tpu"])),
            tuple(row["stages"].split()),
            walk=row["walk"] == "yes",
            core=row["core"] == "yes",
        )
        for row in _rows("syllabus")
    }


# Names of the stages in tables and figures, in the order of the walk.
STAGES = {row["stage"]: row["name"] for row in _rows("stages")}
# Minutes on TPUs are about twice what the compiler models for all steps, and compiling.
LESSONS = _lessons()
IN_A_HURRY = ("00", "03", "04", "07", "11")  # the short road: measure, imitate, try
