"""Whether this state can be released: tag, badges and set-up cells say the same.

    make release-check

Colab and Kaggle open a notebook at the tag that its badges name, and its set-up cell
clones the tag that it names. So the tag of pyproject.toml's version has to exist, and
to hold the very notebooks and helpers that are here; badges and cells have to name it,
here and there. Reads git and files, changes nothing.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
RELEASED = ("notebooks", "helpers", "data/tiny", "pyproject.toml", "README.md")
SERVICES = {
    "Colab": r"https://colab\.research\.google\.com/github/([\w.-]+/[\w.-]+)",
    "Kaggle": r"https://kaggle\.com/kernels/welcome\?src="
    r"https://github\.com/([\w.-]+/[\w.-]+)",
}


def git(root: pathlib.Path, *words: str) -> str:
    """What a git command prints in this folder; "" where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def disagreements(text: str, where: str, repository: str, tag: str, files) -> list[str]:
    """What is wrong with the badges in a text.

    Args:
      where: its name, for the messages.
      repository: owner and name, as the badges should have it.
      tag: as the badges should have it.
      files: names of the notebooks that each service should be asked for.
    """
    found = []
    for name, service in SERVICES.items():
        links = re.findall(
            rf"{service}/blob/([^/\s]+)/notebooks/([\w.-]+\.ipynb)", text
        )
        for owner, named, file in links:
            if (owner, named) != (repository, tag):
                found.append(f"{where}: a badge of {file} opens {owner} at {named}")
        missing = sorted(set(files) - {file for _, _, file in links})
        if missing:
            found.append(f"{where}: no badge of {name} for {', '.join(missing)}")
    return found


def in_files(root: pathlib.Path, notebooks: list[str]) -> list[str]:
    """Where README and the notebooks disagree with pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    tag, address = f"v{project['version']}", project["urls"]["Repository"]
    wanted = address.removeprefix("https://github.com/"), tag
    readme = (root / "README.md").read_text()
    found = disagreements(readme, "README.md", *wanted, notebooks)
    for name in notebooks:
        cells = json.loads((root / "notebooks" / name).read_text())["cells"]
        badges, setup = (
            "".join("".join(c["source"]) for c in cells if kind in _tags(c))
            for kind in ("badges", "setup")
        )
        found += disagreements(badges, name, *wanted, [name])
        for variable, value in (("TAG", tag), ("REPOSITORY", address)):
            if f'{variable} = "{value}"' not in setup.splitlines():
                found.append(f"{name}: the set-up cell has not {variable} = {value}")
    return found


def _tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def in_git(root: pathlib.Path, notebooks: list[str]) -> list[str]:
    """What the tag of pyproject.toml's version lacks of what is here."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    tag = f"v{project['version']}"
    if not git(root, "rev-parse", "-q", "--verify", f"refs/tags/{tag}^{{commit}}"):
        return [f"git has no tag {tag}: `git tag {tag}`, once the rest is right"]
    there = git(root, "ls-tree", "--name-only", f"{tag}:notebooks").splitlines()
    missing = sorted(set(notebooks) - set(there))
    found = [f"the commit of {tag} lacks notebooks/{name}" for name in missing]
    changed = git(root, "diff", "--name-only", tag, "--", *RELEASED).splitlines()
    changed += git(root, "ls-files", "-o", "--exclude-standard", *RELEASED).splitlines()
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        found.append(
            f"{', '.join(changed[:3])}{more}: not as in the commit of {tag}. Commit, "
            "raise the version, run notebooks/publish.py --no-run and "
            "notebooks/readme.py"
        )
    return found


def problems(root: pathlib.Path) -> list[str]:
    """What keeps the course in this folder from being released; empty where nothing."""
    notebooks = sorted(path.name for path in (root / "notebooks").glob("*.ipynb"))
    return in_files(root, notebooks) + in_git(root, notebooks)


def main() -> None:
    """Prints what is wrong, and ends with 1 where something is."""
    found = problems(ROOT)
    if found:
        sys.exit("\n".join(["This state cannot be released:", *found]))
    print("Tag, badges and set-up cells agree; a push of commit and tag releases it.")


if __name__ == "__main__":
    main()
