"""A run while it trains: its curves, drawn anew in place, and its newest answer."""

import html
import json
import math
import pathlib
from collections.abc import Mapping

from helpers.plots import markup, plotting


class Live:
    """A `training.Logger`: a growing picture in a notebook, printed answers elsewhere.

    Args:
      shown: columns of the metrics table by their name in the picture, such as
        {"training": "reward/correct", "test": "eval/right"}. The y axis goes from 0 to
        1, or as far as the values go beyond.
      title: what the picture is of.
      folder: of the run; rows that it wrote before an interruption are shown, too.
      every: steps between two pictures.
    """

    def __init__(self, shown: Mapping[str, str], *, title: str, folder, every: int = 1):
        self.shown, self.title, self.every = dict(shown), title, every
        self.lines = pathlib.Path(folder) / "metrics.jsonl"
        self.rows: list[dict] = []
        self.place = None

    def start(self, step: int) -> None:
        """Takes over the rows up to `step` that an interrupted run left."""
        text = self.lines.read_text("utf-8") if self.lines.exists() else ""
        self.rows = [json.loads(line) for line in text.splitlines()]
        self.rows = [row for row in self.rows if row["step"] <= step]
        self.place = None

    def write(self, row: dict, samples: list[dict]) -> None:
        """Draws the curves up to this step, with one of its answers below."""
        self.rows.append(row)
        if row["step"] % self.every:
            return
        answer = ""
        if samples:
            sample = samples[0]
            answer = f"{sample['prompt']}\n→ {sample['completion']}"
        if not markup.in_notebook():
            if answer:
                print(answer, flush=True)
            return
        if answer:
            reward = f" (reward {sample['reward']:.2f})" if "reward" in sample else ""
            style = "color:black;background:white;white-space:pre-wrap"
            answer = f"<pre style='{style}'>{html.escape(answer + reward)}</pre>"
        if points := self._points():
            self._show(plotting.image(*self._figure(points)) + answer)

    def _points(self):
        """{name: (steps, values)} of the columns that have rows yet."""
        points = {}
        for label, column in self.shown.items():
            if rows := [row for row in self.rows if column in row]:
                points[label] = [r["step"] for r in rows], [r[column] for r in rows]
        return points

    def _figure(self, points):
        """The curves, and their alt text."""
        values = [y for _, ys in points.values() for y in ys if math.isfinite(y)]
        low, high = min([0, *values]), max([1, *values])
        y = "share" if (low, high) == (0, 1) else "mean"
        fig, axes = plotting.figure(self.title, x="step", y=y, height=2.6)
        drawn = []
        for i, label in enumerate(self.shown):
            if label in points:
                kind = i % len(plotting.COLOURS)
                colour, marker = plotting.COLOURS[kind], plotting.MARKERS[kind]
                look = {"color": colour, "marker": marker, "markersize": 4}
                axes.plot(*points[label], **look, linewidth=2)
                drawn.append((*points[label], label, colour))
        margin = 0.02 * (high - low)
        axes.set_ylim(low - margin if low < 0 else 0, high + margin)
        plotting.label_ends(axes, drawn)
        last = ", ".join(f"{label} {ys[-1]:.2f}" for label, (_, ys) in points.items())
        return fig, f"{self.title}, curves up to step {self.rows[-1]['step']}: {last}."

    def _show(self, picture):
        import IPython.display

        picture = IPython.display.HTML(picture)
        if self.place is None:
            self.place = IPython.display.display(picture, display_id=True)
        else:
            self.place.update(picture)
