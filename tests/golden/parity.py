"""`make parity`: the decoder and its folders against a live transformers and peft.

Makes an environment with torch under build/parity, makes the golden models anew there
and compares them with the stored ones, and has it read what this course writes, and
this course what peft writes.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests")]

import xla_flags  # noqa: E402
from bench import environment  # noqa: E402
from make_golden import ROUNDING  # noqa: E402

NEEDS = (
    ["torch==2.13.0"],
    ["transformers==5.23.0", "peft==0.21.2", "safetensors", "pillow==13.0.0"],
    ["fastapi", "openai", "rich", "uvicorn"],  # for tests/serve
)


def main():
    """Runs both halves; raises where a logit differs by more than 1e-4, or rounding."""
    torch = str(environment("parity", NEEDS, ROOT / "build"))
    # Many small programs: most of their time is XLA's own.
    quick = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": xla_flags.QUICK}
    env = os.environ | {"PYTHONPATH": str(ROOT)} | quick
    here = sys.executable
    with tempfile.TemporaryDirectory() as scratch:
        again = pathlib.Path(scratch, "golden")
        for name, writer, reader in (
            ("make_golden.py", torch, None),
            ("make_vision.py", torch, None),
            ("make_gemma4_vision.py", torch, None),
            ("exports.py", here, torch),
            ("peft_adapters.py", torch, here),
        ):
            script, folder = str(HERE / name), str(again)
            if reader:
                folder = str(pathlib.Path(scratch, pathlib.Path(name).stem))
            for command in (
                [writer, script, "write", folder],
                [reader, script, "check", folder]
                if reader
                else [torch, script, "check"],
            ):
                subprocess.run(command, check=True, env=env)
        for path in sorted(HERE.glob("*/*.npz")):
            stored, live = np.load(path), np.load(again / path.parent.name / path.name)
            gap = np.abs(stored["logits"] - live["logits"]).max()
            print(f"{path.parent.name}: stored and live logits differ by {gap:.1e}")
            assert gap <= ROUNDING
            np.testing.assert_array_equal(stored["greedy"], live["greedy"])


if __name__ == "__main__":
    main()
