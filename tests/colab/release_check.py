"""Whether this state can be released: `make release-check`.

Colab and Kaggle open a notebook at the tag that its badges name, and its set-up cell
clones the tag that it names. So git needs the tag of pyproject.toml's version with the
notebooks and helpers that are here, and badges and cells have to name it. Reads git and
files, changes nothing.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = ("notebooks", "helpers", "data/tiny", "pyproject.toml", "README.md")


def git(root: pathlib.Path, *words: str) -> str:
    """What a git command prints in this folder; "" where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def problems(root: pathlib.Path) -> list[str]:
    """What keeps the course in this folder from being released."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    tag, repository = f"v{project['version']}", project["urls"]["Repository"]
    github = repository.removeprefix("https://github.com/")
    texts = {"README.md": (root / "README.md").read_text()}
    faults = []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        opening = "\n".join(cell.source for cell in cells[:8])
        texts[path.name] = opening
        for line in (f'TAG = "{tag}"', f'REPOSITORY = "{repository}"'):
            if line not in opening:
                faults.append(f"{path.name}: the set-up cell lacks {line}")
        for name in ("README.md", path.name):
            if f"{github}/blob/{tag}/notebooks/{path.name}" not in texts[name]:
                faults.append(f"{name}: no badge opens {path.name} at {tag}")
    for name, text in texts.items():
        for old in set(re.findall(r"/blob/(v[\d.]+)/notebooks", text)) - {tag}:
            faults.append(f"{name}: a badge opens {old}")
    if not git(root, "rev-parse", "-q", "--verify", f"refs/tags/{tag}^{{commit}}"):
        return [*faults, f"git has no tag {tag}: run `git tag {tag}` at the end"]
    changed = git(root, "diff", "--name-only", tag, "--", *RELEASED).splitlines()
    changed += git(root, "ls-files", "-o", "--exclude-standard", *RELEASED).splitlines()
    if changed:
        faults.append(
            f"{', '.join(changed[:3])} and perhaps more differ from the commit of "
            f"{tag}. Commit them, raise the version, and run "
            "`python notebooks/publish.py --no-run` and `make results`."
        )
    return faults


def main() -> None:
    """Prints what is wrong, and ends with 1 where something is."""
    faults = problems(ROOT)
    if faults:
        sys.exit("\n".join(["This state cannot be released:", *faults]))
    print("Tag, badges and set-up cells agree. Push commit and tag to release it.")


if __name__ == "__main__":
    main()
