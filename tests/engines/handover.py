"""`make handover-check`: our rewards in TRL and Tunix, and our rows in XPK.

    python tests/engines/handover.py [trl] [tunix] [xpk]      all three without a word

Each engine has an environment of its own under build/engines, made here with pip. A
model that the course wrote takes one real step of GRPO there, rewarded by `correct`,
`format_reward` and `length_penalty` as they are; what they said is compared with what
they say here. XPK makes the JobSets of two rows (it starts nothing), and they are held
to what `helpers.handover` knows of slices, and to JobSet's schema where
COURSE_JOBSET_SCHEMA names it.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "bench")]
sys.path.append(str(ROOT / "tests" / "handover"))

from bench import PEERS, environment  # noqa: E402
from handover_orders import LLAMA, OWN  # noqa: E402

from helpers.handover import Order, pathways_command  # noqa: E402
from helpers.rewards import correct, format_reward, length_penalty  # noqa: E402

NEEDS = {
    "trl": (*PEERS["trl"], ["jax==0.10.2"]),  # helpers.rewards looks where it runs
    "tunix": PEERS["tunix"],
    "xpk": (["xpk==1.16.0"],),
}
QUESTIONS = 4
SIZES = {"group": 4, "max_tokens": 24}


def rewards():
    """The reward functions that every engine gets."""
    return [correct, format_reward, length_penalty(200, soft=200)]


def rows():
    """A few questions of the course."""
    from helpers.tasks import word_problems

    return word_problems.generate(QUESTIONS, seed=3, levels=(1,))


def qwen3(folder):
    """Writes a small random Qwen3 of ours, and the logits that it gives."""
    import jax.numpy as jnp
    import numpy as np
    from flax import nnx

    from helpers.model import ModelConfig, Transformer, weights
    from helpers.text import chat

    tokenizer = chat.load_tokenizer(ROOT / "data" / "tiny" / "sft")
    # Tunix 0.1.7 turns queries and keys by 1e6, whatever its config says.
    sizes = len(tokenizer), 64, 2, 4, 2, 16, 128
    config = ModelConfig("qwen3", *sizes, rope_theta=1e6)
    model = Transformer(config, nnx.Rngs(0))
    weights.save(model, folder, tokenizer)
    tokens = jnp.arange(3, 43, dtype=jnp.int32).reshape(2, 1, 20)
    places = jnp.broadcast_to(jnp.arange(20), tokens.shape)
    hidden, _ = model(tokens, places, jnp.ones_like(tokens))
    np.save(folder / "logits.npy", np.asarray(model.logits(hidden))[:, 0])


def step(engine, python, scratch):
    """One real step in an engine; its rewards are those that we give."""
    asked = {"rows": rows(), "out": str(scratch / f"{engine}.json"), **SIZES}
    asked["model"] = str(ROOT / "data" / "tiny" / "sft")
    if engine == "tunix":  # its Gemma 3 has one pattern of layers, ours another
        asked["model"] = str(scratch / "qwen3")
        qwen3(scratch / "qwen3")
    (scratch / "asked.json").write_text(json.dumps(asked))
    command = [
        str(python),
        str(HERE / f"{engine}_step.py"),
        str(scratch / "asked.json"),
    ]
    own = {"PYTHONPATH": f"{ROOT}:{HERE}", "JAX_PLATFORMS": "cpu"}
    subprocess.run(command, check=True, env=os.environ | own)
    found = json.loads((scratch / f"{engine}.json").read_text())
    answers = QUESTIONS * SIZES["group"]
    for function in rewards():
        told = found["rewards"][function.__name__]
        assert len(told["scores"]) == len(told["completions"]) >= answers
        columns = {"answer": told["answer"]}
        here = function(told["completions"], told["completions"], **columns)
        assert told["scores"] == here, f"{function.__name__}: {told['scores']} {here}"
    assert found["moved"] > 0, "no weight moved"
    assert found.get("gap", 0) < 1e-4, "the engine reads our weights otherwise"
    varied = len(set(found["rewards"]["length_penalty"]["scores"]))
    print(
        f"{engine} {found['version']}: one step of GRPO, {answers} answers, {varied} "
        "different length penalties, rewards as here; weights moved "
        f"{found['moved']:.1e}"
    )
    if "gap" in found:
        print(f"{engine}: its logits of our weights within {found['gap']:.1e} of ours")


def manifests(python, scratch):
    """XPK's JobSets of two rows, and whether they say what the rows say."""
    for number, row in enumerate((LLAMA, LLAMA | {"algorithm": "gspo-token"}, OWN)):
        order, file = Order(**row), scratch / f"{number}.yaml"
        words = pathways_command(order, str(file))
        # XPK keeps settings in the home folder; here it gets one of its own.
        home = os.environ | {"HOME": str(scratch)}
        command = [str(python.parent / words[0]), *words[1:]]
        subprocess.run(command, check=True, env=home, stdout=subprocess.DEVNULL)
        made = yaml.safe_load(file.read_text())
        jobs = {job["name"]: job for job in made["spec"]["replicatedJobs"]}
        inner = jobs["worker"]["template"]["spec"]
        assert inner["completions"] == order.kind.hosts
        labels = inner["template"]["spec"]["nodeSelector"]
        assert labels["cloud.google.com/gke-tpu-accelerator"] == order.kind.accelerator
        assert labels["cloud.google.com/gke-tpu-topology"] == order.kind.topology
        (worker,) = inner["template"]["spec"]["containers"]
        chips = worker["resources"]["limits"]["google.com/tpu"]
        assert int(chips) == order.kind.chips_per_host
        (head,) = jobs["pathways-head"]["template"]["spec"]["template"]["spec"][
            "containers"
        ]
        assert " ".join(order.training(pathways=True)) in head["command"][-1]
        print(
            f"xpk: {order.name}, {order.algorithm} on {order.slice}: {order.kind.hosts}"
            f" hosts of {chips} chips, {order.kind.topology}; {validated(made)}"
        )


def validated(made):
    """Whether a manifest is what the published schema wants, in words."""
    import jsonschema
    from test_jobset import SCHEMA, strict

    if not SCHEMA.is_file():
        return f"not validated, there is no {SCHEMA}"
    (version,) = yaml.safe_load(SCHEMA.read_text())["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    jsonschema.Draft7Validator(schema).validate(made)
    return "valid by JobSet's schema"


def main():
    """Checks the engines of the command line."""
    asked = sys.argv[1:] or [*NEEDS]
    for engine in asked:
        python = environment(engine, NEEDS[engine], ROOT / "build" / "engines")
        with tempfile.TemporaryDirectory() as scratch:
            if engine == "xpk":
                manifests(python, pathlib.Path(scratch))
            else:
                step(engine, python, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
