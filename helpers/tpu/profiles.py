"""Profiles: what ran when in a recorded run, read from the file that JAX wrote.

`jax.profiler.trace(folder)` writes one `.xplane.pb` a recording. JAX itself reads the
times in it; the programs that ran are in it as well, and the `xprof` package reads
those and makes the tables of XProf (https://openxla.org/xprof).
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

import jax


class Operation(NamedTuple):
    """One run of one operation of a compiled program.

    name: in the program's text. program: its name and number, "jit_update(80)".
    start, seconds: when it began in the recording, and how long until it was done.
    own: seconds without the operations that the same thread ran meanwhile.
    """

    name: str
    program: str
    start: float
    seconds: float
    own: float


class Span(NamedTuple):
    """Something the host did: an annotation of ours, or of JAX; times as above."""

    name: str
    start: float
    seconds: float


class Profile(NamedTuple):
    """A recording: operations of the devices and spans of the host, by their start."""

    operations: list[Operation]
    spans: list[Span]

    def span(self, name: str) -> Span:
        """The only span of this name.

        Raises:
          LookupError: there is none, or more than one.
        """
        found = [span for span in self.spans if span.name == name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} spans are called {name!r}, not one.")
        return found[0]

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
    found = list(pathlib.Path(folder).glob("**/*.xplane.pb"))
    if not found:
        raise FileNotFoundError(
            f"No recording in {folder}: run `with jax.profiler.trace(folder):` first."
        )
    return max(found, key=lambda file: file.stat().st_mtime_ns)


def read(folder) -> Profile:
    """The newest recording below a folder.

    Raises:
      FileNotFoundError: there is none.
    """
    operations: list[Operation] = []
    spans: list[Span] = []
    for plane in jax.profiler.ProfileData.from_file(str(recording(folder))).planes:
        for line in plane.lines:
            events = [
                (event.start_ns / 1e9, event.duration_ns / 1e9, event.name, stats)
                for event in line.events
                if "hlo_op" in (stats := dict(event.stats))
                or not line.name.startswith("tf_")  # XLA's own threads
            ]
            ran = [event for event in events if "hlo_op" in event[-1]]
            operations += _operations(sorted(ran, key=lambda x: (x[0], -x[1])))
            spans += [Span(e[2], e[0], e[1]) for e in events if "hlo_op" not in e[-1]]
    operations.sort(key=lambda operation: operation.start)
    return Profile(operations, sorted(spans, key=lambda span: span.start))


def _own(events):
    """Seconds of each event without those within it; by start, the outer one first."""
    own = [seconds for _, seconds, *_ in events]
    open_: list[int] = []
    for i, (start, seconds, *_) in enumerate(events):
        while open_ and sum(events[open_[-1]][:2]) <= start:
            open_.pop()
        if open_:
            own[open_[-1]] -= seconds
        open_.append(i)
    return [max(seconds, 0.0) for seconds in own]


def _operations(events):
    """Operations of one thread; events by start, the outer one of two first."""
    return [
        Operation(
            str(said["hlo_op"]),
            f"{said['hlo_module']}({said['program_id']})",
            start,
            seconds,
            own,
        )
        for (start, seconds, _, said), own in zip(events, _own(events), strict=True)
    ]


def longest_gap(
    operations: Iterable[tuple[float, float]], start: float, end: float
) -> tuple[float, float]:
    """When the longest time without any operation begins, and its seconds.

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
    """The text of each program that ran in the newest recording, as `Operation` has it.

    Raises:
      LookupError: `xprof` is not installed.
      FileNotFoundError: there is no recording.
    """
    file = recording(folder)
    convert = _xprof()
    with _quiet():
        convert.xspace_to_tool_names([str(file)])  # writes them beside the recording
        names = [x.name for x in file.parent.glob("*.hlo_proto.pb")]
        names = sorted(name.removesuffix(".hlo_proto.pb") for name in names)
        texts = {name: _text(convert, file, name) for name in names}
    ran: dict[str, set[str]] = {}
    for operation in read(file.parent).operations:
        ran.setdefault(operation.program, set()).add(operation.name)
    found = {name: _program(name, parts, texts) for name, parts in ran.items()}
    return {name: text for name, text in found.items() if text}


def _program(name, operations, texts):
    """The text with these operations among the programs of a name, "" if none has.

    What JAX takes from its cache of compiled programs runs under the number that it had
    when it was compiled, and stands in the recording under another.
    """
    alike = [x for x in texts if x.partition("(")[0] == name.partition("(")[0]]
    alike.sort(key=lambda x: x != name)  # the number counts where it is right
    fits = (
        texts[x] for x in alike if all(f"%{part} = " in texts[x] for part in operations)
    )
    return next(fits, "")


def _text(convert, file, name):
    options = {"module_name": name, "type": "long_txt"}
    wanted = {"graph_viewer_options": options}
    text, _ = convert.xspace_to_tool_data([str(file)], "graph_viewer", wanted)
    return text.decode() if isinstance(text, bytes) else text


def hlo_stats(folder) -> list[dict]:
    """XProf's table of operations, a dict a row; without rows where it knows no device.

    It is made from a TPU's or GPU's own part of the recording, which a CPU lacks: there
    `viewed` reads what the recording has.

    Raises:
      LookupError: `xprof` is not installed.
      FileNotFoundError: there is no recording.
    """
    file = recording(folder)
    convert = _xprof()
    with _quiet():
        said, _ = convert.xspace_to_tool_data([str(file)], "hlo_stats", {})
    table = json.loads(said)
    labels = [column["label"] for column in table["cols"]]
    return [
        dict(zip(labels, (cell["v"] for cell in row["c"]), strict=True))
        for row in table["rows"]
    ]


class Row(NamedTuple):
    """An operation that the trace viewer shows: its runs, and its own seconds in all.

    program: without a number, such as "jit_update".
    """

    program: str
    name: str
    runs: int
    own: float


def viewed(folder) -> list[Row]:
    """The operations that XProf's trace viewer shows of a CPU; the longest first.

    Raises:
      LookupError: `xprof` is not installed.
      FileNotFoundError: there is no recording.
      ValueError: no operation ran in it.
    """
    file = recording(folder)
    convert = _xprof()
    with _quiet():
        said, _ = convert.xspace_to_tool_data([str(file)], "trace_viewer", {})
    threads: dict[tuple[int, int], list] = {}
    for event in json.loads(said)["traceEvents"]:
        if {"hlo_module", "hlo_op"} <= event.get("args", {}).keys():  # microseconds
            one = event["ts"] / 1e6, event["dur"] / 1e6, event["args"]
            threads.setdefault((event["pid"], event["tid"]), []).append(one)
    table: dict[tuple[str, str], tuple[int, float]] = {}
    for ran in threads.values():
        ran.sort(key=lambda event: (event[0], -event[1]))
        for (*_, names), own in zip(ran, _own(ran), strict=True):
            key = names["hlo_module"].partition("(")[0], names["hlo_op"]
            runs, seconds = table.get(key, (0, 0.0))
            table[key] = runs + 1, seconds + own
    if not table:
        raise ValueError(
            f"XProf shows no operation of {file}: run a compiled program while it is "
            "recorded, and wait for its result (jax.block_until_ready) before the end."
        )
    rows = [Row(*key, *sums) for key, sums in table.items()]
    return sorted(rows, key=lambda row: -row.own)


def _xprof():
    try:
        with _quiet():
            from xprof.convert import raw_to_tool_data
    except ImportError as error:
        raise LookupError("xprof is not installed: pip install xprof") from error
    return raw_to_tool_data


@contextlib.contextmanager
def _quiet():
    """XProf's library tells of each of its steps on the standard error output."""
    name = "TF_CPP_MIN_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ[name] = "3"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
