"""Compiles the course's real programs for TPUs that are not here (`make tpu-check`).

Every row of `data/results/tpu_fit.csv` is one program of one model on one slice: the
trainer's update, the sampler's rollout, as the notebooks would run them. A row whose
program, compiler and sizes are unchanged is kept; `--quick` compiles a few of them.
"""

import argparse
import csv
import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import time
from importlib import metadata, util

import jax

from helpers import compiler, lessons, optimizers, programs, tpu
from helpers.model.known import KNOWN
from helpers.runtime import PRESETS

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "tpu_fit.csv"
QWEN = "Qwen/Qwen2.5-0.5B-Instruct"
TEACHER = "Qwen/Qwen2.5-1.5B-Instruct"
ADAMW = optimizers.adamw(1e-4)
SPARE = 10  # percent of a chip's memory that a shipped program leaves free


@dataclasses.dataclass(frozen=True)
class Case:
    """One program: what is trained, on which slice, and with which sizes.

    `rank` 0 trains all weights. A batch has `prompts` questions with `group` answers
    each, or `prompts` packed rows of both budgets together for SFT.
    """

    model: str
    program: str  # sft, rollout, grpo, evaluation or distillation
    topology: str
    rank: int = 32
    prompts: int = 32
    group: int = 8
    prompt_tokens: int = 256
    completion_tokens: int = 256
    accumulate: int = 8
    preset: str = ""

    @property
    def tokens(self):
        """Tokens in a batch, prompts counted once per group."""
        answers = self.group * self.completion_tokens
        if self.program == "evaluation":
            answers = self.completion_tokens
        if self.program == "sft":
            answers = self.completion_tokens
        return self.prompts * (self.prompt_tokens + answers)

    def build(self):
        """(jitted function, abstract arguments, GiB that stay in memory beside it)."""
        config, mesh = KNOWN[self.model], tpu.mesh(self.topology)
        model = programs.abstract_model(config, rank=self.rank)
        sizes = (self.prompts, self.group, self.prompt_tokens, self.completion_tokens)
        if self.program in ("rollout", "evaluation"):
            greedy = self.program == "evaluation"
            rows = (sizes[0], 1 if greedy else sizes[1], *sizes[2:])
            job = programs.rollout(model, *rows, mesh, greedy=greedy)
            return *job, programs.moments_gb(model, ADAMW, mesh)
        if self.program == "sft":
            length = self.prompt_tokens + self.completion_tokens
            batch, objective = programs.packed_batch(self.prompts, length), lessons.sft
        else:
            batch, objective = programs.group_batch(*sizes), lessons.policy_gradient
        frozen = ()
        if self.program == "distillation":
            objective = lessons.distillation
            frozen = (programs.frozen_model(KNOWN[TEACHER]),)
        job = programs.update(
            model,
            objective(),
            ADAMW,
            batch,
            mesh,
            accumulate=self.accumulate,
            frozen=frozen,
        )
        return *job, 0.0

    def flops(self):
        """Useful FLOPs of one call on all chips: no recomputation is counted.

        A frozen weight costs a forward product and the gradient of its input; a trained
        one a third product. A teacher is asked once.
        """
        config, seen = KNOWN[self.model], self.prompt_tokens + self.completion_tokens
        forward = programs.forward_flops(config, self.tokens, seen // 2)
        if self.program in ("rollout", "evaluation"):
            return forward
        total = forward * (2 if self.rank else 3)
        if self.program == "distillation":
            total += programs.forward_flops(KNOWN[TEACHER], self.tokens, seen // 2)
        return total


def cases():
    """What is compiled, the default preset's own programs first."""
    rows = []
    for name in ("v5e-1", "v5e-8"):
        p = PRESETS[name]
        sizes = dict(
            rank=p.lora_rank,
            prompts=p.prompts,
            group=p.group,
            prompt_tokens=p.prompt_tokens,
            completion_tokens=p.completion_tokens,
            accumulate=1,
            preset=name,
        )
        for program in ("sft", "rollout", "grpo", "evaluation"):
            rows.append(Case(p.model, program, name, **sizes))
    small = [name for name in KNOWN if any(x in name for x in ("0.5B", "0.6B", "270m"))]
    large = ["google/gemma-3-1b-it"]
    for topology in ("v5e-1", "v5e-8"):
        more = ["google/gemma-3-4b-it"] if topology == "v5e-8" else []
        for model in small + large + more:
            for program in ("sft", "rollout", "grpo", "evaluation"):
                prompts = 128 if program == "sft" else 32
                rows.append(Case(model, program, topology, prompts=prompts))
        for program in ("sft", "grpo"):
            rows.append(Case(QWEN, program, topology, rank=0))
    rows.append(Case(QWEN, "distillation", "v5e-8", rank=0))
    return rows


def measure(case):
    """The row of a case: compiles it, and says what it needs."""
    function, arguments, resident = case.build()
    report = tpu.compile_for(case.topology, function, *arguments, flops=case.flops())
    percent = report.hbm_percent + 100 * resident / report.usable_gb
    kinds = [f"{n} {kind} {gb:.2f} GiB" for kind, (n, gb) in report.collectives.items()]
    return {
        "model": case.model,
        "program": case.program,
        "topology": case.topology,
        "preset": case.preset,
        "trained": f"LoRA {case.rank}" if case.rank else "all",
        "prompts": case.prompts,
        "group": 1 if case.program in ("sft", "evaluation") else case.group,
        "pieces": case.accumulate,
        "tokens": case.tokens,
        "hbm_percent": round(percent, 1) if not report.verdict else "",
        "arguments_gb": round(report.arguments_gb, 3),
        "temporaries_gb": round(report.temporaries_gb, 3),
        "resident_gb": round(resident, 3),
        "tflop": round(case.flops() / 1e12, 2),
        "modelled_ms": round(report.modelled_ms, 1),
        "modelled_peak_percent": round(report.modelled_peak_percent, 1),
        "collectives": "; ".join(kinds),
        "verdict": report.verdict.replace("\n", " "),
    }


def with_compiler():
    """Runs this script again with the libtpu that this jax names, installed aside.

    It lies in build/tpu and not in the environment, where jax would look for a TPU.
    """
    requirement, folder = compiler.requirement(), compiler.folder()
    if not (folder / "libtpu").is_dir():
        print(f"Installing {requirement} into {folder.relative_to(ROOT)}", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), requirement], check=True)
    environment = os.environ | {"PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "scripts.tpu_check", *sys.argv[1:]]
    return subprocess.run(command, env=environment, cwd=ROOT).returncode


def versions():
    """jax and libtpu, as the compiler that was asked."""
    return f"jax {jax.__version__}, libtpu {metadata.version('libtpu')}"


def fingerprint(case):
    """Changes with the program, its sizes and the compiler."""
    function, arguments, _ = case.build()
    text = function.lower(*arguments).as_text()
    return hashlib.sha256(f"{text}{case}{versions()}".encode()).hexdigest()[:16]


def main():
    """Compiles what is new, writes the table, and fails if something does not fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the presets' GRPO only")
    quick = parser.parse_args().quick
    kept = {}
    if TABLE.is_file():
        with open(TABLE, newline="") as file:
            kept = {row["program_hash"]: row for row in csv.DictReader(file)}
    rows, tight = [], []
    for case in cases():
        if quick and not (case.preset and case.program in ("grpo", "rollout")):
            continue
        start, key = time.monotonic(), fingerprint(case)
        row = kept.get(key) or measure(case) | {
            "versions": versions(),
            "program_hash": key,
        }
        rows.append(row)
        seconds = time.monotonic() - start
        print(
            f"{case.topology} {case.model} {case.program} {row['trained']}: "
            f"{row['tokens']} tokens, {row['hbm_percent'] or 'too much'}% of HBM, "
            f"{row['modelled_ms']} ms modelled ({seconds:.0f} s)",
            flush=True,
        )
        if row["verdict"] or float(row["hbm_percent"]) > 100 - SPARE:
            tight.append(f"{case.topology} {case.model} {case.program}")
        if not quick:
            write(rows)
    if tight:
        sys.exit(f"These leave less than {SPARE}% of the memory: {'; '.join(tight)}.")


def write(rows):
    """The table, rows so far."""
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main() if util.find_spec("libtpu") else with_compiler())
