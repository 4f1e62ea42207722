"""Runs the script of an engine in the engine's own environment."""

import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run(python, scratch, *words):
    """Runs a script of this folder there; fails with the end of its output.

    Args:
      python: of the engine.
      scratch: a folder, which is its home as well: engines keep settings there.
      words: the script's name, and its arguments.
    """
    env = {"PYTHONPATH": f"{ROOT}:{HERE}", "JAX_PLATFORMS": "cpu"}
    env |= {"HF_HUB_OFFLINE": "1", "HOME": str(scratch)}
    command = [str(python), str(HERE / words[0]), *map(str, words[1:])]
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True)
    if done.returncode:
        text = f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
        raise SystemExit(f"{words[0]} ended with {done.returncode}:\n{text}")


def run_step(engine, python, inputs, scratch):
    """What `<engine>_step.py` writes of these inputs, a dict for JSON."""
    file, out = scratch / "inputs.json", scratch / f"{engine}.json"
    file.write_text(json.dumps(inputs | {"out": str(out)}))
    run(python, scratch, f"{engine}_step.py", file)
    return json.loads(out.read_text())
