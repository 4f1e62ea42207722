"""Turn notebooks into what the repository keeps: executed, normalised, badges right.

    python notebooks/publish.py                      re-execute and normalise all
    python notebooks/publish.py notebooks/07_*.ipynb …only these
    python notebooks/publish.py draft/07_grpo.py     first convert from py:percent text
    --no-run    refresh and normalise, do not execute
    --fresh     first delete the saved runs that the notebook trains

Cells tagged `badges`, `road` and `setup`, and the two lines about time of the cell
tagged `card`, are written by this program, so that the repository's address, the
release tag, the road and the minutes each stand in one place (pyproject.toml,
helpers/course/syllabus.csv, and WORDS, LINES and EXERCISE below).
"""

import argparse
import hashlib
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
sys.path[:0] = [str(ROOT), str(FOLDER)]

from helpers.course.syllabus import IN_A_HURRY, LESSONS  # noqa: E402
from helpers.runtime.platform import build_folder, run_folder  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPOSITORY = PROJECT["project"]["urls"]["Repository"]
TAG = "v" + PROJECT["project"]["version"]
KEEP = PROJECT["tool"]["course"]["keep"]
COLAB_BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
KAGGLE_BADGE = "https://kaggle.com/static/images/open-in-kaggle.svg"
WORDS, LINES = 150, 20  # of prose and of code that a person reads in a minute
EXERCISE = {"predict": 4, "diagnose": 4, "choose": 4, "read": 4, "keep": 3}
ANOTHER = 8  # minutes for an exercise of another kind
FIGURE = "plotting.show("  # a cell that draws opens folded, in Jupyter and on Colab
NOT_READ = {"badges", "card", "road", "setup", "imports", "exercise", "check"}
TPU = {"accelerator": "TPU", "colab": {"gpuType": "V5E1"}}

SETUP = f'''\
import os
import pathlib
import subprocess
import sys
from importlib import metadata, util

REPOSITORY = "{REPOSITORY}"
TAG = "{TAG}"
# What the platform brings itself is kept, never replaced.
KEEP = {str(KEEP).replace("'", '"')}
if "COLAB_RELEASE_TAG" in os.environ or "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
    if not os.path.isdir("course"):
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth=1"]
        subprocess.run([*clone, "-b", TAG, REPOSITORY, "course"], check=True)
    installed = {{p.name: p.version for p in metadata.distributions()}}
    keep = [f"{{name}}=={{installed[name]}}" for name in KEEP if name in installed]
    pathlib.Path("keep.txt").write_text("\\n".join(keep))
    pip = [sys.executable, "-m", "pip", "install", "-q", "-c", "keep.txt"]
    subprocess.run([*pip, "-e", "course"], check=True)
    sys.path.insert(0, os.path.abspath("course"))
elif util.find_spec("helpers") is None:
    raise ImportError("Run `make env` once, then choose the kernel of .venv.")
print("The helpers are ready.")
'''


def number_of(path: pathlib.Path) -> str:
    """A notebook's number, "07" or "08b", from its name; ValueError if not ours."""
    number = path.stem.partition("_")[0]
    if number not in LESSONS or LESSONS[number].file != path.stem:
        names = ", ".join(lesson.file for lesson in LESSONS.values())
        raise ValueError(f"{path.name} is none of the course's notebooks: {names}.")
    return number


def addresses(number: str) -> tuple[str, str]:
    """Where Colab and Kaggle open a notebook, at the release tag."""
    file = f"blob/{TAG}/notebooks/{LESSONS[number].file}.ipynb"
    github = REPOSITORY.removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{github}/{file}"
    return colab, f"https://kaggle.com/kernels/welcome?src={REPOSITORY}/{file}"


def badges(number: str) -> str:
    """The two badges of a notebook, at the release tag."""
    colab, kaggle = addresses(number)
    badge = f"[![Open in Colab]({COLAB_BADGE})]({colab})"
    return f"{badge} [![Open in Kaggle]({KAGGLE_BADGE})]({kaggle})"


def road(number: str) -> str:
    """The core, the electives and the short road in Markdown, with *you are here*."""
    stops = {}
    for each, lesson in LESSONS.items():
        stops[each] = f"[{each} {lesson.road}]({lesson.file}.ipynb)"
        if each == number:
            stops[each] = f"**{each} {lesson.road} ← you are here**"
    core = " → ".join(stops[each] for each in stops if LESSONS[each].core)
    electives = " · ".join(stops[each] for each in stops if not LESSONS[each].core)
    hurry = " → ".join(stops[each] for each in IN_A_HURRY)
    roads = {"The core": core, "Electives": electives, "In a hurry": hurry}
    return "\n\n".join(f"**{name}** · {stop}" for name, stop in roads.items())


def card_time(number: str, notebook: nbformat.NotebookNode) -> str:
    """The card's lines about time: the machine's, and the reader's."""
    minutes = LESSONS[number].minutes
    reading, exercises = human_minutes(notebook)
    line = f"- **Time:** laptop {minutes['laptop']} min"
    if "v5e-1" in minutes:
        line += (
            f" · Colab v5e-1 about {minutes['v5e-1']} min, Kaggle v5e-8 about "
            f"{minutes['v5e-8']} (planned from the compiler's model, not measured)"
        )
    else:
        line += " · any Colab or Kaggle runtime about the same, no TPU needed"
    yours = f"about {reading} min to read, {exercises} for the exercises"
    return f"{line}\n- **Your time:** {yours}"


def read(number: str) -> nbformat.NotebookNode:
    """A notebook as it is committed."""
    return nbformat.read(FOLDER / f"{LESSONS[number].file}.ipynb", as_version=4)


def human_minutes(notebook: nbformat.NotebookNode) -> tuple[int, int]:
    """Minutes of a person, (reading, exercises), each rounded up to fives.

    What is folded, and cells that are the same everywhere, are not read.
    """
    reading = exercises = 0.0
    for cell in notebook.cells:
        if NOT_READ & set(cell.metadata.get("tags", [])):
            continue
        if cell.cell_type == "code":
            reading += len(cell.source.splitlines()) / LINES
            continue
        text = re.sub(
            r"<details>.*?</details>|```.*?```", " ", cell.source, flags=re.DOTALL
        )
        text = re.sub(r"<[^>]+>|\]\([^)]*\)", " ", text)
        reading += len(re.findall(r"[^\W_][\w'’-]*", text)) / WORDS
        reading += cell.source.count("**Predict")  # a minute for each guess
        kinds = re.findall(r"^### Exercise \d+ · (\w+)", cell.source, re.MULTILINE)
        exercises += sum(EXERCISE.get(kind, ANOTHER) for kind in kinds)
    return 5 * math.ceil(reading / 5), 5 * math.ceil(exercises / 5)


def refresh(notebook: nbformat.NotebookNode, number: str) -> None:
    """Write the generated cells: badges, road, set-up, and the card's lines on time."""
    made = {"badges": badges(number), "road": road(number), "setup": SETUP.rstrip()}
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            if tag in made:
                cell.source = made[tag]
            elif tag == "card":
                pattern = r"^- \*\*Time:\*\*.*$(\n- \*\*Your time:\*\*.*$)?"
                cell.source = re.sub(
                    pattern,
                    card_time(number, notebook),
                    cell.source,
                    flags=re.MULTILINE,
                )


class _Client(NotebookClient):
    """Runs the cells, and hands on what they print while they run."""

    on_text = None

    def process_message(self, msg, cell, cell_index):
        if self.on_text and msg["msg_type"] == "stream":
            self.on_text(msg["content"]["text"])
        return super().process_message(msg, cell, cell_index)


def execute(notebook: nbformat.NotebookNode, on_cell=None, on_text=None) -> None:
    """Run all cells in a fresh kernel, in notebooks/; stops at the first error.

    Args:
      notebook: filled with outputs in place, also when a cell fails.
      on_cell: called with the index of each cell before it runs.
      on_text: called with what a cell prints, when it prints it.
    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed.
    """
    client = _Client(
        notebook,
        timeout=1800,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
        coalesce_streams=True,
        record_timing=False,
        extra_arguments=["--log-level=40"],  # errors only on our terminal
    )
    client.on_text = on_text
    # Not client.execute(): its own handler turns Ctrl-C into an AssertionError.
    with client.setup_kernel():
        try:
            for index, cell in enumerate(notebook.cells):
                if on_cell:
                    on_cell(index)
                client.execute_cell(cell, index)
        except KeyboardInterrupt:
            client.shutdown_kernel = "immediate"
            raise


def normalise(notebook: nbformat.NotebookNode, number: str) -> None:
    """Keep what a reader needs and git can compare; drop widgets and their state."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
            **(TPU if "v5e-1" in LESSONS[number].minutes else {}),
        }
    )
    ids = set()
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        metadata = {"tags": tags} if tags else {}
        if cell.cell_type == "code" and ("setup" in tags or FIGURE in cell.source):
            metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
        cell.metadata = nbformat.from_dict(metadata)
        cell.id = _stable_id(cell.source, ids)
        cell.source = cell.source.rstrip()
        if cell.cell_type == "code":
            cell.outputs = [_clean(out) for out in cell.outputs if not _is_widget(out)]


def _stable_id(source: str, taken: set[str]) -> str:
    """An id that depends on the text only, so that it stays when cells move."""
    salt = 0
    while True:
        digest = hashlib.sha256(f"{salt}{source}".encode()).hexdigest()[:12]
        if digest not in taken:
            taken.add(digest)
            return digest
        salt += 1


def _is_widget(output) -> bool:
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def _clean(output):
    """The output without metadata, overwritten progress and this machine's paths."""
    if output.output_type == "stream":
        lines = output.text.replace("\r\n", "\n").split("\n")
        output.text = _portable("\n".join(line.rsplit("\r", 1)[-1] for line in lines))
    for kind, text in output.get("data", {}).items():
        if kind.startswith("text/") and isinstance(text, str):
            output.data[kind] = _portable(text)
    if "metadata" in output:
        output.metadata = nbformat.from_dict({})
    return output


def _portable(text: str) -> str:
    text = text.replace(str(ROOT), "course").replace(os.path.expanduser("~"), "~")
    return re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "this cell", text)


def convert(draft: pathlib.Path) -> pathlib.Path:
    """Write notebooks/<name>.ipynb from py:percent text, tags kept; give its path."""
    import jupytext  # a development tool; only drafts need it

    target = FOLDER / f"{draft.stem}.ipynb"
    number_of(target)
    nbformat.write(jupytext.read(draft, fmt="py:percent"), target)
    return target


def build(path: pathlib.Path, run: bool) -> None:
    """Refresh, format, execute (unless told not to) and normalise one notebook."""
    number = number_of(path)
    notebook = nbformat.read(path, as_version=4)
    refresh(notebook, number)
    normalise(notebook, number)
    nbformat.write(notebook, path)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", path], check=True)
    notebook = nbformat.read(path, as_version=4)
    try:
        if run:
            execute(notebook)
    finally:
        normalise(notebook, number)
        nbformat.validate(notebook)
        nbformat.write(notebook, path)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--no-run", action="store_true", help="do not execute")
    parser.add_argument(
        "--fresh", action="store_true", help="first delete the runs the notebook trains"
    )
    options = parser.parse_args()
    prepare_environment()
    files = options.files or [FOLDER / f"{row.file}.ipynb" for row in LESSONS.values()]
    for file in files:
        path = convert(file) if file.suffix == ".py" else file
        if options.fresh:
            forget_runs(number_of(path))
        started = time.monotonic()
        build(path, run=not options.no_run)
        size = path.stat().st_size / 1e3
        print(f"{path.name}: {time.monotonic() - started:.0f} s, {size:.0f} kB")


def prepare_environment() -> None:
    """Set what kernels started from here inherit: helpers, preset, folder, cache."""
    folder = build_folder()
    # The helpers of this copy of the course, also where another one is installed.
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(ROOT), *(path for path in others if path not in ("", str(ROOT)))]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["COURSE_BUILD"] = str(folder)
    os.environ.setdefault("COURSE_PRESET", "laptop")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build/jax-cache"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
    if os.environ["COURSE_PRESET"] == "laptop":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")


def forget_runs(number: str) -> None:
    """Delete the saved runs of one notebook, so that it trains anew."""
    for stage in LESSONS[number].stages:
        shutil.rmtree(run_folder(stage), ignore_errors=True)


if __name__ == "__main__":
    main()
