"""Measure this course's trainer on a GPU, beside TRL, into data/results/gpu.csv.

    make gpu-bench        at most seven minutes; again for the rows that are left

Each row runs in a process of its own and is written as soon as it is measured. A row
that the table has is not measured again, a row that fails is printed with its error,
and rows that no time is left for are left for the next call. What runs is in `ours.py`
and `peer_trl.py`, as in `make bench`. Weights are random, because speed does not depend
on their values, so nothing is downloaded.

Both halves need a Python that sees the GPU: ours one with `jax[cuda13]`, TRL's one with
`trl` and `peft`. They may be the same; `--trl-python` names another for TRL.

- ms_step, rollout_tok_s, update_ms: medians of the timed steps, after the warm-up.
  update_ms is the step without its rollout; ours has the rewards in its rollout.
- peak_gb: most of the GPU's memory in use, 10⁹ bytes, as jax or PyTorch counts.
- Rows of SFT are full, as packed ones are: `prompts` of them, of `completion_tokens`.
- "bandwidth limit" is the least time in which weights, keys and values can be read for
  each token, at the speed with which this GPU copies.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import bench
from case import Case

from helpers.model.config import KNOWN
from helpers.recipes import presets
from scripts import tables

TABLE = bench.ROOT / "data" / "results" / "gpu.csv"
KEY = "device library program model dtype prompts group prompt_tokens completion_tokens"
KEY = KEY.split()
NUMBERS = "ms_step rollout_tok_s update_ms peak_gb".split()
FIELDS = [*KEY, *NUMBERS, "versions"]
LEAST = 30  # seconds; with less left no row is begun
SMALL, LARGE = presets.MODELS["SmolLM2"], presets.MODELS["Qwen2.5"]
T4 = presets.CUSTOM["t4"]  # of notebook 15
T4_GB = 14.5


@dataclasses.dataclass(frozen=True)
class Row:
    """One row to measure.

    Attributes:
      library: "ours" or "trl".
      program: the function of the library's script, and after a comma its condition.
      model: whose shape the case has.
      case: what to run.
      limit_gb: memory of the GPU that may be used; 0: all.
    """

    library: str
    program: str
    model: str
    case: Case
    limit_gb: float = 0

    def key(self, device):
        """The columns that say which row it is."""
        case = self.case
        sizes = case.dtype, case.prompts, case.group, case.prompt, case.answer
        values = device, self.library, self.program, self.model, *sizes
        return dict(zip(KEY, values, strict=True))


def shaped(model, **sizes):
    """A case with the shape of a known model; sizes are `Case`'s."""
    config, names = KNOWN[model], ("family", "width", "layers", "heads", "kv_heads")
    shape = {name: getattr(config, name) for name in names}
    shape |= {"feed_forward": config.ff, "vocab": config.vocab_size}
    usual = {"dtype": "bfloat16", "lora_rank": 16, "gpu": True}
    return Case(**shape | usual | sizes)


def all_rows():
    """The rows, the most telling first."""
    grpo = shaped(SMALL, prompts=64, prompt=128, answer=128, pieces=8)
    sft = shaped(SMALL, prompts=16, group=1, prompt=0, answer=1024)
    decode = shaped(SMALL, prompts=16, prompt=128, answer=128)
    large = shaped(LARGE, prompts=64, prompt=256, answer=256, pieces=16)
    names = ("dtype", "lora_rank", "prompts", "group", "pieces", "remat", "chunk")
    preset = {name: getattr(T4, name) for name in names}
    preset |= {"prompt": T4.prompt_tokens, "answer": T4.completion_tokens}
    free = shaped(T4.model, **preset, minibatches=2)  # as in the notebook
    return [
        Row("ours", "grpo", SMALL, grpo),
        Row("trl", "grpo", SMALL, grpo),
        Row("ours", "sft", SMALL, sft),
        Row("trl", "sft", SMALL, sft),
        Row("ours", "decode", SMALL, decode),
        Row("ours", f"grpo, {T4_GB} GB", T4.model, free, T4_GB),
        Row("ours", "grpo", LARGE, large),
        Row("trl", "grpo", LARGE, large),
    ]


def tiny(row):
    """The same row in a size that a CPU takes seconds for."""
    shape = {"width": 16, "feed_forward": 32, "layers": 1, "heads": 2, "kv_heads": 1}
    most = {"prompts": 2, "group": 2, "prompt": 8, "answer": 8, "pieces": 2}
    sizes = {name: min(x, getattr(row.case, name)) for name, x in most.items()}
    run = {"vocab": 64, "warmup": 1, "steps": 2, "gpu": False}
    case = dataclasses.replace(row.case, **shape, **sizes, **run)
    return dataclasses.replace(row, case=case, limit_gb=0)


def first_gpu():
    """Name and bytes of the first NVIDIA GPU; (None, 0) where there is none."""
    if not shutil.which("nvidia-smi"):
        return None, 0
    query = ["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    run = subprocess.run(["nvidia-smi", *query], capture_output=True, text=True)
    if run.returncode or not run.stdout.strip():
        return None, 0
    name, mebibytes = run.stdout.splitlines()[0].rsplit(",", 1)
    return name.strip(), int(mebibytes) * 2**20


def measure(row, python, memory, seconds):
    """What the library's script says of a row; see `bench.call`.

    Args:
      memory: bytes that the GPU has.
      seconds: how long it may take.
    """
    if row.library == "trl" and python == sys.executable:
        if not importlib.util.find_spec("trl"):
            raise bench.BenchError(
                "trl is not installed in this Python. Install trl and peft into it, or "
                "name one that has them with --trl-python."
            )
    cache = str(bench.ROOT / "build" / "jax-cache")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    settings = {
        "CUDA_VISIBLE_DEVICES": visible.split(",")[0],
        "JAX_PLATFORMS": "cuda,cpu" if row.case.gpu else "cpu",
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", cache),
    }
    if row.limit_gb:
        settings["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(row.limit_gb * 1e9 / memory)
    part = row.program.split(",")[0]
    return bench.call(row.library, python, row.case, settings, [part], seconds)


def lines(row, device, figures):
    """The lines of the table that a measured row makes: one, of decoding two."""
    case, part = row.case, row.program.split(",")[0]
    step_ms, speed = 1000 * figures[f"{part}_wall_s"], figures.get("rollout_tok_s")
    rollout_ms = 1000 * case.rows * case.answer / speed if speed else 0
    update_ms = None if part == "decode" else step_ms - rollout_ms
    line = row.key(device) | {"versions": json.dumps(figures["versions"])}
    measured = [(row.library, step_ms, speed, update_ms, figures["device_gb"] or None)]
    if limit := figures.get("limit_tok_s"):
        limit_ms = rollout_ms * speed / limit
        measured.append(("bandwidth limit", limit_ms, limit, None, None))
    result = []
    for library, *numbers in measured:
        rounded = ["" if x is None else round(x, 2) for x in numbers]
        named = dict(zip(NUMBERS, rounded, strict=True))
        result.append(line | {"library": library} | named)
    return result


def main(argv=None):
    """Measures the rows that the table lacks, while there is time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=7, help="for all rows")
    parser.add_argument("--rows", type=int, nargs="+", help="their numbers, from 1")
    parser.add_argument("--table", type=pathlib.Path, help="default: data/results")
    parser.add_argument("--trl-python", default=sys.executable)
    parser.add_argument("--tiny", action="store_true", help="toy sizes on a CPU")
    choice = parser.parse_args(argv)
    if choice.tiny and not choice.table:
        parser.error("--tiny measures nothing of worth: name a --table for it.")
    device, memory = ("CPU", 0) if choice.tiny else first_gpu()
    if device is None:
        raise SystemExit("gpu: nvidia-smi finds no GPU here, so nothing was measured.")
    table, rows = choice.table or TABLE, all_rows()
    end = time.monotonic() + 60 * choice.minutes
    for number in choice.rows or range(1, len(rows) + 1):
        row = rows[number - 1]
        row = tiny(row) if choice.tiny else row
        name = f"{number}. {row.library}, {row.program}, {row.model}"
        if tables.has(table, **row.key(device)):
            print(f"{name}: the table has it", flush=True)
            continue
        left = end - time.monotonic()
        if left < LEAST:
            print(f"{name}: no time is left; call this again", flush=True)
            continue
        python = choice.trl_python if row.library == "trl" else sys.executable
        try:
            measured = lines(row, device, measure(row, python, memory, left))
        except bench.BenchError as error:
            print(f"{name}: {error}", flush=True)
            continue
        tables.put(table, measured, KEY, FIELDS)
        for line in measured:
            shown = {x: line[x] for x in ("library", *NUMBERS)}
            print(f"{name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
