"""The judge's process of `make grade`: checks the exercises of one student's file.

The checks are the installed course's and run here, where nothing of the student's
runs. The student's cells run in a process of their own, locked in
(scripts/grade_student.py); a check that calls an answer sends the arguments there and
gets a value back. So a cell can print, patch or overwrite what it likes: it changes its
own process, and a verdict is made in this one.
"""

import ast
import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from scripts import grade_reading
from scripts.grade_answers import Remote, serve
from scripts.grade_wire import Broken, Peer, TooLate

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEMORY = 16 * 2**30  # of this process, which is sent values of at most 32 MiB
GRACE = 2  # seconds more until a check that computes for too long is broken off
INSIDE = " (checked in the student's own process)"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one exercise may take: wall-clock seconds, GiB, and seconds to import."""

    seconds: float = 20
    gigabytes: float = 4
    start: float = 180


@contextlib.contextmanager
def student(lesson: grade_reading.Lesson, limits: Limits):
    """A new process with the course's imports; gives its Peer, and ends it for good."""
    here, there = socket.socketpair()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        box = {
            "folder": folder,
            "course": str(ROOT),
            "memory": int(limits.gigabytes * 2**30),
            "seconds": int(limits.start + 10 * limits.seconds),
        }
        command = [sys.executable, "-m", "scripts.grade_student", str(there.fileno())]
        process = subprocess.Popen(
            [*command, json.dumps(box)],
            cwd=ROOT,
            env=environment(folder),
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        there.close()
        try:
            peer = Peer(here, serve, Remote)
            peer.deadline = time.monotonic() + limits.start
            peer.ask(what="imports", source=lesson.imports)
            yield peer
        finally:
            here.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def environment(folder: str) -> dict[str, str]:
    """All that a student's process is told of this machine: no token, no home."""
    own = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder, "TMPDIR": folder}
    own |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    own |= {"JAX_PLATFORMS": "cpu", "COURSE_PRESET": "laptop", "NPROC": "1"}
    own |= {"COURSE_BUILD": f"{folder}/build", "MPLCONFIGDIR": folder}
    own |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return own | {
        "HF_HUB_OFFLINE": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }


def checked(peer, checks, exercise, source) -> tuple[str, str]:
    """The result of one exercise and its message."""
    try:
        own = grade_reading.python(source)
        reply = peer.ask(what="run", source=own, names=list(exercise.names))
        names = {name: peer.decode(reply[name]) for name in exercise.names}
    except (Broken, TooLate):
        raise
    except Exception as error:
        return "error", f"the cell raised {type(error).__name__}: {error}"
    names["checks"] = checks
    Remote.traced = False
    verdict = eval(compile(exercise.check.strip(), "check", "eval"), names)
    passed, message, note = verdict.passed, verdict.message, ""
    if Remote.traced:
        reply = peer.ask(what="check", source=exercise.check.strip())
        passed, message, note = reply["passed"] is True, str(reply["message"]), INSIDE
    if passed:
        return "right", message + note
    kind = "not written" if message.startswith("Not written yet") else "not yet"
    return kind, message + note


def _checks(lesson):
    """The module of the checks, as the course's own imports name it."""
    for node in ast.walk(ast.parse(lesson.imports)):
        if isinstance(node, ast.ImportFrom) and node.module == "helpers.exercises":
            for alias in node.names:
                if (alias.asname or alias.name) == "checks":
                    return importlib.import_module(f"helpers.exercises.{alias.name}")
    raise ImportError(f"{lesson.file} imports no checks")


class Desk:
    """One student's file: starts the process when it is needed, and anew after a death.

    Args:
      own: the file's cells. lesson: what the course says of its notebook.
    """

    def __init__(self, own, lesson, limits: Limits):
        self.own, self.lesson, self.limits = own, lesson, limits
        self.left_open: list[str] = []
        self._checks = _checks(lesson)  # before anything of the student's runs
        self._stack, self._peer = contextlib.ExitStack(), None
        self._imports = [source for _, source, tags in own if "imports" in tags]

    def result(self, exercise: grade_reading.Exercise) -> tuple[str, str]:
        """The result of an exercise and its message."""
        source = grade_reading.answer(self.own, exercise)
        if source is None:
            return "not written", "the cell is missing"
        if grade_reading.untouched(source, exercise):
            return "not written", "the stub is as it was"
        try:
            peer = self._started()
            peer.deadline = time.monotonic() + self.limits.seconds
            signal.setitimer(signal.ITIMER_REAL, self.limits.seconds + GRACE)
            result = checked(peer, self._checks, exercise, source)
        except TooLate:
            result = "timeout", f"not done within {self.limits.seconds:g} s"
        except (Broken, Exception) as error:
            result = "error", f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if result[0] in ("timeout", "error"):
            self.close()
        return result

    def _started(self):
        if self._peer is None:
            peer = self._stack.enter_context(student(self.lesson, self.limits))
            self.left_open = peer.left_open
            while self._imports:  # a student's own, each tried in one process only
                source = self._imports.pop(0)
                peer.deadline = time.monotonic() + self.limits.seconds
                if source.strip() != self.lesson.imports.strip():
                    with contextlib.suppress(Exception):
                        own = grade_reading.python(source)
                        peer.ask(what="imports", source=own)
            self._peer = peer
        return self._peer

    def close(self) -> None:
        """Ends the student's process."""
        self._stack.close()
        self._peer = None


def rows(path: pathlib.Path, course: pathlib.Path, limits: Limits):
    """Yields a dict for each exercise of a student's file, as it is checked."""
    own = grade_reading.cells(path)
    lesson = grade_reading.lesson(grade_reading.which(path, own, course))
    with contextlib.closing(Desk(own, lesson, limits)) as desk:
        for exercise in lesson.exercises:
            began = time.monotonic()
            result, message = desk.result(exercise)
            yield {
                "notebook": lesson.file,
                "exercise": exercise.title,
                "result": result,
                "message": message,
                "seconds": round(time.monotonic() - began, 1),
                "left_open": desk.left_open,
            }


def _too_late(*_):
    raise TooLate()


def main() -> None:
    """Takes the file, the course's notebooks and the limits; writes rows as JSON."""
    told = os.fdopen(os.dup(1), "w")
    sys.stdout = open(os.devnull, "w")
    most = MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, most)
    signal.signal(signal.SIGALRM, _too_late)
    path, course = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    try:
        for row in rows(path, course, Limits(**json.loads(sys.argv[3]))):
            print(json.dumps(row), file=told, flush=True)
    except grade_reading.Unreadable as error:
        print(json.dumps({"result": "error", "message": str(error)}), file=told)
    told.flush()


if __name__ == "__main__":
    main()
