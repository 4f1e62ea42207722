"""What was measured of real workers, in the committed table, against the simulation."""

import csv
import os
from pathlib import Path

import pytest

if not os.environ.get("COURSE_CI"):  # there it must be installed
    pytest.importorskip("simpy", reason="simpy is not installed: pip install simpy")

from helpers.scale.simulation import Times, simulate

TABLE = Path(__file__).parents[2] / "data" / "results" / "async_measured.csv"


def rows():
    with open(TABLE, newline="") as file:
        return [{k: float(x) for k, x in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['workers']:.0f} workers")
def test_the_simulation_of_today_is_within_15_percent_of_what_was_measured(row):
    """The table says how long things take with one worker, and what really happened."""
    times = Times(row["sample"], row["update"], spread=row["spread"])
    settings = {"pieces": int(row["pieces"]), "limit": int(row["limit"])}
    prediction = simulate(times, int(row["workers"]), updates=1000, **settings)
    assert prediction.updates == pytest.approx(row["measured"], rel=0.15)
    assert prediction.updates == pytest.approx(row["predicted"], rel=0.01)
