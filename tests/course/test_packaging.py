"""Packaging holds together: one set of requirements, floors that fit Colab, `make`."""

import ast
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import course_notebooks as course
import publish
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import helpers
from helpers.course.syllabus import LESSONS

ROOT = course.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COURSE = PROJECT["tool"]["course"]
CORE = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
EXTRAS = PROJECT["project"]["optional-dependencies"]
APP, DEV, WATCH, SCALE = (
    [*map(Requirement, EXTRAS[name])] for name in ("app", "dev", "watch", "scale")
)
IMPORTED_AS = {
    "orbax-checkpoint": "orbax",
    "pillow": "PIL",
    "PyYAML": "yaml",
    "pytest-xdist": "xdist",
    "tpu-info": "tpu_info",
    "websocket-client": "websocket",
}


def test_environment_yml_has_exactly_the_requirements_of_pyproject():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    assert pip[-1] == "-e ."
    required = sorted(map(str, CORE + APP + DEV + WATCH))
    assert sorted(map(str, map(Requirement, pip[:-1]))) == required
    (python,) = [Requirement(e) for e in listed if str(e).startswith("python")]
    floor = SpecifierSet(PROJECT["project"]["requires-python"])
    assert {str(spec) for spec in floor} <= {str(spec) for spec in python.specifier}


def imports_of(file: pathlib.Path) -> set[str]:
    """Top-level names of the modules a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_no_room_needs_what_is_not_declared_and_none_the_forbidden():
    ours = {IMPORTED_AS.get(r.name, r.name) for r in CORE + APP + WATCH + SCALE}
    # These come with a declared package and are part of its interface.
    ours |= {"helpers", "IPython", "huggingface_hub", "mpl_toolkits"}
    ours |= {"etils"}  # of Orbax
    # The platforms' own secrets and models, imported only there.
    ours |= {"google", "kaggle_secrets", "kagglehub"}
    ours |= {"pillow_heif"}  # reads HEIC where a user has installed it
    for file in sorted((ROOT / "helpers").rglob("*.py")):
        foreign = imports_of(file) - set(sys.stdlib_module_names) - ours
        assert not foreign, f"{file.name} imports {foreign}"
        assert "pickle" not in imports_of(file), f"{file.name}: safetensors, not pickle"


def test_floors_admit_what_colab_and_kaggle_have():
    python = SpecifierSet(PROJECT["project"]["requires-python"])
    assert COURSE["colab"]["python"] in python and COURSE["kaggle"]["python"] in python
    for requirement in CORE:
        there = COURSE["colab"].get(requirement.name)
        assert there is None or there in requirement.specifier, str(requirement)
        operators = {spec.operator for spec in requirement.specifier}
        assert operators == {">="}, f"{requirement}: a bound would fight the platform"


def test_what_the_platform_keeps_covers_what_we_require_of_it():
    assert {"jax", "jaxlib", "flax", "numpy", "libtpu"} <= set(COURSE["keep"])
    core = {r.name for r in CORE}
    assert set(COURSE["colab"]) & core <= {*COURSE["keep"], "ipywidgets"}


def run_setup(monkeypatch, tmp_path, on: str | None, fail: bool = False):
    """Run the set-up cell as on a platform; returns the commands it started."""
    commands = []

    def run(command, check):
        assert check is True
        commands.append(command)
        if fail and "pip" in command:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"):
        monkeypatch.delenv(name, raising=False)
    if on:
        monkeypatch.setenv(on, "1")
    exec(publish.SETUP, {})
    return commands


@pytest.mark.parametrize("on", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
def test_set_up_installs_under_constraints_equal_to_what_is_there(
    monkeypatch, tmp_path, on
):
    clone, pip = run_setup(monkeypatch, tmp_path, on)
    assert publish.REPOSITORY in clone and publish.TAG in clone
    assert pip[pip.index("-c") + 1] == "keep.txt"
    pinned = dict(line.split("==") for line in (tmp_path / "keep.txt").open())
    for name in ("jax", "jaxlib", "flax", "numpy"):
        assert pinned[name].strip() == importlib.metadata.version(name)


def test_set_up_stops_where_pip_fails(monkeypatch, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        run_setup(monkeypatch, tmp_path, "COLAB_RELEASE_TAG", fail=True)


def test_set_up_changes_nothing_on_a_laptop(monkeypatch, tmp_path):
    assert run_setup(monkeypatch, tmp_path, None) == []
    assert list(tmp_path.iterdir()) == []


OFFLINE = """
import socket, sys
def no_network(*_, **__):
    raise AssertionError("touched the network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = no_network
import helpers
assert not {"jax", "numpy"} & set(sys.modules), "import helpers is slow"
import helpers.training
ours = [name for name in sys.modules if name.startswith("helpers")]
assert len(ours) <= 60, ours
import helpers.text.chat, helpers.text.tokenizer
assert not {"torch", "transformers", "tokenizers"} & set(sys.modules)
import importlib, pkgutil
for room in pkgutil.walk_packages(helpers.__path__, "helpers."):
    importlib.import_module(room.name)
heavy = {"torch", "tunix", "ray", "vllm", "tensorflow", "openai", "gradio"}
assert not (loaded := heavy & set(sys.modules)), loaded
"""


def test_importing_is_quick_and_touches_no_network():
    subprocess.run([sys.executable, "-c", OFFLINE], check=True, cwd=ROOT)


def test_every_package_folder_is_packaged_and_the_version_stands_once():
    packages = PROJECT["tool"]["setuptools"]["packages"]
    assert packages == {"find": {"include": ["helpers*"]}}, "all folders with a door"
    for file in (ROOT / "helpers").rglob("*.py"):
        assert (file.parent / "__init__.py").exists(), file
    packaged = {
        path
        for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    for file in (ROOT / "helpers").rglob("*.*"):
        if file.suffix not in (".py", ".pyc"):
            assert file in packaged, f"{file} stays behind"
    assert helpers.__version__ == PROJECT["project"]["version"]


def test_make_test_runs_every_notebook_once():
    # The suite itself may be run by make, whose flags must not reach this one.
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    plan = subprocess.run(
        ["make", "-n", "test"], cwd=ROOT, env=env, capture_output=True, text=True
    ).stdout.replace("\\\n", " ")
    assert "ruff check" in plan and "-m mypy" in plan and "-m slow" in plan
    listed = re.findall(r"notebooks/[\w]+\*?\.ipynb", plan[plan.index("--nbval-lax") :])
    notebooks = [path for name in listed for path in ROOT.glob(name)]
    assert sorted(notebooks) == sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) == len(LESSONS)


def test_pre_commit_has_the_ruff_of_pyproject():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (ruff,) = [r for r in DEV if r.name == "ruff"]
    assert f"=={config['repos'][0]['rev'].removeprefix('v')}" == str(ruff.specifier)


def test_the_workflow_runs_targets_that_exist():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = " ".join(step.get("run", "") for step in steps)
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([\w-]+)", commands):
        assert re.search(rf"^{target}:|\b{target}\b.*:", makefile, re.MULTILINE)
    assert ".ci/run" in commands


def test_the_citation_has_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["repository-code"] == PROJECT["project"]["urls"]["Repository"]
