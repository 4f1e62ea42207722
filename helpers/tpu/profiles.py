"""Profiles: what ran when in a recorded run, read from the file that JAX wrote.

`jax.profiler.trace(folder)` writes one `.xplane.pb` a recording.
"""

import operator
import pathlib
from typing import NamedTuple

import jax


class Span(NamedTuple):
    """Something that took time, in seconds since the recording began.

    Attributes:
      name: of an operation, as in its program's text; of an annotation on the host.
      program: of an operation, with its number, such as "jit_update(80)"; or "".
    """

    name: str
    start: float
    seconds: float
    program: str = ""


class Profile(NamedTuple):
    """A recording: operations of the devices and spans of the host, by their start."""

    operations: list[Span]
    spans: list[Span]

    def span(self, name: str) -> Span:
        """The only span of this name."""
        (only,) = [span for span in self.spans if span.name == name]
        return only

    def within(self, span: Span) -> list[Span]:
        """Operations that began between the span's start and its end."""
        end = span.start + span.seconds
        return [x for x in self.operations if span.start <= x.start < end]


def read(folder) -> Profile:
    """The newest recording below a folder.

    Raises:
      FileNotFoundError: nothing was recorded there.
    """
    files = list(pathlib.Path(folder).glob("**/*.xplane.pb"))
    if not files:
        raise FileNotFoundError(
            f"No recording in {folder}: run `with jax.profiler.trace(folder):` first."
        )
    newest = max(files, key=lambda file: file.stat().st_mtime_ns)
    operations, spans = [], []
    for plane in jax.profiler.ProfileData.from_file(str(newest)).planes:
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                times = event.start_ns / 1e9, event.duration_ns / 1e9
                if "hlo_op" in stats:
                    program = f"{stats['hlo_module']}({stats['program_id']})"
                    operations.append(Span(str(stats["hlo_op"]), *times, program))
                elif not line.name.startswith("tf_"):  # threads of XLA
                    spans.append(Span(event.name, *times))
    by_start = operator.attrgetter("start")
    return Profile(sorted(operations, key=by_start), sorted(spans, key=by_start))
