"""Files of one table that say in their names how many they are."""

import re


def complete(paths: list) -> list:
    """The paths, if none is missing and all are of one set.

    Args:
      paths: such as `train-00000-of-00003.parquet`; names without a number are let be.
    Raises:
      FileNotFoundError: some are missing, or of another set; names them.
    """
    parts = [re.search(r"-(\d+)-of-(\d+)\.", path.name) for path in paths]
    if not any(parts):
        return paths
    counts = {int(part[2]) for part in parts if part}
    there = sorted(int(part[1]) for part in parts if part)
    (count, *others), folder = sorted(counts), paths[0].parent
    if others or None in parts:
        names = ", ".join(path.name for path in paths)
        raise FileNotFoundError(
            f"{folder} holds files of more than one set: {names}. Their rows would "
            "come twice: leave one set there."
        )
    if there != list(range(count)):
        missing = sorted({*range(count)} - {*there}) or "none, and others are too many"
        raise FileNotFoundError(
            f"{folder} holds {len(there)} of the {count} files of its set; missing: "
            f"{missing}. Fetch them, too: a part of a table is not its sample."
        )
    return paths
