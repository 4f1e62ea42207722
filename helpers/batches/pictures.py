"""Batches of pictures, decoded or drawn when their turn comes, resumable exactly.

The rows stay as small as they are (a stored photo, a number to draw from); the step
that makes an image of one is a map of Grain, called for the rows of a batch only.
"""

import grain
import numpy as np

from helpers.batches.sources import Source
from helpers.runtime import processes
from helpers.runtime.run_identity import describe_pictures, describe_rows


def pictures(rows, step, *, batch, seed, epochs=None, shard=None):
    """Make a batch source of images with their rows.

    Args:
      rows: list of dicts.
      step: function row -> row with an "image", uint8 (H, W, 3), the same for the same
        row; `functools.partial(food101.with_image, size=48)` is one.
      batch: B, rows per batch and process.
      seed: int, at least 0, decides the order of every epoch.
      epochs: how often to go through the rows; None for ever. The last batch of a
        finite run may be smaller.
      shard: (index, count): this process reads the index-th of every count rows;
        None: as many shares as there are processes.
    Returns:
      A batch source (see `helpers.batches.prompt_batches`) of {"image": uint8 (B, H, W,
      3), "rows": list of B dicts}. metrics: `epoch` (a fraction).
    Raises:
      ValueError: no rows, or images of different sizes.
    """
    run = {"batch": batch, "seed": seed, "shard": list(shard or processes.share())}
    return _Pictures(rows, step, run, epochs)


class _Pictures(Source):
    def __init__(self, rows, step, run, epochs):
        super().__init__(len(rows), run, epochs)
        self._raw, self._step = rows, step
        self._rows = grain.MapDataset.source(rows).map(step)

    def describe_data(self):
        made = describe_pictures(self._step, self._raw)
        return {**describe_rows(self._raw), "pictures": made}

    def __next__(self):
        drawn = self._draw(self._run["batch"])
        if not drawn:
            raise StopIteration
        rows = [self._rows[i] for i in drawn]
        sizes = {row["image"].shape for row in rows}
        if len(sizes) > 1:
            raise ValueError(
                f"The images of a batch have sizes {sorted(sizes)}: make the map step "
                "resize them to one."
            )
        self.metrics = {"epoch": self._epoch()}
        return {"image": np.stack([row["image"] for row in rows]), "rows": rows}
