"""The set-up cell and notebooks in an imitation of Colab (`make colab-check`).

The imitation has the Python and the packages of [tool.course.colab] in pyproject.toml.
HEAD is released into a folder, git takes the course's address for that folder, and each
notebook starts as on Colab: alone in an empty folder. Kaggle gets the set-up cell only.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "colab"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COURSE = PROJECT["tool"]["course"]
REPOSITORY = PROJECT["project"]["urls"]["Repository"]
TAG = "v" + PROJECT["project"]["version"]
NOTEBOOKS = ("02", "04", "07")
MARKS = {"colab": "COLAB_RELEASE_TAG", "kaggle": "KAGGLE_KERNEL_RUN_TYPE"}
# Colab has these too; which release matters little here.
ALSO = ["matplotlib", "nbclient"]
# What the learner's shell may say and a new machine does not.
OURS = "COURSE_ COLAB_ KAGGLE_ JAX_ XLA_ PYTHON JUPYTER_ IPYTHON GIT_ MPL MAKE".split()

# Runs inside the imitation: a whole notebook, or its set-up cell and then other code.
EXECUTE = """
import sys, nbclient, nbformat
path, then = sys.argv[1:]
notebook = nbformat.read(path, as_version=4)
if then:
    setup = [c for c in notebook.cells if "setup" in c.metadata.get("tags", [])]
    assert len(setup) == 1, f"{path} has {len(setup)} set-up cells"
    notebook.cells = [*setup, nbformat.v4.new_code_cell(then)]
client = nbclient.NotebookClient(notebook, timeout=3600, kernel_name="python3")
try:
    client.execute()
finally:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            print(output.get("text", ""), end="")
"""

IMPORT = """
import importlib, pathlib, pkgutil, helpers
here = pathlib.Path("course").resolve()
assert here in pathlib.Path(helpers.__file__).resolve().parents, helpers.__file__
for room in pkgutil.walk_packages(helpers.__path__, "helpers."):
    importlib.import_module(room.name)
"""


class Unavailable(RuntimeError):
    """This machine cannot imitate the platform: no such Python, or no package index."""


class Failed(RuntimeError):
    """The course does not work on the imitated platform; the message says where."""


def requirements(platform: str) -> list[str]:
    """What pip installs before the notebook starts; Kaggle's packages are Colab's."""
    pins = COURSE["colab"] | COURSE[platform]
    return [f"{name}=={pins[name]}" for name in pins if name != "python"] + ALSO


def find_python(versions: list[str]) -> str:
    """An interpreter of the first of these minor versions that works here.

    Raises:
      Unavailable: there is none, neither on the PATH nor among pyenv's.
    """
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for version in versions:
        # pyenv's own name on the PATH works only for versions it was told to use.
        pythons = [shutil.which(f"python{version}")]
        pythons += sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
        for python in filter(None, pythons):
            works = [python, "-c", "import ensurepip, venv"]
            if not subprocess.run(works, capture_output=True).returncode:
                return str(python)
    raise Unavailable(
        f"No Python {' or '.join(versions)} with ensurepip was found, so Colab cannot "
        f"be imitated. Install Python {versions[0]} so that `python{versions[0]}` "
        f"starts it: python.org, `pyenv install {versions[0]}`, or on Debian "
        f"`apt install python{versions[0]}-venv`."
    )


def run(command: list, error: type[Exception], **options) -> str:
    """Start a command; returns what it printed, raises `error` with the last lines."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode:
        output = (done.stdout + done.stderr).strip().splitlines()[-200:]
        shown = " ".join(word for word in words if "\n" not in word)
        raise error("\n".join([f"{shown} ended with {done.returncode}:", *output]))
    return done.stdout


def clean_environment() -> dict[str, str]:
    """The variables of this process without the ones that would help or hinder."""
    return {k: v for k, v in os.environ.items() if not k.startswith(tuple(OURS))}


def base_environment(platform: str) -> pathlib.Path:
    """The environment a platform starts with, made once per set of pins.

    Raises:
      Unavailable: no such Python, or pip cannot install the pins.
    """
    versions = [*dict.fromkeys(COURSE[name]["python"] for name in (platform, *MARKS))]
    python, needs = find_python(versions), requirements(platform)
    version = run([python, "--version"], Unavailable).strip()
    key = hashlib.sha256("\n".join([version, *needs]).encode()).hexdigest()[:12]
    home, draft = CACHE / key, CACHE / f"{key}-{os.getpid()}"
    print(f"{platform}: {version}, packages of {home}, HEAD as {TAG}", flush=True)
    clean = clean_environment()
    if home.exists():
        online = "install -q --dry-run --ignore-installed --no-deps --retries 1 pip"
        python = home / "bin" / "python"
        run([python, "-m", "pip", *online.split()], Unavailable, env=clean)
        return home
    try:
        run([python, "-m", "venv", draft], Unavailable, env=clean)
        pip = [draft / "bin" / "python", "-m", "pip", "install", "-q"]
        with timed(f"{platform}: its own packages"):
            run([*pip, *needs], Unavailable, env=clean)
        draft.rename(home)  # only a whole one gets the name
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def release(folder: pathlib.Path) -> pathlib.Path:
    """Makes a repository with HEAD under the release tag; returns its folder."""
    git = ["git", "-c", "user.name=check", "-c", "user.email=check@localhost"]
    clean = clean_environment()
    run([*git, "clone", "-q", f"file://{ROOT}", folder], Failed, env=clean)
    run([*git, "tag", "-f", TAG], Failed, cwd=folder, env=clean)
    return folder


@dataclasses.dataclass
class Machine:
    """A fresh machine of a platform: its Python, and a folder for what it works on."""

    platform: str
    home: pathlib.Path

    @property
    def python(self) -> pathlib.Path:
        """The interpreter that notebooks run in."""
        return self.home / "python" / "bin" / "python"

    def variables(self, repository: pathlib.Path) -> dict[str, str]:
        """The environment in which git finds `repository` at the course's address."""
        return clean_environment() | {
            MARKS[self.platform]: "imitation",
            "COURSE_PRESET": "laptop",  # no hour of a real model
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{repository}.insteadOf",
            "GIT_CONFIG_VALUE_0": REPOSITORY,
            "GIT_ALLOW_PROTOCOL": "file",
            "JUPYTER_PREFER_ENV_PATH": "1",
            "IPYTHONDIR": str(self.home / "ipython"),
            "HF_HUB_OFFLINE": "1",
        }

    def packages(self) -> dict[str, str]:
        """Version by name of all that is installed."""
        show = [self.python, "-m", "pip", "list", "--format=freeze"]
        frozen = run(show, Failed, env=clean_environment())
        return dict(line.split("==") for line in frozen.splitlines())

    def execute(self, number: str, repository: pathlib.Path, then: str = "") -> str:
        """Run a released notebook, alone in an empty folder; returns what it printed.

        Args:
          number: such as "07".
          repository: made by `release`.
          then: code to run after the set-up cell, in place of the rest.
        Raises:
          Failed: a cell failed; ends with its traceback.
        """
        (notebook,) = repository.glob(f"notebooks/{number}_*.ipynb")
        folder = pathlib.Path(tempfile.mkdtemp(prefix=number, dir=self.home))
        shutil.copy(notebook, folder)
        command = [self.python, "-c", EXECUTE, folder / notebook.name, then]
        return run(command, Failed, cwd=folder, env=self.variables(repository))


@contextlib.contextmanager
def machine(platform: str):
    """A fresh machine; it is gone afterwards, with all that was installed on it."""
    base = base_environment(platform)
    with tempfile.TemporaryDirectory(dir=CACHE) as home:
        # A copy, and not an environment on top: pip must be able to replace packages.
        shutil.copytree(base, pathlib.Path(home, "python"), symlinks=True)
        yield Machine(platform, pathlib.Path(home))


def replaced(before: dict[str, str], after: dict[str, str], pins: list[str]) -> None:
    """Raises Failed where a package among `pins` is not what it was."""
    names = [pin.split("==")[0] for pin in pins if "==" in pin]
    lost = [f"{n} {before[n]}" for n in names if before[n] != after.get(n)]
    if lost:
        raise Failed(f"Packages of the platform were replaced: {', '.join(lost)}.")


@contextlib.contextmanager
def timed(what: str):
    """Print what runs, and then how many seconds it took."""
    print(f"{what:<30}", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    finally:
        print(f"{time.monotonic() - started:6.0f} s", flush=True)


def check(platform: str, numbers=()) -> None:
    """Set-up cell, imports, untouched packages, then whole notebooks.

    Args:
      platform: "colab" or "kaggle".
      numbers: notebooks to run from first to last cell.
    Raises:
      Unavailable: the platform cannot be imitated here.
      Failed: something of the course does not work there.
    """
    with machine(platform) as here, tempfile.TemporaryDirectory() as scratch:
        before, pins = here.packages(), requirements(platform)
        released = release(pathlib.Path(scratch, "course"))
        with timed(f"{platform}: set-up and imports"):
            here.execute("02", released, then=IMPORT)
        replaced(before, here.packages(), pins)
        for number in numbers:
            with timed(f"{platform}: notebook {number}"):
                output = here.execute(number, released)
            if f"\n{platform}: " not in output or f"jax {before['jax']}" not in output:
                raise Failed(f"Notebook {number} did not run on {platform}:\n{output}")
        replaced(before, here.packages(), pins)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", default=NOTEBOOKS, help="such as 07")
    numbers = parser.parse_args().numbers
    try:
        check("colab", numbers)
        check("kaggle")
    except (Unavailable, Failed) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
