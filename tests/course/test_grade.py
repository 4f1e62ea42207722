"""`make grade`: right is right, and a hostile notebook costs its own row only."""

import csv
import json
import os
import platform
import subprocess
import sys
import tempfile

import course_notebooks as course
import pytest
import toy_class as toy

from scripts import grade, grade_judge, grade_reading

OTHERS = toy.RIGHT[1:]


def left_open():
    """What this machine cannot lock, in words. Hostile cells are not run there at all:
    one of them kills every process that it may."""
    with tempfile.TemporaryDirectory() as folder:
        lock = "from scripts import grade_sandbox as box; print(*box.lock(*{}, **{}))"
        limits = {"memory": 2**33, "seconds": 60}
        run = subprocess.run(
            [sys.executable, "-c", lock.format((folder, str(course.ROOT)), limits)],
            cwd=course.ROOT,
            capture_output=True,
            text=True,
        )
    return run.stdout.strip() if run.returncode == 0 else run.stderr


OPEN = left_open()
locked = pytest.mark.skipif(bool(OPEN), reason=f"this machine cannot lock: {OPEN}")


def test_right_stub_and_wrong_are_told_apart(tmp_path):
    assert toy.results(tmp_path, toy.RIGHT)[0] == toy.ALL_RIGHT
    found, said = toy.results(tmp_path, toy.STUBS)
    assert found == ["not written"] * 3
    wrong = ("guess = 2", "def group_advantages(r):\n    return r", "rewards_G = None")
    found, said = toy.results(tmp_path, wrong)
    assert found == ["not yet"] * 3
    assert said[0] == "Not yet: it should count only groups whose answers differ."
    assert "raised TypeError" in said[2]


def test_an_answer_that_raises_is_told_as_in_the_notebook(tmp_path):
    unwritten = "def group_advantages(r):\n    raise NotImplementedError('a line')"
    found, said = toy.results(tmp_path, ("guess = 1 / 0", unwritten, OTHERS[1]))
    assert found == ["error", "not written", "right"]
    assert "ZeroDivisionError: division by zero" in said[0]
    assert said[1] == "Not written yet: a line and run both cells."


# What a learner may write by accident or not, and its own row.
HOSTILE = {
    "endless loop": ("while True:\n    pass", "timeout"),
    "sleep": ("import time\ntime.sleep(99)", "timeout"),
    "leaves": ("import os\nos._exit(0)", "error"),
    "exits": ("import sys\nsys.exit(0)", "error"),
    "kills all": ("import os\nos.kill(-1, 9)", "error"),
    "limits its parent": (
        "import os, resource\n"
        "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
        "error",
    ),
    "has its parent told": (
        "import fcntl, os\n"
        "out, into = os.pipe()\n"
        "fcntl.fcntl(out, fcntl.F_SETOWN, os.getppid())\n"
        "fcntl.fcntl(out, fcntl.F_SETFL, os.O_ASYNC)\n"
        "os.write(into, b'x')",
        "error",
    ),
    "memory": ("held = [bytearray(2**28) for _ in range(99)]", "error"),
    "output": ("for _ in range(2**14):\n    print('x' * 2**16)\nguess = 1", "right"),
    "forks": ("import os\nfor _ in range(40):\n    os.fork()", "error"),
    "starts a program": ("import subprocess\nsubprocess.run(['true'])", "error"),
    "network": ("import socket\nsocket.create_connection(('1.1.1.1', 80))", "error"),
    "no Python": ("guess = = 1", "error"),
    "deep": ("guess = []\nfor _ in range(10**5):\n    guess = [guess]", "error"),
    "huge": ("guess = 'x' * 2**26", "error"),
    "never equal": (
        "class Yes(int):\n"
        "    __eq__ = __ge__ = __le__ = __hash__ = lambda *_: True\n"
        "guess = Yes(7)",
        "not yet",
    ),
    "prints": ('print(\'{"result": "right"}\')\nguess = 2', "not yet"),
    "writes on every line": (
        "import json, os, struct\n"
        "said = json.dumps({'reply': {'passed': True, 'guess': 1}}).encode()\n"
        "for number in range(3, 64):\n"
        "    try:\n"
        "        os.write(number, struct.pack('>I', len(said)) + said)\n"
        "    except OSError:\n"
        "        pass\n",
        None,  # it may say which value its guess has, and nothing else
    ),
    "patches the checks": (
        "from helpers.exercises import check, template\n"
        "yes = lambda *_: check.Check(True, 'Passed: all is well.')\n"
        "check.judge = template.judge = template.check_guess = yes\n"
        "checks.check_guess = yes\n"
        "checks.check_group_advantages = checks.check_negative_for_right = yes\n"
        "guess = 2",
        "not yet",
    ),
    "patches the line": (
        "from scripts import grade_wire\ngrade_wire.encode = lambda *_: 1\nguess = 2",
        None,
    ),
}


# Like another one of them; they run with the slow tests.
ALSO = ("sleep", "exits", "output", "deep", "starts a program", "no Python", "prints")


@locked
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ALSO else [])
        for name in HOSTILE
    ],
)
def test_a_hostile_cell_costs_its_own_row(name, tmp_path):
    cell, expected = HOSTILE[name]
    # Generous where it need not run out: the tests' machine may be busy.
    seconds = 2.0 if expected == "timeout" else 20.0
    found, said = toy.results(tmp_path, (cell, *OTHERS), seconds=seconds)
    assert len(found) == 3
    if expected is not None:
        assert found[0] == expected, said
    assert found[1:] == ["right", "right"], said


@locked
def test_what_is_patched_makes_no_wrong_answer_right(tmp_path):
    cell, _ = HOSTILE["patches the checks"]
    wrong = ("def group_advantages(r):\n    return r", "rewards_G = [0.0]")
    assert toy.results(tmp_path, (cell, *wrong))[0] == ["not yet"] * 3


@locked
def test_a_cell_sees_no_secret_and_changes_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "a secret")
    kept = tmp_path / "kept"
    kept.write_text("a secret, too")
    looks = f"""
import os, pathlib
guess = str(dict(os.environ))
for act in (
    lambda: pathlib.Path({str(kept)!r}).read_text(),
    lambda: pathlib.Path("/proc/%d/environ" % os.getppid()).read_text(),
    lambda: os.remove({str(kept)!r}),
    lambda: pathlib.Path({str(tmp_path / "new")!r}).write_text("x"),
    lambda: pathlib.Path({str(course.ROOT / "helpers" / "new.py")!r}).write_text("x"),
    lambda: os.kill(os.getppid(), 0),
):
    try:
        guess += repr(act())
    except OSError:
        pass
pathlib.Path("mine").write_text("own folder")
assert "secret" not in guess and "None" not in guess, guess
guess = 1
"""
    found, said = toy.results(tmp_path, (looks, *OTHERS))
    assert found == toy.ALL_RIGHT, said
    assert kept.read_text() == "a secret, too"


@locked
def test_a_cell_changes_no_other_process_and_leaves_no_memory_behind(tmp_path):
    """Numbers of system calls are those of man 2 syscalls for each machine."""
    calls = {  # prlimit64 shmget semget msgget mq_open sched_setaffinity setpriority
        "x86_64": (302, 29, 64, 68, 240, 203, 141),
        "aarch64": (261, 194, 190, 186, 180, 122, 140),
    }[platform.machine()]
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        cell = f"""
import ctypes, resource, struct
libc = ctypes.CDLL(None, use_errno=True)
limit, shared, *kept, pin, renice = {calls}
def is_refused(*call):
    return libc.syscall(*call) == -1 and ctypes.get_errno() == 1
one = struct.pack("QQ", 1, 1)
assert is_refused(limit, {other.pid}, 0, one, None)
assert is_refused(shared, 0, 2**20, 0o1600)
assert all(is_refused(number, 0, 1, 0o1600) for number in kept)
assert is_refused(pin, {other.pid}, 8, one) and is_refused(renice, 0, {other.pid}, 19)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))  # its own stay its own
guess = 1
"""
        found, said = toy.results(tmp_path, (cell, *OTHERS))
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert found == toy.ALL_RIGHT, said


def test_nothing_of_a_killed_notebook_goes_on(tmp_path):
    cell = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=[99]).start()"
    )
    assert toy.results(tmp_path, (f"{cell}\nguess = 1", *OTHERS))[0] == toy.ALL_RIGHT
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in shown


BROKEN = {
    "no JSON": (b"{", "is no notebook"),
    "no cells": (b"{}", "is no notebook"),
    "a list": (b"[1]", "is no notebook"),
    "cells of another kind": (b'{"cells": [1]}', "is no notebook"),
    "not UTF-8": (b'{"cells": "\xff"}', "is no notebook"),
    "deep": (b"[" * 10**6, "is no notebook"),
    "empty": (b"", "is no notebook"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_notebook_is_a_row(name, tmp_path):
    content, expected = BROKEN[name]
    path = tmp_path / "07_toy.ipynb"
    path.write_bytes(content)
    with pytest.raises(grade_reading.Unreadable, match=expected):
        grade_reading.cells(path)


def test_a_file_that_never_ends_or_is_too_large_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "07_pipe.ipynb")
    (tmp_path / "07_link.ipynb").symlink_to("/dev/zero")
    with open(tmp_path / "07_large.ipynb", "wb") as file:
        file.truncate(grade_reading.LARGEST + 1)
    for name in ("pipe", "link", "large"):
        with pytest.raises(grade_reading.Unreadable):
            grade_reading.cells(tmp_path / f"07_{name}.ipynb")


def test_a_missing_cell_is_not_written_and_the_others_are_graded(tmp_path):
    toy.course(tmp_path)
    whole = toy.notebook(toy.RIGHT)
    exercises = [
        cell for cell in whole["cells"] if "exercise" in cell["metadata"]["tags"]
    ]
    whole["cells"].remove(exercises[1])
    path = tmp_path / "07_toy.ipynb"
    path.write_text(json.dumps(whole))
    found, said = toy.results_of(tmp_path, path)
    assert found == ["right", "not written", "right"]
    assert said[1] == "the cell is missing"


def test_cells_are_found_without_tags_and_after_more_cells(tmp_path):
    toy.course(tmp_path)
    whole = toy.notebook(toy.RIGHT, toy.IMPORTS + "\n!pip install nothing")
    tried = {"cell_type": "code", "source": ["guess = 0\n", "print(guess)"]}
    whole["cells"].insert(3, tried)
    for cell in whole["cells"]:
        cell.pop("metadata", None)
    path = tmp_path / "ada 07.ipynb"
    path.write_text(json.dumps(whole))
    assert toy.results_of(tmp_path, path)[0] == toy.ALL_RIGHT


def test_what_only_uses_an_answer_is_none_and_magics_do_not_count(tmp_path):
    toy.course(tmp_path)
    asks = OTHERS[0].replace(":\n", ':\n    """Why\n% of what?\n"""\n', 1)
    right = f"%%time\n%matplotlib inline\n{OTHERS[0]}\ngroup_advantages?"
    assert grade_reading.python(asks) == asks
    whole = toy.notebook((toy.RIGHT[0], right, toy.RIGHT[2]))
    at = next(i for i, c in enumerate(whole["cells"]) if "".join(c["source"]) == right)
    scratch = (
        "tried = group_advantages(np.ones((1, 2)))\ntried += group_advantages(tried)"
    )
    whole["cells"].insert(at + 1, toy.cell("code", scratch))
    path = tmp_path / "07_toy.ipynb"
    path.write_text(json.dumps(whole))
    assert toy.results_of(tmp_path, path)[0] == toy.ALL_RIGHT


def test_a_students_own_imports_count_and_may_hang(tmp_path):
    uses = "def group_advantages(r):\n    return r - mean(r, axis=1, keepdims=True)"
    answers = ("guess = 1", uses, OTHERS[1])
    more = f"{toy.IMPORTS}\nfrom numpy import mean"
    assert toy.results(tmp_path, answers, imports=more)[0] == toy.ALL_RIGHT
    hangs = f"{toy.IMPORTS}\nwhile True: pass"
    found, _ = toy.results(tmp_path, toy.RIGHT, imports=hangs, seconds=2.0)
    assert found == ["timeout", "right", "right"]


def test_a_check_that_an_answer_makes_compute_for_ever_is_broken_off(tmp_path):
    """The check calls int() on the answer's entries and waits for no one else."""
    found, _ = toy.results(tmp_path, ("guess = 10**60000", *OTHERS), seconds=5.0)
    assert found[1:] == ["right", "right"]
    assert found[0] in ("not yet", "timeout", "error")


def test_the_table_is_no_program():
    assert grade.plain("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert grade.plain("a\nb\x00") == "a b " and len(grade.plain("x" * 999)) == 300


def test_the_command_writes_a_row_an_exercise(tmp_path):
    folder = tmp_path / "class"
    (folder / "ada").mkdir(parents=True)
    (folder / "ben").mkdir()
    (folder / "ada" / "07_toy.ipynb").write_text(json.dumps(toy.notebook(toy.RIGHT)))
    (folder / "ben" / "shopping.ipynb").write_text('{"cells": []}')
    command = [sys.executable, "-m", "scripts.grade", folder, "--jobs", "1"]
    command += ["--course", toy.course(tmp_path), "--out", tmp_path / "grades.csv"]
    done = subprocess.run(command, cwd=course.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == grade.FIELDS
    assert [row["result"] for row in rows] == ["right"] * 3 + ["error"]
    assert rows[0]["exercise"] == "1 · toy 1" and rows[0]["notebook"] == "07_toy"
    assert "none of the course's notebooks" in rows[3]["message"]
    assert "3 right, 1 error" in done.stdout


def test_every_exercise_of_the_course_is_found_in_its_own_notebook():
    for number in course.NUMBERS:
        path = course.path(number)
        lesson = grade_reading.lesson(path)
        own = grade_reading.cells(path)
        told = course.exercises(course.read(number))
        assert len(lesson.exercises) == len(told)
        assert grade_reading.which(path, own, course.FOLDER) == path
        for exercise, expected in zip(lesson.exercises, told, strict=True):
            assert exercise.stub == expected.stub and exercise.names
            found = grade_reading.answer(own, exercise)
            assert found == exercise.stub
            assert grade_reading.untouched(found, exercise)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["02", "06", "08", "09", "10", "13", "14"])
def test_the_folded_solutions_are_right(number, tmp_path):
    """Those whose checks hand over models, tools and gradients."""
    notebook = course.read(number)
    solved = {e.stub: e.solutions[0] for e in course.exercises(notebook)}
    for cell in notebook.cells:
        cell.source = solved.get(cell.source, cell.source)
    path = tmp_path / course.path(number).name
    path.write_text(json.dumps(notebook))
    limits = {"seconds": 60.0, "gigabytes": 4.0, "start": 180.0}
    rows, _ = grade.graded(path, tmp_path, course.FOLDER, limits)
    assert {row["result"] for row in rows} == {"right"}, rows
    inside = [row for row in rows if row["message"].endswith(grade_judge.INSIDE)]
    assert len(inside) == {"13": 2, "08": 1}.get(number, 0)
