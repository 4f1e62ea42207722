"""How long a notebook takes a person: reading, guessing, exercises; and the machine.

    python notebooks/human_minutes.py           all notebooks, in minutes
    python notebooks/human_minutes.py 07        its sections too, as docs/teaching.md
                                                plans with them

The speeds are stated, not measured on learners: whoever times a class changes them,
and the test of docs/teaching.md says which plans no longer hold.
"""

import dataclasses
import math
import pathlib
import re
import sys

import nbformat

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from helpers.course.syllabus import LESSONS  # noqa: E402

WORDS = 150  # of prose a minute; a speaker says as many
LINES = 20  # of code a minute
GUESS = 1  # minute for a prediction: to think, and to write it down
EXERCISE = {"predict": 4, "diagnose": 4, "choose": 4, "read": 4, "keep": 3}
ANOTHER = 8  # minutes for an exercise of another kind: write, break, repair, derive
NOT_READ = {"badges", "card", "road", "setup", "imports", "exercise", "check"}


@dataclasses.dataclass
class Section:
    """Minutes of one section: `read` with its guesses, and of each of its exercises."""

    title: str
    words: int = 0
    lines: int = 0
    guesses: int = 0
    exercises: dict[int, int] = dataclasses.field(default_factory=dict)

    @property
    def read(self) -> float:
        """Minutes of reading prose and code, and of guessing."""
        return self.words / WORDS + self.lines / LINES + GUESS * self.guesses


def sections(notebook) -> dict[str, Section]:
    """The sections of a notebook: "0" is the opening, then "1", "2", …

    A section without a number is called by its title, such as "What broke?".
    """
    found = {"0": Section("opening")}
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "code" and not tags & NOT_READ:
            list(found.values())[-1].lines += len(cell.source.splitlines())
        if cell.cell_type != "markdown" or tags & NOT_READ:
            continue
        for part in re.split(r"^(?=##+ )", cell.source, flags=re.MULTILINE):
            _read(part, found)
    return found


def _read(part, found):
    """Counts the text from one heading to the next."""
    heading = re.match(r"## (?:(\d+)\. )?(.*)", part)
    if heading and heading[2] not in ("Set-up",):
        found[heading[1] or heading[2]] = Section(heading[2])
    section = list(found.values())[-1]
    exercise = re.match(r"### Exercise (\d+) · (\w+)", part)
    if exercise:
        section.exercises[int(exercise[1])] = EXERCISE.get(exercise[2], ANOTHER)
    section.words += words(part)
    section.guesses += part.count("**Predict")


def words(text: str) -> int:
    """Words that are read: what is folded (hint, solution) and code blocks are not."""
    text = re.sub(r"<details>.*?</details>|```.*?```", " ", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>|\]\([^)]*\)", " ", text)
    return len(re.findall(r"[^\W_][\w'’-]*", text))


def human_minutes(notebook) -> tuple[int, int]:
    """(reading, exercises) of a whole notebook in minutes, rounded up to fives."""
    parts = sections(notebook).values()
    reading = sum(part.read for part in parts)
    exercises = sum(sum(part.exercises.values()) for part in parts)
    return 5 * math.ceil(reading / 5), 5 * math.ceil(exercises / 5)


def line(notebook) -> str:
    """What the card says of it: "about 30 min to read, 25 for the exercises"."""
    reading, exercises = human_minutes(notebook)
    return f"about {reading} min to read, {exercises} for the exercises"


def read(number: str):
    """A notebook of the course as it is committed."""
    return nbformat.read(FOLDER / f"{LESSONS[number].file}.ipynb", as_version=4)


def main() -> None:
    """Command line; see the module's docstring."""
    asked = sys.argv[1:]
    for number in asked or LESSONS:
        notebook, machine = read(number), LESSONS[number].minutes["laptop"]
        title = LESSONS[number].title
        print(f"{number} {title} · you: {line(notebook)} · laptop {machine} min")
        for name, part in sections(notebook).items() if asked else ():
            done = ", ".join(f"{n}: {m} min" for n, m in part.exercises.items())
            exercises = f" · exercise {done}" if done else ""
            print(f"  {name:14} read {part.read:4.1f} min{exercises} · {part.title}")


if __name__ == "__main__":
    main()
