"""MaxText's own loading of our rewards, settings and rows; see handover.py.

Its RL trainer imports vLLM for TPUs before anything else, which is not to be had on a
machine without one. Two empty modules stand in its place here; all that is called below
is MaxText's own. Sampling, and so a step, needs vLLM, and is not run.
"""

import importlib
import importlib.metadata
import json
import multiprocessing.pool  # noqa: F401  MaxText uses it and does not import it
import pathlib
import pickle
import sys
import types

import pandas
from maxtext.integration import vllm
from transformers import AutoTokenizer


class Absent(types.ModuleType):
    """A module that can be imported from, and does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: None


def without_vllm():
    """Lets MaxText's RL trainer be imported; what it says of itself without that."""
    text = ""
    try:
        importlib.import_module("maxtext.trainers.post_train.rl.train_rl")
    except ImportError as error:
        text = f"{type(error).__name__}: {error}"
    for name in ("maxtext_vllm_adapter", "maxtext_vllm_rollout"):
        whole = f"{vllm.__name__}.{name}"
        sys.modules[whole] = Absent(whole)
        setattr(vllm, name, sys.modules[whole])
    return text


def settings(words, changes):
    """MaxText's configuration of the words of a command, some of them changed."""
    from maxtext.configs import pyconfig
    from maxtext.configs import types as kinds
    from maxtext.utils.globals import MAXTEXT_CONFIGS_DIR

    file = pathlib.Path(MAXTEXT_CONFIGS_DIR) / "post_train" / "rl.yml"
    given = dict(word.split("=", 1) for word in words) | changes
    del given["load_parameters_path"]  # there is none here
    argv = ["", str(file), *(f"{name}={value}" for name, value in given.items())]
    return pyconfig.initialize(argv, config_class=kinds.RLConfig)


def scored(config, inputs):
    """What MaxText's reward stack says of texts, function by function."""
    from maxtext.trainers.post_train.rl import train_rl

    functions = train_rl.build_reward_fns(
        config, lambda function: train_rl._RewardFn(function, config)
    )
    columns = {"answer": inputs["answers"], "portions": inputs["portions"]}
    texts = inputs["texts"]
    for function in functions:  # its worker processes get them pickled
        pickle.dumps(function.fn)
    return {
        function.__name__: function(prompts=texts, completions=texts, **columns)
        for function in functions
    }


def main():
    """Does what the file of the command line asks for."""
    inputs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    here = pathlib.Path(inputs["out"]).parent
    refused = without_vllm()
    from maxtext.trainers.post_train.rl import train_rl

    pandas.DataFrame(inputs["rows"]).to_parquet(here / "rows.parquet")
    changes = inputs["changes"] | {
        "base_output_directory": str(here),
        "hardware": "cpu",
        "dataset_name": "rows",
        "hf_train_files": str(here / "rows.parquet"),
        "num_test_batches": "0",
        "num_batches": "1",
        "batch_size": str(len(inputs["rows"])),
    }
    results = {
        "version": importlib.metadata.version("maxtext"),
        "refused": refused,
        "settings": {},
    }
    for algorithm, words in inputs["commands"].items():
        config = settings(words, changes)
        read = config.rl.model_dump(mode="json")
        results["settings"][algorithm] = {f"rl.{k}": str(v) for k, v in read.items()}
    results["scores"] = scored(config, inputs)
    tokenizer = AutoTokenizer.from_pretrained(inputs["model"])
    rows, _ = train_rl.prepare_datasets(config, tokenizer)
    (batch,) = list(rows)
    results["batch"] = {
        name: [str(x) for x in column] for name, column in batch.items()
    }
    pathlib.Path(inputs["out"]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
