"""`make handover-check`: our rewards and weights in other engines.

    python tests/engines/handover.py [trl] [tunix]      both without words

Each engine has an environment of its own under build/engines, made here with pip. In
TRL and Tunix a model that the course wrote takes one real step of GRPO, rewarded by
`correct`, `format_reward` and `length_penalty` as they are; their scores are compared
with those given here, and food rewards with what is written of conversations. Tunix's
loaders read our weights, and we read theirs.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "bench")]

import weights_out  # noqa: E402
from ask import run, run_step  # noqa: E402
from bench import PEERS, environment  # noqa: E402

from helpers.rewards import correct, format_reward, length_penalty  # noqa: E402

NEEDS = {
    "trl": (*PEERS["trl"], ["jax==0.10.2"]),  # helpers.rewards looks where it runs
    "tunix": PEERS["tunix"],
}
CLOSE = 1e-4  # of logits
QUESTIONS = 4
SIZES = {"group": 4, "max_tokens": 24}


def rewards():
    """The reward functions that every engine gets."""
    return [correct, format_reward, length_penalty(200, soft=200)]


def rows():
    """A few questions of the course."""
    from helpers.tasks import word_problems

    return word_problems.generate(QUESTIONS, seed=3, levels=(1,))


def step(engine, python, scratch):
    """One real step in an engine; its rewards are those that we give."""
    inputs = {"rows": rows(), **SIZES}
    inputs["model"] = str(ROOT / "data" / "tiny" / "sft")
    if engine == "tunix":  # its Gemma 3 has one pattern of layers, ours another
        inputs["model"] = str(scratch / "qwen3")
        weights_out.write("qwen3", scratch / "qwen3")
    results = run_step(engine, python, inputs, scratch)
    answers = QUESTIONS * SIZES["group"]
    for function in rewards():
        calls = results["rewards"][function.__name__]
        assert len(calls["scores"]) == len(calls["completions"]) >= answers
        columns = {"answer": calls["answer"]}
        here = function(calls["completions"], calls["completions"], **columns)
        assert calls["scores"] == here, f"{function.__name__}: {calls['scores']} {here}"
    assert results["moved"] > 0, "no weight moved"
    varied = len(set(results["rewards"]["length_penalty"]["scores"]))
    print(
        f"{engine} {results['version']}: one step of GRPO, {answers} answers, {varied} "
        "different length penalties, rewards as here; weights moved "
        f"{results['moved']:.1e}; food rewards of {results['conversations']} "
        "hand-written conversations as written"
    )


def through_tunix(python, scratch):
    """Our folders by Tunix's loaders, and what it writes, by ours: the same logits."""
    folders = [scratch / "weights" / name for name in weights_out.SHAPES]
    for folder in folders:
        weights_out.write(folder.name, folder)
    run(python, scratch, "tunix_weights.py", *folders)
    results = json.loads((scratch / "weights" / "results.json").read_text())
    for folder in folders:
        there = results["gaps"][folder.name]
        assert there < CLOSE, f"Tunix reads our {folder.name} otherwise: {there}"
        text = f"tunix: our {folder.name} there {there:.1e} from ours"
        back = folder.with_name(f"{folder.name}-back")
        if back.is_dir():
            theirs = np.load(back / "logits.npy")
            moved = np.abs(theirs - np.load(folder / "logits.npy")).max()
            apart = np.abs(weights_out.read(back) - theirs).max()
            assert apart < CLOSE < moved, f"{folder.name}: {apart}, moved {moved}"
            text += f"; back with adapters merged, which move logits by {moved:.1f},"
            text += f" {apart:.1e}"
        print(text)


def main():
    """Checks the engines of the command line."""
    for engine in sys.argv[1:] or NEEDS:
        folder = ROOT / "build" / "engines"
        python = environment(engine, NEEDS[engine], folder, "python3.11")
        with tempfile.TemporaryDirectory() as made:
            scratch = pathlib.Path(made)
            step(engine, python, scratch)
            if engine == "tunix":
                through_tunix(python, scratch)


if __name__ == "__main__":
    main()
