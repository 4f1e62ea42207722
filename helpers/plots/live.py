"""A run while it trains: its curves, drawn anew in place, and a newest answer."""

import html
import json
import math
import pathlib
from collections.abc import Mapping

from helpers.plots import markup, plotting
from helpers.plots.line_labels import label_ends


class Live:
    """A `training.Logger`: in a notebook a picture that grows, elsewhere its answers.

    Args:
      shown: columns of the table of metrics by their name in the picture, such as
        {"training": "reward/correct", "held out": "eval/right"}; one that a row does
        not have is left out there. Drawn from 0 to 1, as shares are, or as far as
        they go beyond.
      title: what the picture is of.
      folder: of the run; what it wrote before it was interrupted is shown, too.
      every: steps between two pictures.
    """

    def __init__(self, shown: Mapping[str, str], *, title: str, folder, every: int = 1):
        self.shown, self.title, self.every = dict(shown), title, every
        self.lines = pathlib.Path(folder) / "metrics.jsonl"
        self.rows: list[dict] = []
        self.place = None

    def start(self, step: int) -> None:
        """Takes over the rows that an interrupted run left."""
        text = self.lines.read_text("utf-8") if self.lines.exists() else ""
        self.rows = [json.loads(line) for line in text.splitlines()]
        self.rows = [row for row in self.rows if row["step"] <= step]
        self.place = None

    def write(self, row: dict, samples: list[dict]) -> None:
        """Draws the curves up to this step, with one of its answers below."""
        self.rows.append(row)
        if row["step"] % self.every:
            return
        sample = samples[0] if samples else None
        if not markup.in_notebook():
            if sample:
                print(f"{sample['prompt']}\n→ {sample['completion']}", flush=True)
        elif any(name in row for row in self.rows for name in self.shown.values()):
            self._show(plotting.image(self._figure(), self._caption()) + _told(sample))

    def _figure(self):
        low, high = self._range()
        y = "share" if (low, high) == (0, 1) else "mean"
        fig, axes = plotting.figure(self.title, x="step", y=y, height=2.6)
        drawn = []
        for i, (label, name) in enumerate(self.shown.items()):
            points = [(row["step"], row[name]) for row in self.rows if name in row]
            if points:
                x, y = map(list, zip(*points, strict=True))
                kind = i % len(plotting.COLOURS)
                colour, marker = plotting.COLOURS[kind], plotting.MARKERS[kind]
                axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=2)
                drawn.append((x, y, label, colour))
        margin = 0.02 * (high - low)
        axes.set_ylim(low - margin if low < 0 else 0, high + margin)
        label_ends(axes, drawn)
        return fig

    def _range(self):
        """The lowest and the highest number that is drawn, and 0 and 1."""
        names = self.shown.values()
        drawn = [row[name] for row in self.rows for name in names if name in row]
        ends = [0, 1, *filter(math.isfinite, drawn)]
        return min(ends), max(ends)

    def _caption(self):
        last = {
            label: next(row[name] for row in reversed(self.rows) if name in row)
            for label, name in self.shown.items()
            if any(name in row for row in self.rows)
        }
        said = ", ".join(f"{label} {value:.2f}" for label, value in last.items())
        return f"{self.title}, curves up to step {self.rows[-1]['step']}: {said}."

    def _show(self, picture):
        import IPython.display

        picture = IPython.display.HTML(picture)
        if self.place is None:
            self.place = IPython.display.display(picture, display_id=True)
        else:
            self.place.update(picture)


def _told(sample):
    """One sampled answer as HTML, with its reward where it has one."""
    if sample is None:
        return ""
    reward = f" (reward {sample['reward']:.2f})" if "reward" in sample else ""
    text = f"{sample['prompt']}\n→ {sample['completion']}{reward}"
    style = "color:black;background:white;white-space:pre-wrap"
    return f"<pre style='{style}'>{html.escape(text)}</pre>"
