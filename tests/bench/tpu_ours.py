"""Compile the course's GRPO loss and gradient for one v5e chip (`tpu_peers.py`).

The same model, all of it trained in bfloat16, and the same answers as `tpu_tunix.py`:
groups of eight, of which each computes its prompt once.
"""

import json
import sys

import jax
from flax import nnx
from jax.sharding import SingleDeviceSharding

from helpers.model.config import KNOWN
from helpers.tpu import compiler, programs
from helpers.training import objectives

GROUP = 8


def main(rows, prompt_tokens, completion_tokens):
    """Print the report of one batch as JSON."""
    model = programs.abstract_model(KNOWN["google/gemma-3-270m-it"], frozen=True)
    model.remat = "attention"
    graph, state = nnx.split(model)
    chip = SingleDeviceSharding(compiler.devices("v5e-1")[0])
    objective = objectives.policy_gradient(chunk=2048)
    sizes = rows // GROUP, GROUP, prompt_tokens, completion_tokens
    batch = {
        name: jax.ShapeDtypeStruct(shape, dtype, sharding=chip)
        for name, (shape, dtype) in programs.group_batch(*sizes).items()
    }

    def loss(state, batch):
        return objective.at_first(nnx.merge(graph, state), batch)[0]

    state = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=chip), state
    )
    report = compiler.compile_for(
        "v5e-1", jax.jit(jax.value_and_grad(loss)), state, batch
    )
    print(json.dumps({"hbm_gb": report.hbm_gb, **vars(report)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
