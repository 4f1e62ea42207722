"""Profiles: what ran when in a recorded run, read from the file that JAX wrote.

`jax.profiler.trace(folder)` writes one `.xplane.pb` a recording. JAX itself reads the
times in it. The programs that ran are in it as well; the `xprof` package reads those.
"""

import os
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

import jax


class Operation(NamedTuple):
    """One run of one operation of a compiled program.

    Attributes:
      name: in the program's text.
      program: its name and number, such as "jit_update(80)".
      start, seconds: when it began in the recording, and how long it took.
      self_seconds: those without the operations that the same thread ran meanwhile.
    """

    name: str
    program: str
    start: float
    seconds: float
    self_seconds: float


class Span(NamedTuple):
    """Something the host did: an annotation of the course, or of JAX."""

    name: str
    start: float
    seconds: float


class Profile(NamedTuple):
    """A recording: operations of the devices and spans of the host, by their start."""

    operations: list[Operation]
    spans: list[Span]

    def span(self, name: str) -> Span:
        """The only span of this name."""
        (only,) = [span for span in self.spans if span.name == name]
        return only

    def within(self, span: Span) -> "Profile":
        """What began between the span's start and its end."""
        first, end = span.start, span.start + span.seconds
        return Profile(
            [x for x in self.operations if first <= x.start < end],
            [x for x in self.spans if first <= x.start < end],
        )


def recording(folder) -> pathlib.Path:
    """The newest `.xplane.pb` below a folder.

    Raises:
      FileNotFoundError: nothing was recorded there.
    """
    files = list(pathlib.Path(folder).glob("**/*.xplane.pb"))
    if not files:
        raise FileNotFoundError(
            f"No recording in {folder}: run `with jax.profiler.trace(folder):` first."
        )
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def read(folder) -> Profile:
    """The newest recording below a folder."""
    operations: list[Operation] = []
    spans: list[Span] = []
    for plane in jax.profiler.ProfileData.from_file(str(recording(folder))).planes:
        for line in plane.lines:
            ran = []
            for event in line.events:
                stats, start = dict(event.stats), event.start_ns / 1e9
                if "hlo_op" in stats:
                    ran.append((start, event.duration_ns / 1e9, stats))
                elif not line.name.startswith("tf_"):  # threads of XLA
                    spans.append(Span(event.name, start, event.duration_ns / 1e9))
            operations += _operations(sorted(ran, key=lambda x: (x[0], -x[1])))
    operations.sort(key=lambda operation: operation.start)
    return Profile(operations, sorted(spans, key=lambda span: span.start))


def _operations(events) -> list[Operation]:
    """Operations of one thread; events by start, the outer one of two first."""
    alone = [seconds for _, seconds, _ in events]
    outer: list[int] = []  # events that still run
    for i, (start, seconds, _) in enumerate(events):
        while outer and sum(events[outer[-1]][:2]) <= start:
            outer.pop()
        if outer:
            alone[outer[-1]] -= seconds
        outer.append(i)
    return [
        Operation(
            str(stats["hlo_op"]),
            f"{stats['hlo_module']}({stats['program_id']})",
            *(start, seconds, max(rest, 0.0)),
        )
        for (start, seconds, stats), rest in zip(events, alone, strict=True)
    ]


def longest_gap(
    operations: Iterable[tuple[float, float]], start: float, end: float
) -> tuple[float, float]:
    """(begin, seconds) of the longest time without any operation.

    Args:
      operations: (start, seconds) of each; they may overlap, on several threads.
      start, end: where to look, in seconds of the recording.
    Returns:
      (begin, 0.0) or less than that if there is no such time.
    """
    free, gaps = start, []
    for begin, seconds in sorted(operations):
        gaps.append((min(begin, end) - free, free))
        free = max(free, begin + seconds)
    gaps.append((end - free, free))
    length, begin = max(gaps)
    return begin, length


def programs(folder) -> dict[str, str]:
    """The text of each program of the newest recording, by `Operation.program`.

    Raises:
      LookupError: `xprof` is not installed.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # xprof logs each of its steps
    try:
        from xprof.convert import raw_to_tool_data as convert
    except ImportError as error:
        raise LookupError("xprof is not installed: pip install xprof") from error
    file, texts = recording(folder), {}
    convert.xspace_to_tool_names([str(file)])  # writes them beside the recording
    for path in sorted(file.parent.glob("*.hlo_proto.pb")):
        name = path.name.removesuffix(".hlo_proto.pb")
        options = {"graph_viewer_options": {"module_name": name, "type": "long_txt"}}
        text, _ = convert.xspace_to_tool_data([str(file)], "graph_viewer", options)
        texts[name] = text.decode() if isinstance(text, bytes) else text
    ran: dict[str, set[str]] = {}
    for operation in read(file.parent).operations:
        ran.setdefault(operation.program, set()).add(f"%{operation.name} = ")
    same: dict[str, str] = {}
    for program, operations in ran.items():
        # A program from JAX's cache runs under the number it had when it was compiled,
        # and stands in the recording under another. Its operations decide.
        for name in sorted(texts, key=lambda name: name != program):
            is_version = name.partition("(")[0] == program.partition("(")[0]
            if is_version and all(x in texts[name] for x in operations):
                same.setdefault(program, texts[name])
    return same
