"""Runs the script of an engine in the engine's own environment."""

import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run(python, scratch, *words):
    """Runs a script of this folder there; fails with the end of what it said.

    Args:
      python: of the engine.
      scratch: a folder, which is its home as well: engines keep settings there.
      words: the script's name, and its arguments.
    """
    own = {"PYTHONPATH": f"{ROOT}:{HERE}", "JAX_PLATFORMS": "cpu"}
    own |= {"HF_HUB_OFFLINE": "1", "HOME": str(scratch)}
    command = [str(python), str(HERE / words[0]), *map(str, words[1:])]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True)
    if done.returncode:
        said = f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
        raise SystemExit(f"{words[0]} ended with {done.returncode}:\n{said}")


def told_by(engine, python, asked, scratch):
    """What `<engine>_step.py` writes of what it is asked, a dict for JSON."""
    file, out = scratch / "asked.json", scratch / f"{engine}.json"
    file.write_text(json.dumps(asked | {"out": str(out)}))
    run(python, scratch, f"{engine}_step.py", file)
    return json.loads(out.read_text())
