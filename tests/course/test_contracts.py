"""The types that the heart asks for: what is here has them, what has not is found."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def wrong_lines(name):
    """Numbers of the lines of a file that mypy complains of."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(TESTS / name)]
    done = subprocess.run(
        command, cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert all(f"{name}:" in line for line in errors), done.stdout
    return {int(line.split(":")[1]) for line in errors}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["contracts.py", "broken_contracts.py"])
def test_mypy_finds_what_breaks_a_promise_and_nothing_else(name):
    lines = (TESTS / name).read_text().splitlines()
    marked = {i for i, line in enumerate(lines, 1) if line.endswith("  # wrong")}
    assert wrong_lines(name) == marked
    assert bool(marked) == (name == "broken_contracts.py")
