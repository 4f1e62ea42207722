"""What `handover.py` checks beside steps and manifests: weights, and MaxText."""

import json

import numpy as np
import weights_out
from ask import ROOT, run, run_step
from conversations import CASES
from handover_orders import LLAMA

from helpers.handover import Order
from helpers.rewards import (
    RewardSet,
    correct,
    food_rewards,
    format_reward,
    length_penalty,
)
from helpers.tasks import word_problems
from helpers.tools import HERMES, Call, nutrition, trace

CLOSE = 1e-4
# MaxText asks for all of TPUs' software; these are what is imported on the way here.
MAXTEXT = (
    ["--no-deps", "maxtext==0.2.5"],
    ["google-tunix==0.1.7", "jax==0.11.1", "flax>=0.12.9", "orbax-checkpoint>=0.12.4"],
    """transformers aqtp absl-py array-record datasets drjax einshape etils gcsfs grain
    omegaconf pydantic pathwaysutils ml-collections ml-goodput-measurement jaxtyping
    cloud-accelerator-diagnostics google-cloud-mldiagnostics qwix tensorboardx tokamax
    sentencepiece tiktoken safetensors math-verify latex2sympy2-extended pylatexenc
    optax chex psutil jsonlines huggingface-hub tabulate sympy google-cloud-storage
    google-metrax ninja""".split(),
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


def in_maxtext(python, scratch):
    """Our settings, rewards and rows in MaxText."""
    inputs = maxtext_inputs()
    results = run_step("maxtext", python, inputs, scratch)
    for algorithm, words in inputs["commands"].items():
        given = dict(word.split("=", 1) for word in words)
        wanted = {name: x for name, x in given.items() if name.startswith("rl.")}
        read = {name: results["settings"][algorithm][name] for name in wanted}
        same = all(_same(read[name], x) for name, x in wanted.items())
        assert same, f"{algorithm}: MaxText reads {read} of {wanted}"
    texts = inputs["texts"]
    answers = [json.loads(x)[0] for x in inputs["answers"]]
    traces = [trace(HERMES, [text], [nutrition.TOOL]) for text in texts]
    portions = [json.loads(x) for x in inputs["portions"]]
    totals, _ = RewardSet(food_rewards.WEIGHTS)(texts, traces, portions=portions)
    ours = {
        "correct": correct(texts, texts, answers),
        "format_reward": format_reward(texts, texts),
        "length_penalty": length_penalty(2000, soft=400)(texts, texts),
        "food": totals,
    }
    assert results["scores"] == ours, f"{results['scores']} {ours}"
    golds = sorted(
        json.dumps([row["answer"].split("#### ")[1]]) for row in inputs["rows"]
    )
    assert sorted(results["batch"]["answer"]) == golds
    print(
        f"maxtext {results['version']}: settings of {[*inputs['commands']]} read as "
        f"given; {len(ours)} rewards of {len(texts)} texts as here; a batch of "
        f"{len(golds)} rows; without the stand-in for vLLM: {results['refused']}"
    )


def maxtext_inputs():
    """The inputs of `maxtext_step.py`."""
    here = ROOT / "helpers" / "handover"
    call = HERMES.render([Call("lookup_nutrition", {"food": "pizza", "grams": 150})])
    texts = ["2 + 2\n#### 4", "four", "x" * 1800, f"I see pizza. {call}"]
    texts += [texts[0] for _, texts, _ in CASES.values() if len(texts) == 1]
    portions = [[{"food": "pizza", "grams": 150}]] * 4
    portions += [wanted for wanted, texts, _ in CASES.values() if len(texts) == 1]
    orders = {
        algorithm: Order(**LLAMA | {"model": "qwen3-0.6b", "algorithm": algorithm})
        for algorithm in ("grpo", "gspo-token")
    }
    return {
        "commands": {name: row.training(False)[3:] for name, row in orders.items()},
        "changes": {
            "reward_functions_path": str(here / "rewards.py"),
            "dataset_processor_path": str(here / "rewards.py"),
            "reward_functions": "correct,format_reward,length_penalty,food",
        },
        "rows": word_problems.generate(4, seed=3, levels=(1,)),
        "model": str(weights_out.TINY),
        "texts": texts,
        "answers": [json.dumps(["4"])] * len(texts),
        "portions": [json.dumps(wanted) for wanted in portions],
    }


def _same(read, given):
    """Whether two texts are one setting."""
    try:
        return float(read) == float(given)
    except ValueError:
        return read == given
