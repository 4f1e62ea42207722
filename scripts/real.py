"""A real model trained and measured, stage by stage: `make real`.

    python -m scripts.real [--seeds 0 1 2] [--stages base sft grpo] [--tasks gsm8k]

Each stage of STAGES trains adapters for SmolLM2-135M-Instruct and then measures them on
held-out problems: greedily on 200 of each level, and with eight samples on 50 of them.
The stages sft, grpo, gspo and student run the last section of notebooks 04b, 07, 08 and
11 as it stands there. With COURSE_GSM8K set to the folder of GSM8K's files, each stage
is also measured on all 1,319 of its test questions (COURSE_GSM8K_ROWS: on the first n).

Rows go into data/results/real.csv, the verdict on every question into real_right.csv,
and the curve of each RL run into real_curves.csv. Everything is saved in
build/real/<seed>, so a run that was stopped goes on where it was. A measurement that
the table has of the same adapters is not repeated.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

import jax
import nbformat

from helpers import runtime
from helpers.evaluation.evaluator import (
    FINAL_LINE,
    WORDINGS,
    evaluate,
    with_wording,
)
from helpers.generation.calculator_use import CalculatorUse
from helpers.model import lora
from helpers.recipes import maths, presets
from helpers.rewards.functions import RewardSet, correct, format_reward
from helpers.tasks.maths import gsm8k, word_problems
from helpers.training import Trainer, objectives, optimizers
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "real.csv"
WORK = ROOT / "build" / "real"
NOTEBOOKS = {
    "sft": "04b_lora",
    "grpo": "07_grpo",
    "gspo": "08_gspo",
    "student": "11_distillation",
}
# The untrained model, asked like the others, in the wording that suits it best, and
# shown an example and stopped after the line that is graded.
UNTRAINED = ("base", "base_asked_well", "base_stopped")
LEVELS = {1: "one_step", 2: "two_step", 3: "three_step"}
N, SAMPLED = 200, 50  # held-out problems of a level: answered greedily, and sampled
GRPO_STEP = 6.93  # CPU-seconds of a step of GRPO over those of a step of SFT
REWARD = RewardSet({correct: 1.0, format_reward: 0.1})
KEY = ("model", "stage", "task", "seed")
FIELDS = (
    *KEY,
    *("n", "greedy", "low", "high", "lenient", "pass1", "pass8", "truncated"),
    *("seconds", "versions", "load"),
)
# The sizes of the stages on GSM8K itself: one epoch of SFT, then 24 steps of GRPO.
GSM8K = dict(
    levels=(),
    lora_rank=64,
    prompts=32,
    packed=16,
    prompt_tokens=256,
    completion_tokens=256,
    chunk=4096,
    pieces=8,
    sft_pieces=None,
    remat="layer",
    sft=presets.Stage(200, 5e-4),
    rl=presets.Stage(24, 1e-4),
)
ON_CPU = dict(  # a sixteenth of that SFT, a sixteenth of that GRPO
    prompts=4,
    packed=4,
    chunk=1024,
    pieces=4,
    sft_pieces=4,
    remat="none",
    sft=presets.Stage(50, 5e-4),
    rl=presets.Stage(12, 1e-4),
)


def notebook_section(stage: str) -> Callable:
    """Trains as the cell tagged "real" of a stage's notebook does.

    Raises:
      ValueError: the notebook does not have exactly one cell with each tag.
    """

    def train(preset, seed):
        path = ROOT / "notebooks" / f"{NOTEBOOKS[stage]}.ipynb"
        cells = nbformat.read(path, as_version=4).cells
        names: dict = {"reward": REWARD}
        for tag in ("imports", "real"):
            tagged = [cell for cell in cells if tag in cell.metadata.get("tags", ())]
            if len(tagged) != 1:
                raise ValueError(f"{path.name} has {len(tagged)} cells tagged {tag!r}.")
            exec(tagged[0].source, names)
        names["seed"] = seed
        print(names["on_real_weights"](preset), flush=True)

    return train


def fit(there: maths.Recipe, stage: str, objective, batches, size, pieces) -> None:
    """Trains a recipe's adapters, and saves them as `stage`."""
    trainer = Trainer(
        there.policy,
        objective(chunk=there.chunk),
        optimizers.adamw(size.rate, steps=size.steps, warmup=5),
        accumulate=pieces,
        wrt=lora.Adapter,
        folder=runtime.run_folder(f"{stage}_{there.preset.name}"),
        save_every=size.save_every,
    )
    trainer.fit(batches, size.steps)
    there.save_adapters(stage)


def imitate(there: maths.Recipe, stage: str, seed: int) -> None:
    """SFT on a recipe's training rows, as in notebook 04b, saved as `stage`."""
    sizes, rows = there.preset, there.demonstrations(seed)
    fit(there, stage, objectives.sft, rows, sizes.sft, sizes.sft_pieces)


def reinforce(there: maths.Recipe, stage: str, seed: int) -> None:
    """GRPO on a recipe's training questions, as in notebook 07, saved as `stage`."""
    sizes, rollouts = there.preset, there.rollouts(REWARD, seed)
    fit(there, stage, objectives.policy_gradient, rollouts, sizes.rl, sizes.pieces)


def sft_control(preset, seed):
    """SFT for the CPU-seconds of SFT and GRPO together."""
    steps = preset.sft.steps + round(preset.rl.steps * GRPO_STEP)
    longer = dataclasses.replace(preset, sft=preset.sft._replace(steps=steps))
    imitate(maths.recipe(longer), "sft_control", seed)


def sft_with_tool(preset, seed):
    """SFT that leaves the calculator's digits out of the loss."""
    imitate(maths.recipe(preset, maths.WithCalculator), "sft_with_tool", seed)


def tool_grpo(preset, seed):
    """GRPO from SFT's model with the calculator in the loop."""
    there = maths.recipe(preset, maths.WithCalculator).start("sft")
    reinforce(there, "tool_grpo", seed)


def tool_student(preset, seed):
    """SFT's model imitates the right answers of "tool_grpo", digits included."""
    teacher = maths.recipe(preset, maths.WithCalculator).start("tool_grpo")
    answers = dataclasses.replace(teacher, test=teacher.train).evaluate(1000).answers
    rows = [
        {"question": answer["question"], "answer": answer["text"]}
        for answer in answers
        if answer["strict"]
    ]
    there = dataclasses.replace(maths.recipe(preset).start("sft"), train=rows)
    imitate(there, "tool_student", seed)


def on_gsm8k(preset, kind=maths.Recipe) -> maths.Recipe:
    """The recipe sized for GSM8K, with its questions as they are measured: bare."""
    sizes = GSM8K | (ON_CPU if jax.default_backend() == "cpu" else {})
    there = maths.recipe(dataclasses.replace(preset, **sizes), kind)
    rows = [
        row | {"question": row["question"].removesuffix(maths.ASK)}
        for row in there.train
    ]
    return dataclasses.replace(there, train=rows)


def gsm8k_sft(preset, seed):
    """SFT on GSM8K's worked solutions."""
    imitate(on_gsm8k(preset), "gsm8k_sft", seed)


def gsm8k_grpo(preset, seed):
    """GRPO on GSM8K from there."""
    reinforce(on_gsm8k(preset).start("gsm8k_sft"), "gsm8k_grpo", seed)


def gsm8k_tool_grpo(preset, seed):
    """GRPO on GSM8K from there, with the calculator in the loop."""
    there = on_gsm8k(preset, maths.WithCalculator).start("gsm8k_sft")
    reinforce(there, "gsm8k_tool_grpo", seed)


class Stage(NamedTuple):
    """One stage: what trains it, and how it is measured.

    Attributes:
      train: `train(preset, seed)`; None where an earlier stage's adapters are measured.
      adapters: the adapters that are measured.
      after: stages whose adapters the training starts from or learns from.
      calculator: whether the model may call a calculator when it is measured.
    """

    train: Callable | None
    adapters: str
    after: tuple[str, ...] = ()
    calculator: bool = False


STAGES = {
    name: Stage(notebook_section(name), name, () if name == "sft" else ("sft",))
    for name in NOTEBOOKS
} | {
    "sft_control": Stage(sft_control, "sft_control"),
    "tool_sft": Stage(None, "sft", calculator=True),
    "sft_with_tool": Stage(sft_with_tool, "sft_with_tool", calculator=True),
    "tool_grpo": Stage(tool_grpo, "tool_grpo", ("sft",), True),
    "tool_grpo_alone": Stage(None, "tool_grpo"),
    "tool_student": Stage(tool_student, "tool_student", ("tool_grpo", "sft")),
    "gsm8k_sft": Stage(gsm8k_sft, "gsm8k_sft"),
    "gsm8k_tool_sft": Stage(None, "gsm8k_sft", calculator=True),
    "gsm8k_grpo": Stage(gsm8k_grpo, "gsm8k_grpo", ("gsm8k_sft",)),
    "gsm8k_tool_grpo": Stage(
        gsm8k_tool_grpo, "gsm8k_tool_grpo", ("gsm8k_sft",), calculator=True
    ),
}


def require_trained(preset: presets.Preset, name: str) -> None:
    """Refuses a stage whose starting point was not trained with this seed.

    Without this check `start` would take the untrained model, and the row would not
    say so.

    Raises:
      ValueError: names the stage to train first.
    """
    stage = STAGES[name]
    for needed in stage.after if stage.train else (stage.adapters,):
        if not maths.trained_here(needed, preset):
            raise ValueError(
                f"{name} starts from {needed}, which was not trained with this seed. "
                f"Train it first: --stages {needed} {name}."
            )


def tasks() -> dict[str, list[dict]]:
    """The held-out rows of each task, by its name in the table."""
    rows = {
        name: word_problems.generate(N, seed=99, levels=(level,), split="test")
        for level, name in LEVELS.items()
    }
    if folder := os.environ.get("COURSE_GSM8K"):
        most = int(os.environ.get("COURSE_GSM8K_ROWS", 0)) or None
        rows["gsm8k"] = gsm8k.load(folder, "test")[:most]
    return rows


def wording_of(there: maths.Recipe, stage: str):
    """(what puts rows into the stage's wording, where to stop an answer or None)."""
    if stage == "base_stopped":
        return lambda rows: with_wording(rows, WORDINGS["example"]), FINAL_LINE
    if stage != "base_asked_well":
        return list, None
    size = there.preset
    settings = {
        "max_tokens": size.completion_tokens,
        "batch": size.prompts * size.group,
        "buckets": (size.prompt_tokens, 2 * size.prompt_tokens),
    }

    def rank(wording):
        rows = with_wording(there.train[:60], wording)
        report = evaluate(there.policy, there.tokenizer, rows, samples=0, **settings)
        return report.greedy, report.lenient, -len(wording)

    best = max(WORDINGS.values(), key=rank)
    return lambda rows: with_wording(rows, best), None


def measure(there: maths.Recipe, task: str, rows, tools=None, stop=None) -> dict:
    """One evaluation: the columns of both tables."""
    size = there.preset
    settings = {
        "max_tokens": size.completion_tokens,
        "buckets": (size.prompt_tokens, 2 * size.prompt_tokens),
        "batch": size.prompts * size.group,
        "environment": tools,
        "stop": stop,
    }
    if task == "gsm8k":
        at_once = 64 if jax.default_backend() == "cpu" else 256
        settings |= {"max_tokens": 256, "buckets": (256, 512), "batch": at_once}
    greedy = evaluate(there.policy, there.tokenizer, rows, samples=0, **settings)
    settings["batch"] = size.prompts
    few = evaluate(there.policy, there.tokenizer, rows[:SAMPLED], **settings)
    print(f"  {task}: {greedy}\n  sampled: {few}", flush=True)
    figures = {
        name: round(getattr(report, name), 4)
        for report, names in (
            (greedy, ("greedy", "low", "high", "lenient", "truncated")),
            (few, ("pass1", "pass8")),
        )
        for name in names
    }
    for name, column in (("right", "strict"), ("right_lenient", "lenient")):
        figures[name] = "".join(str(int(bit)) for bit in greedy.column(column))
    return figures | {"n": greedy.n}


def record(there: maths.Recipe, name: str, seed: int, seconds: float, wanted) -> None:
    """Measures a stage on every task that the table lacks, and appends the rows."""
    model = there.preset.model.split("/")[-1]
    measured_file = WORK / str(seed) / "measured.json"
    measured = json.loads(measured_file.read_text()) if measured_file.exists() else {}
    tools = CalculatorUse() if name in STAGES and STAGES[name].calculator else None
    reword = stop = None
    for task, rows in tasks().items():
        key = dict(zip(KEY, (model, name, task, seed), strict=True))
        same = measured.get(f"{name} {task}", there.started) == there.started
        if (wanted and task not in wanted) or (same and tables.has(TABLE, **key)):
            continue
        if reword is None:
            reword, stop = wording_of(there, name)
        figures = key | measure(there, task, reword(rows), tools, stop)
        figures |= {
            "seconds": round(seconds),
            "versions": f"{versions()} frozen {maths.frozen_dtype(there.preset)}",
            "load": round(os.getloadavg()[0], 1),
        }
        right = {name: figures.pop(name) for name in ("right", "right_lenient")}
        tables.put(TABLE, [figures], KEY, FIELDS)
        columns = (*KEY, "right", "right_lenient")
        tables.put(TABLE.with_name("real_right.csv"), [key | right], KEY, columns)
        measured[f"{name} {task}"] = there.started
        measured_file.parent.mkdir(parents=True, exist_ok=True)
        measured_file.write_text(json.dumps(measured))


def versions() -> str:
    """The versions of the packages, and the device where it is not a CPU."""
    parts = [f"{name} {metadata.version(name)}" for name in ("jax", "flax", "optax")]
    parts.append(f"python {platform.python_version()}")
    if jax.default_backend() != "cpu":
        parts.append(f"on {jax.devices()[0].device_kind}")
    return " ".join(parts)


def record_curve(name: str, seed: int, steps: list[dict]) -> None:
    """Puts the curve of an RL run into real_curves.csv."""
    if "reward/correct" not in steps[0]:
        return
    rate = f"{max(step['learning_rate'] for step in steps):g}"
    rows = [
        {
            "stage": name,
            "seed": seed,
            "rate": rate,
            "step": step["step"],
            "sampled": round(step["reward/correct"], 4),
            "held_out": step.get("eval/right", ""),
            "seconds": round(step["seconds"], 1),
        }
        for step in steps
    ]
    key = ("stage", "seed", "rate", "step")
    tables.put(TABLE.with_name("real_curves.csv"), rows, key)


def run(preset: presets.Preset, stages: list[str], seed: int, wanted=()) -> None:
    """Trains and measures stages in order, in the build folder of this seed."""
    os.environ["COURSE_BUILD"] = str(WORK / str(seed))
    for name in stages:
        print(f"{name}, seed {seed}", flush=True)
        if name in UNTRAINED:  # the same for all seeds
            record(maths.recipe(preset), name, 0, 0.0, wanted)
            continue
        stage = STAGES[name]
        require_trained(preset, name)
        if stage.train:
            stage.train(preset, seed)
        jax.clear_caches()
        folder = runtime.run_folder(f"{stage.adapters}_{preset.name}")
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line) for line in lines]
        there = maths.recipe(preset).start(stage.adapters)
        record(there, name, seed, sum(step["seconds"] for step in steps), wanted)
        if stage.train:
            record_curve(name, seed, steps)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    order = [*UNTRAINED, *STAGES]
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--stages", nargs="+", choices=order, default=order[:5])
    parser.add_argument("--tasks", nargs="+", choices=[*LEVELS.values(), "gsm8k"])
    parser.add_argument("--preset", default="laptop-real")
    given = parser.parse_args()
    for seed in given.seeds:
        run(presets.preset(given.preset), given.stages, seed, given.tasks or ())


if __name__ == "__main__":
    main()
