"""Packaging holds together: one set of requirements, floors that fit Colab, `make`."""

import ast
import importlib.metadata
import os
import pathlib
import re
import shutil
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
    [Requirement(text) for text in EXTRAS[name]]
    for name in ("app", "dev", "watch", "scale")
)
IMPORTED_AS = {
    "orbax-checkpoint": "orbax",
    "pillow": "PIL",
    "PyYAML": "yaml",
    "pytest-xdist": "xdist",
    "tpu-info": "tpu_info",
    "websocket-client": "websocket",
}


def environment_lines() -> list[tuple[Requirement, str]]:
    """(requirement, comment) of each package under pip in environment.yml."""
    text = (ROOT / "environment.yml").read_text()
    after_pip = text.split("- pip:\n")[1]
    lines = re.findall(r"^ {6}- (?!-e)(.+?)(?:  # (.*))?$", after_pip, re.MULTILINE)
    return [(Requirement(requirement), comment) for requirement, comment in lines]


def test_environment_yml_has_exactly_the_requirements_of_pyproject():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    assert pip[-1] == "-e ."
    assert sorted(map(str, map(Requirement, pip[:-1]))) == sorted(
        map(str, CORE + APP + DEV + WATCH)
    )
    (python,) = [Requirement(e) for e in listed if str(e).startswith("python")]
    floor = SpecifierSet(PROJECT["project"]["requires-python"])
    assert {str(spec) for spec in floor} <= {str(spec) for spec in python.specifier}


def test_every_package_says_who_needs_it_and_they_do():
    lines = environment_lines()
    assert len(lines) == len(CORE + APP + DEV + WATCH)
    for requirement, comment in lines:
        assert comment, f"{requirement.name}: a comment says which notebook needs it"
        for name in re.findall(r"(?:helpers|notebooks|tests)/[\w/]+(?:\.py)?", comment):
            path = ROOT / name
            assert path.exists(), f"{requirement.name}: {name} does not exist"
            files = [path] if path.is_file() else list(path.rglob("*.py"))
            module = IMPORTED_AS.get(requirement.name, requirement.name)
            used = set().union(*(imports_of(file) for file in files))
            assert module in used, f"{name} does not import {module}"


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
    ours = {IMPORTED_AS.get(r.name, r.name) for r in CORE + APP + WATCH + SCALE} | {
        "helpers"
    }
    # These come with a declared package and are part of its interface.
    ours |= {"IPython", "huggingface_hub", "mpl_toolkits"}
    ours |= {"etils"}  # of Orbax
    # The platforms' own secrets and models, imported only there.
    ours |= {"google", "kaggle_secrets", "kagglehub"}
    for file in sorted((ROOT / "helpers").rglob("*.py")):
        foreign = imports_of(file) - set(sys.stdlib_module_names) - ours
        assert not foreign, f"{file.name} imports {foreign}"
        assert "pickle" not in imports_of(file), f"{file.name}: safetensors, not pickle"


def test_only_the_files_that_say_so_need_the_extra_scale():
    """`make env` does not install Ray, nor does Colab's set-up cell."""
    needs = {
        file.name: imports_of(file) & {"ray", "simpy"}
        for file in (ROOT / "helpers").rglob("*.py")
    }
    found = {name: modules for name, modules in needs.items() if modules}
    assert found == {
        "workers.py": {"ray"},
        "simulation.py": {"simpy"},
    }
    for room in helpers.ROOMS:
        door = (ROOT / "helpers" / room / "__init__.py").read_text()
        assert "RayWorkerPool" not in door and "simulation" not in door


def test_floors_admit_what_colab_and_kaggle_have():
    python = SpecifierSet(PROJECT["project"]["requires-python"])
    assert COURSE["colab"]["python"] in python and COURSE["kaggle"]["python"] in python
    for requirement in CORE:
        there = COURSE["colab"].get(requirement.name)
        assert there is None or there in requirement.specifier, str(requirement)
    for requirement in CORE:
        operators = {spec.operator for spec in requirement.specifier}
        assert operators == {">="}, f"{requirement}: a bound would fight the platform"


def test_the_floor_of_optax_has_what_muon_is_called_with():
    """`muon_weight_dimension_numbers` came with 0.2.6."""
    (optax,) = [r for r in CORE if r.name == "optax"]
    assert "0.2.6" in optax.specifier and "0.2.5" not in optax.specifier


@pytest.mark.parametrize("name", ["ruff", "mypy"])
def test_what_lints_is_pinned(name):
    """Releases format and complain differently: elsewhere `make lint` would fail."""
    (tool,) = [r for r in DEV if r.name == name]
    assert [spec.operator for spec in tool.specifier] == ["=="]


def test_what_the_platform_keeps_covers_what_we_require_of_it():
    assert {"jax", "jaxlib", "flax", "numpy", "libtpu"} <= set(COURSE["keep"])
    assert set(COURSE["colab"]) & {r.name for r in CORE} <= {
        *COURSE["keep"],
        "ipywidgets",
    }


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
    kept = dict(line.split("==") for line in (tmp_path / "keep.txt").open())
    for name in ("jax", "jaxlib", "flax", "numpy"):
        assert kept[name].strip() == importlib.metadata.version(name)


def test_set_up_stops_where_pip_fails(monkeypatch, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        run_setup(monkeypatch, tmp_path, "COLAB_RELEASE_TAG", fail=True)


def test_set_up_changes_nothing_on_a_laptop(monkeypatch, tmp_path):
    assert run_setup(monkeypatch, tmp_path, None) == []
    assert list(tmp_path.iterdir()) == []


OFFLINE = """
import socket, sys, time
def no_network(*_, **__):
    raise AssertionError("touched the network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = no_network
import helpers
assert time.process_time() < 2, "import helpers takes too long"
import importlib, pkgutil
for room in pkgutil.walk_packages(helpers.__path__, "helpers."):
    importlib.import_module(room.name)
heavy = {"torch", "tunix", "ray", "vllm", "tensorflow"} & set(sys.modules)
assert not {"openai", "gradio"} & set(sys.modules), "extras are imported when used"
assert not heavy, heavy
"""


def test_importing_is_quick_and_touches_no_network():
    subprocess.run([sys.executable, "-c", OFFLINE], check=True, cwd=ROOT)


def test_every_package_folder_is_packaged_and_the_version_stands_once():
    found = PROJECT["tool"]["setuptools"]["packages"]
    assert found == {"find": {"include": ["helpers*"]}}, "all folders with a door"
    for file in (ROOT / "helpers").rglob("*.py"):
        assert (file.parent / "__init__.py").exists(), file
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for file in (ROOT / "helpers").rglob("*.*"):
        if file.suffix not in (".py", ".pyc"):
            room = ".".join(file.parent.relative_to(ROOT).parts)
            assert f"*{file.suffix}" in data.get(room, []), f"{file} stays behind"
    assert helpers.__version__ == PROJECT["project"]["version"]


def test_readme_links_every_notebook_with_its_badges_and_minutes():
    text = (ROOT / "README.md").read_text()
    address = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", text, re.MULTILINE))
    repository = PROJECT["project"]["urls"]["Repository"]
    at_tag = f"blob/v{PROJECT['project']['version']}/notebooks"
    on_colab = repository.replace("github.com", "colab.research.google.com/github")
    for number, lesson in LESSONS.items():
        (row,) = re.findall(rf"^\| {number} \|.*$", text, re.MULTILINE)
        assert f"[{lesson.title}](notebooks/{lesson.file}.ipynb)" in row
        assert f"| {lesson.minutes['laptop']} min |" in row
        assert len(row) < 160, "the addresses stand below, not in the table"
        badge, colab, kaggle = re.findall(r"\]\[([\w-]+)\]", row)
        assert address[badge].endswith("colab-badge.svg")
        file = f"{at_tag}/{lesson.file}.ipynb"
        assert address[colab] == f"{on_colab}/{file}"
        assert address[kaggle].endswith(f"kernels/welcome?src={repository}/{file}")


def test_the_address_of_the_repository_stands_in_one_place():
    owner = publish.REPOSITORY.removeprefix("https://github.com/")
    address = re.compile(rf"{re.escape(owner.split('/')[0])}/[\w.-]+")
    for file in ("README.md", "CONTRIBUTING.md", "Makefile", "environment.yml"):
        for found in address.findall((ROOT / file).read_text()):
            assert found.rstrip(".") == owner, f"{file}: {found}"


def test_make_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(
        r"^\.PHONY: (.*)$", makefile.replace("\\\n", ""), re.MULTILINE
    )
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True).stdout
    assert re.findall(r"^  make ([\w-]+)", shown, re.MULTILINE) == phony.split()
    assert set(
        "env course test lab notebooks tiny seeds bench tpu-check colab-check".split()
    ) <= set(phony.split())


def test_make_test_ends_with_pytest():
    # The suite itself may be run by make, whose flags must not reach this one.
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    plan = subprocess.run(
        ["make", "-n", "test"], cwd=ROOT, env=env, capture_output=True, text=True
    ).stdout.replace("\\\n", " ")
    commands = [line for line in plan.splitlines() if line.strip()]
    assert "--nbval-lax" in commands[-1]
    suites = [command for command in commands if "pytest" in command]
    for command in suites[1:]:  # what takes minutes is begun with, as it is listed
        assert "--dist loadfile --no-loadscope-reorder" in command
    assert len(suites) == 3
    assert "ruff check" in plan and "-m mypy" in plan


@pytest.mark.parametrize("target", ["test-slow", "test-notebooks"])
def test_thirds_are_the_whole_and_nothing_twice(target):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}

    def files(part):
        plan = subprocess.run(
            ["make", "-n", target, f"PART={part}"],
            cwd=ROOT, env=env, capture_output=True, text=True,
        ).stdout.replace("\\\n", " ")  # fmt: skip
        (listed,) = re.findall(r"\$\(([^()]+)\)\n*$", plan.strip())
        shell = ["bash", "-c", listed]
        return subprocess.run(
            shell, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()

    whole, thirds = files(""), [files(part) for part in (1, 2, 3)]
    assert sorted(sum(thirds, [])) == sorted(whole) and len(set(whole)) == len(whole)
    assert all(len(third) > 4 for third in thirds)
    if target == "test-notebooks":
        there = {str(path.relative_to(ROOT)) for path in ROOT.glob("notebooks/*.ipynb")}
        assert set(whole) == there
        assert whole[0].startswith("notebooks/08"), "the longest come first"
    else:
        assert {
            "tests/runtime/test_distributed.py",
            "tests/app/test_page.py",
        } <= set(whole)


@pytest.mark.parametrize("target", ["lab", "notebooks"])
def test_make_works_in_a_folder_whose_name_has_spaces(tmp_path, target):
    course_copy = tmp_path / "my course's copy"
    (course_copy / ".venv" / "bin").mkdir(parents=True)
    (course_copy / ".ci").mkdir()
    for name in ("Makefile", "pyproject.toml", ".ci/env"):
        (course_copy / name).write_text((ROOT / name).read_text())
    python = course_copy / ".venv" / "bin" / "python"
    python.write_text(
        '#!/bin/bash\necho "$COURSE_BUILD|$JAX_COMPILATION_CACHE_DIR" >> log\n'
        'echo "$*" >> asked\n'
    )
    python.chmod(0o755)
    (course_copy / ".venv" / "ready").touch()
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "JAX_", "COURSE_"))
    }
    subprocess.run(["make", target], cwd=course_copy, env=clean, check=True)
    build = course_copy / "build"
    own = build if target == "lab" else build / "committed"
    if target == "lab":
        assert "notebooks/00_start_here.ipynb" in (course_copy / "asked").read_text()
    for line in (course_copy / "log").read_text().splitlines():
        assert line == f"{own}|{build / 'jax-cache'}"


def test_ci_is_strict_and_runs_make_test_then_imitates_colab():
    script = (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "set -euo pipefail" in script
    assert "HF_HUB_OFFLINE=1" in script and "COURSE_CI=1" in script


PARTS = [f"test-{what} PART={n}" for n in (1, 2, 3) for what in ("slow", "notebooks")]
BESIDE, SERVERS = ["colab-check", "parity"], ["serve-check", "app-check", "scale"]
CI_TARGETS = ["lint", "test-fast", "real-model", *PARTS, *BESIDE, *SERVERS, "tpu-check"]


def run_ci(folder, make, quick=False, **settings):
    """What `.ci/run` printed, its code, and what it asked of this `make`.

    quick: each part is thought to take a second.
    """
    (folder / ".ci").mkdir()
    copy = pathlib.Path(shutil.copy(ROOT / ".ci" / "run", folder / ".ci"))
    if quick:
        copy.write_text(
            re.sub(r'"\d+ (make|beside|servers)', r'"1 \1', copy.read_text())
        )
    stand_in = folder / "make"
    stand_in.write_text(f'#!/bin/bash\necho "$*" >> asked\n{make}\n')
    stand_in.chmod(0o755)
    own = {"PATH": f"{folder}:{os.environ['PATH']}"} | settings
    done = subprocess.run(
        [folder / ".ci" / "run"], env=os.environ | own, capture_output=True, text=True
    )
    return done, (folder / "asked").read_text().splitlines()


@pytest.mark.parametrize("broken", [None, *CI_TARGETS])
def test_ci_runs_everything_and_fails_if_any_of_it_does(broken, tmp_path):
    """With a `make` that writes down what it was asked, and fails at one of it."""
    done, asked = run_ci(tmp_path, f'[[ ! "$*" =~ ^"{broken}" ]]')
    assert (done.returncode == 0) == (broken is None), done.stderr
    assert "NOT CHECKED" not in done.stdout
    if broken is None:
        told = [re.sub(r" (SCALE|TPU)_ARGS.*", "", line) for line in asked]
        assert sorted(told) == sorted(CI_TARGETS)
        assert asked[:3] == ["lint", "test-fast", "real-model"]
        assert "tpu-check TPU_ARGS=--quick" in asked
        assert "scale SCALE_ARGS=--quick --runs killed" in asked


def test_ci_names_what_would_not_end_in_time(tmp_path):
    """In 260 seconds of idle cores: no part of 270 or more."""
    done, asked = run_ci(tmp_path, "true", CI_SECONDS="260")
    left = re.findall("^NOT CHECKED.*: (.*)$", done.stdout, re.MULTILINE)
    notebooks = [f"make test-notebooks PART={n}" for n in (1, 2, 3)]
    assert done.returncode == 0 and sorted(left) == ["beside", *notebooks, "servers"]
    assert len(asked) == len(CI_TARGETS) - 9


def test_ci_leaves_more_where_fast_tests_take_longer(tmp_path):
    """Twice as long as on idle cores, so that 450 seconds are too few for 240."""
    slow = 'if [ "$1" = test-fast ]; then sleep 2; fi'
    done, asked = run_ci(tmp_path, slow, CI_SECONDS="450", CI_FAST="1")
    assert done.returncode == 0 and done.stdout.count("NOT CHECKED") == 8
    assert asked == ["lint", "test-fast", "real-model"]


@pytest.mark.parametrize("stuck", ["test-slow PART=1", "parity", "serve-check"])
def test_ci_cuts_off_a_part_that_goes_on_and_says_so(stuck, tmp_path):
    """A target that does not end: its part is named, and what no time is left for."""
    endless = f'if [[ "$*" =~ ^"{stuck}" ]]; then sleep 60; fi'
    done, asked = run_ci(tmp_path, endless, quick=True, CI_SECONDS="6")
    left = re.findall("^NOT CHECKED.*: (.*)$", done.stdout, re.MULTILINE)
    part = {"parity": "beside", "serve-check": "servers"}.get(stuck, f"make {stuck}")
    assert done.returncode == 0
    assert [name for name in left if "cut off" in name] == [f"{part} (cut off)"]


@pytest.mark.parametrize("commit, first", [("000003", 3), ("00000f", 7), ("!", 0)])
def test_ci_begins_with_another_part_at_another_commit(commit, first, tmp_path):
    git = tmp_path / "git"
    git.write_text(f"#!/bin/bash\n[ {commit} != ! ] && echo {commit}ffff\n")
    git.chmod(0o755)
    done, asked = run_ci(tmp_path, "true")
    turned = asked[3:]
    parts = [line for line in turned if line.startswith("test-")]
    whole = [f"test-{what} PART={n}" for n in "123" for what in ("notebooks", "slow")]
    assert parts == [*whole[first:], *whole[:first]]
    assert (
        turned[0].startswith("serve-check"),
        turned[-1].startswith("tpu-check"),
    ) == (
        first == 7,
        first == 0,
    )


# Stands for every command that .ci/env starts; says what it was asked. A .venv that it
# makes has pip where there is a file of that name beside its python.
FAKE_PYTHON = """#!/bin/bash
echo "$(basename "$0") $*" >> "$LOG"
case "$*" in
  *"import sys, venv"*) ;;
  *"-m venv"*)
    [[ "$*" == *--without-pip* || "$LACKS" != *ensurepip* ]] || exit 1
    mkdir -p .venv/bin; cp "$0" .venv/bin/python
    [[ "$*" == *--without-pip* ]] || touch .venv/bin/pip ;;
  *"-m pip --version"*)
    case "$0" in
      .venv/*) [ -e .venv/bin/pip ] ;;
      *) [[ "$LACKS" != *" pip" ]] ;;
    esac ;;
  *"pip --python"*) touch .venv/bin/pip ;;
  --version) echo "Python 3.12.1" ;;
  *"pip install"*)
    echo "$PIP_SAYS"
    [ -e .venv/bin/pip ] && [ "$(grep -c 'pip install' "$LOG")" -ge "$SUCCEEDS_AT" ] ;;
esac
"""


@pytest.fixture
def run_env(tmp_path):
    """Runs .ci/env on made-up Pythons, in the folder it gives; returns what they got.

    `lacks` names what the Pythons have not: "ensurepip", or "ensurepip, pip".
    """
    course_copy, commands = tmp_path / "the course", tmp_path / "bin"
    (course_copy / ".ci").mkdir(parents=True)
    commands.mkdir()
    (course_copy / ".ci" / "env").write_text((ROOT / ".ci" / "env").read_text())
    fakes = {
        "python3.13": "#!/bin/bash\nexit 127\n",  # a shim with nothing behind it
        "python3.12": FAKE_PYTHON,
        "python3": FAKE_PYTHON,
        "python3.11": "#!/bin/bash\nexit 127\n",
        "python": "#!/bin/bash\nexit 127\n",
        "sleep": "#!/bin/bash\n",
    }
    for name, text in fakes.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)

    def run(*, succeeds_at=1, lacks="", pip_says="", **more):
        log = tmp_path / "log"
        log.write_text("")
        environment = {
            "PIP_SAYS": pip_says,
            **more,
            "PATH": f"{commands}:/usr/bin:/bin",
            "LOG": str(log),
            "SUCCEEDS_AT": str(succeeds_at),
            "LACKS": lacks,
        }
        script = ["bash", str(course_copy / ".ci" / "env")]
        done = subprocess.run(script, env=environment, capture_output=True, text=True)
        return done, log.read_text()

    run.folder, run.commands = course_copy, commands
    return run


@pytest.mark.parametrize("succeeds_at, code", [(1, 0), (3, 0), (9, 1)])
def test_env_takes_the_newest_python_that_works_and_retries(run_env, succeeds_at, code):
    done, asked = run_env(succeeds_at=succeeds_at)
    assert done.returncode == code, done.stderr
    assert "python3.12 -m venv .venv" in asked and "python3 -m venv" not in asked
    assert asked.count("pip install") == min(succeeds_at, 4)


@pytest.mark.parametrize("lacks", ["", "ensurepip"])
def test_env_makes_a_venv_anew_that_was_left_without_pip(run_env, lacks):
    """As a kill between `venv` and pip leaves it; a whole one is kept."""
    done, _ = run_env(lacks=lacks)
    assert done.returncode == 0, done.stderr
    for half_made in (True, False):
        if half_made:
            (run_env.folder / ".venv" / "bin" / "pip").unlink()
        done, asked = run_env(lacks=lacks)
        assert done.returncode == 0, done.stderr
        assert ("python3.12 -m venv" in asked) == half_made
        assert asked.count("pip install") == 1


def test_env_without_ensurepip_and_pip_says_what_to_install(run_env):
    done, asked = run_env(lacks="ensurepip, pip")
    assert done.returncode == 1 and "No working Python" in done.stderr
    assert "python3-venv" in done.stderr
    assert "python3 -m venv" in asked, "the next Python may have what the first has not"
    assert "pip install" not in asked
    assert not (run_env.folder / ".venv").exists()


REFUSED = (
    "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
    "'NewConnectionError(': Failed to establish a new connection: [Errno 111] refused\n"
    "ERROR: No matching distribution found for setuptools>=77"
)


def test_env_without_network_says_so_and_does_not_try_again(run_env):
    done, asked = run_env(succeeds_at=9, pip_says=REFUSED, PIP_INDEX_URL="http://here/")
    assert done.returncode == 1 and asked.count("pip install") == 1
    assert "needs the network" in done.stderr and "http://here/" in done.stderr
    assert "Errno 111" in done.stderr, "pip's own reason is not shown"


def test_env_tries_again_where_the_network_comes_and_goes(run_env):
    done, asked = run_env(
        succeeds_at=3, pip_says=f"Downloading x.whl (7 kB)\n{REFUSED}"
    )
    assert done.returncode == 0 and asked.count("pip install") == 3


def test_env_on_a_full_disk_says_what_it_takes_and_does_not_try_again(run_env):
    full = "ERROR: Could not install packages: [Errno 28] No space left on device"
    done, asked = run_env(succeeds_at=9, pip_says=f"Downloading x.whl (7 kB)\n{full}")
    assert done.returncode == 1 and asked.count("pip install") == 1
    assert "1.9 GB" in done.stderr.splitlines()[-1]


def test_env_says_what_it_needs_and_what_pip_does(run_env):
    said = "Collecting jax>=0.7\nInstalling collected packages: jax, numpy, flax"
    done, _ = run_env(pip_says=said)
    assert "470 MB" in done.stdout and "1.9 GB" in done.stdout
    assert "unpacking 3 packages" in done.stdout


def test_env_refuses_a_python_that_is_too_old_and_names_its_version(run_env):
    old = run_env.commands / "python3.8"
    old.write_text(
        '#!/bin/bash\n[ "$1" = --version ] && echo Python 3.8.10 || exit 1\n'
    )
    old.chmod(0o755)
    for there in (False, True):  # also where an environment is there already
        done, asked = run_env(PYTHON="python3.8")
        assert done.returncode == 1 and asked == ""
        assert "PYTHON=python3.8 is Python 3.8.10" in done.stderr
        assert "3.11 or newer" in done.stderr
        assert (run_env.folder / ".venv").exists() == there
        run_env()
    done, _ = run_env(PYTHON=str(run_env.commands / "nothing"))
    assert done.returncode == 1 and "nothing does not run" in done.stderr


def test_env_takes_the_python_it_is_told_and_no_other(run_env):
    done, asked = run_env(PYTHON="python3")
    assert done.returncode == 0 and "python3 -m venv" in asked
    assert "python3.12" not in asked
    done, asked = run_env(PYTHON="python3.12")
    assert "PYTHON is not looked at: .venv is there" in done.stdout
    (run_env.folder / ".venv" / "bin" / "pip").unlink()
    done, asked = run_env(PYTHON="python3", lacks="ensurepip, pip")
    assert done.returncode == 1 and "python3.12" not in asked


@pytest.mark.slow
def test_env_with_real_pip_and_no_index_there_ends_soon(tmp_path):
    """Nothing listens on port 9 here; without this, pip tries for minutes."""
    (tmp_path / ".ci").mkdir()
    for name in ("pyproject.toml", ".ci/env"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "MAKE"))}
    index = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": os.devnull,
    }
    done = subprocess.run(
        ["bash", ".ci/env"],
        cwd=tmp_path,
        env=kept | index | {"PYTHON": sys.executable, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "again in" not in done.stderr
    assert "got nothing from its package index, http://127.0.0.1:9" in done.stderr


@pytest.mark.parametrize("user, allowed", [("0", True), ("1000", False)])
def test_make_lab_allows_root_only_where_one_is_root(tmp_path, user, allowed):
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (tmp_path / "id").chmod(0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    plan = subprocess.run(
        ["make", "-n", "lab"], cwd=ROOT, env=env, capture_output=True, text=True
    ).stdout
    assert ("jupyter lab --allow-root" in plan) == allowed


def test_make_test_runs_every_notebook_once():
    asked = subprocess.run(
        ["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    command = asked[asked.index("--nbval-lax") :]
    found = [path for word in command.split() for path in ROOT.glob(word)]
    every = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert sorted(path for path in found if path.suffix == ".ipynb") == every
    assert len(every) == len(LESSONS)
