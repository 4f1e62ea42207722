"""What GRPO's update needs of a laptop's memory, by XLA's compiler for CPUs.

    python -m scripts.laptop_fit      two CPU-minutes, into data/results/laptop_fit.csv

Of each model that notebook 15 offers, the update in float32 with adapters, in the sizes
of its run on a laptop. Nothing is allocated, so no model need be there.
"""

import dataclasses
import math
from importlib import metadata

import jax
import jax.numpy as jnp
from flax import nnx

from helpers.course import results
from helpers.model import KNOWN
from helpers.recipes import presets
from helpers.runtime.sharding import make_mesh
from helpers.tpu import programs
from helpers.training import objectives, optimizers
from scripts import tables

MINIBATCHES = 2  # as in notebook 15


def fit(config, size) -> tuple[int, float, float]:
    """Parameters of a model, and GB of an update's arguments and of its temporaries.

    Args:
      size: a row of `presets.CUSTOM`.
    """
    mesh = make_mesh(jax.devices()[:1])
    model = programs.abstract_model(
        config, rank=size.lora_rank, dtype=jnp.dtype(size.dtype)
    )
    leaves = jax.tree.leaves(nnx.state(programs.abstract_model(config, frozen=True)))
    model.remat = size.remat
    program, arguments = programs.update(
        model,
        objectives.policy_gradient(chunk=size.chunk),
        optimizers.adamw(size.rl.rate),
        programs.group_batch(
            size.prompts, size.group, size.prompt_tokens, size.completion_tokens
        ),
        mesh,
        minibatches=MINIBATCHES,
        accumulate=size.pieces // MINIBATCHES,
    )
    memory = program.lower(*arguments).compile().memory_analysis()
    used = memory.argument_size_in_bytes, memory.temp_size_in_bytes
    return sum(math.prod(x.shape) for x in leaves), *(x / 1e9 for x in used)


def main():
    """Writes the table anew."""
    size, rows = presets.CUSTOM["laptop"], []
    for name in {row["model"] for row in results.fits()}:
        # As in notebook 15, only the small one saves all for the backward pass.
        sizes = size if name == size.model else dataclasses.replace(size, remat="layer")
        parameters, arguments, temporaries = fit(KNOWN[name], sizes)
        row = {"model": name, "parameters": parameters}
        row |= {"prompts": size.prompts, "group": size.group}
        row |= {"arguments_gb": round(arguments, 2)}
        row |= {"temporaries_gb": round(temporaries, 2)}
        rows.append(row | {"versions": f"jax {metadata.version('jax')}"})
        print(rows[-1], flush=True)
    rows.sort(key=lambda row: row["parameters"])
    tables.write(results.FOLDER / "laptop_fit.csv", rows)


if __name__ == "__main__":
    main()
