"""Gemma 3 270M's GRPO loss and gradient on one v5e chip, ours and google-tunix's.

    make tpu-peers

Each library compiles it with its own jax, and both with the libtpu of `make tpu-check`,
for the same answers, not run. Tunix has its defaults, except: no KL (beta 0), and
layers computed again in the backward pass, without which far less fits. All weights are
trained in bfloat16, in groups of eight. Table: data/results/tpu_peers.csv.
"""

import json
import os
import subprocess
import sys
from importlib import metadata

import bench
import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import SingleDeviceSharding

from helpers.tpu import compiler

TABLE = bench.ROOT / "data" / "results" / "tpu_peers.csv"
PEER = bench.PEERS["tunix"][0]
GROUP, LENGTH = 8, 256  # answers to a prompt, and tokens of each and of the prompt


def ours(rows):
    """(model, {name: (shape, dtype)} of a batch, its loss) of the course."""
    from helpers.model.config import KNOWN
    from helpers.tpu import programs
    from helpers.training import objectives

    model = programs.abstract_model(KNOWN["google/gemma-3-270m-it"], frozen=True)
    model.remat = "attention"
    batch = programs.group_batch(rows // GROUP, GROUP, LENGTH, LENGTH)
    return model, batch, objectives.policy_gradient(chunk=2048)


def tunix(rows):
    """The same of google-tunix, whose batches have a prompt for each answer."""
    from tunix.models.gemma3 import model as gemma3
    from tunix.rl import algo_core, common
    from tunix.rl.grpo.grpo_learner import GRPOConfig

    config = gemma3.ModelConfig.gemma3_270m()
    config.remat_config = gemma3.RematConfig.BLOCK
    model = nnx.eval_shape(lambda: gemma3.Gemma3(config, rngs=nnx.Rngs(0)))
    names = "prompt_ids prompt_mask completion_ids completion_mask".split()
    batch = {name: ((rows, LENGTH), jnp.int32) for name in names}
    batch["old_per_token_logps"] = ((rows, LENGTH), jnp.float32)
    batch["advantages"] = ((rows,), jnp.float32)
    settings = GRPOConfig(beta=0.0)
    settings.temperature = 1.0  # the learner copies it there from the rollouts

    def loss(model, batch):
        example = common.TrainExample(ref_per_token_logps=None, **batch)
        return algo_core.grpo_loss_fn(model, example, settings, pad_id=0, eos_id=1)

    return model, batch, loss


def report(library, rows):
    """What one library's program needs: a row of the table."""
    model, batch, loss = {"ours": ours, "tunix": tunix}[library](rows)
    graph, state = nnx.split(model)
    chip = SingleDeviceSharding(compiler.devices("v5e-1")[0])

    def there(shape, dtype):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=chip)

    state = jax.tree.map(lambda x: there(x.shape, x.dtype), state)
    batch = {name: there(*each) for name, each in batch.items()}
    step = jax.value_and_grad(lambda state, b: loss(nnx.merge(graph, state), b)[0])
    needs = compiler.compile_for("v5e-1", jax.jit(step), state, batch)
    names = "hbm_gb temporaries_gb modelled_ms roofline_ms".split()
    name = PEER[0] if library == "tunix" else "the course"
    versions = [f"{x} {metadata.version(x)}" for x in ("jax", "libtpu")]
    return {
        "library": library,
        "model": "google/gemma-3-270m-it",
        "topology": "v5e-1",
        "answers": rows,
        "fits": not needs.verdict,
        **{x: "" if needs.verdict else round(getattr(needs, x), 2) for x in names},
        "verdict": needs.verdict.split("\n")[0],
        "versions": ", ".join([name, *versions]),
    }


def main():
    """Compile every size with both libraries and write the table."""
    if not compiler.folder().is_dir():
        sys.exit("The TPU compiler is not here: run `make tpu-check` first.")
    path = os.pathsep.join([str(bench.ROOT), str(compiler.folder())])
    settings = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    pythons = {"ours": sys.executable, "tunix": bench.environment("tunix", [PEER])}
    lines = []
    for rows in (8, 16, 32, 128):
        for library, python in pythons.items():
            command = [str(python), __file__, library, str(rows)]
            run = subprocess.run(command, env=settings, capture_output=True, text=True)
            if run.returncode:
                raise bench.BenchError(f"{library} failed:\n{run.stderr[-2000:]}")
            lines.append(json.loads(run.stdout.strip().splitlines()[-1]))
            print({k: v for k, v in lines[-1].items() if v != ""}, flush=True)
            bench.tables.write(TABLE, lines)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(report(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
