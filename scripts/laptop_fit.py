"""What GRPO's update asks of a laptop's memory, by XLA's compiler for CPUs.

    python -m scripts.laptop_fit      two CPU-minutes, into data/results/laptop_fit.csv

Of each model that notebook 15 offers, the update in float32 with adapters, in the sizes
of its run on a laptop. Nothing is allocated, so no model need be there.
"""

import dataclasses
import pathlib
from importlib import metadata

import jax
import jax.numpy as jnp

from helpers.course import which_model
from helpers.model.known import KNOWN
from helpers.recipes import presets
from helpers.runtime.sharding import make_mesh
from helpers.tpu import abstract_programs
from helpers.training import objectives, optimizers
from scripts import tables

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/results/laptop_fit.csv"
FIELDS = ("model", "prompts", "group", "arguments_gb", "temporaries_gb", "versions")
MINIBATCHES = 2  # as in notebook 15


def fit(config, size) -> tuple[float, float]:
    """GB of an update's arguments and of its temporaries, on one device.

    Args:
      config: a ModelConfig. size: a row of `presets.CUSTOM`.
    """
    mesh = make_mesh(jax.devices()[:1])
    model = abstract_programs.abstract_model(
        config, rank=size.lora_rank, dtype=jnp.dtype(size.dtype)
    )
    model.remat = size.remat
    batch = abstract_programs.group_batch(
        size.prompts, size.group, size.prompt_tokens, size.completion_tokens
    )
    program, arguments = abstract_programs.update(
        model,
        objectives.policy_gradient(chunk=size.chunk),
        optimizers.adamw(size.rl.rate),
        batch,
        mesh,
        minibatches=MINIBATCHES,
        accumulate=size.pieces // MINIBATCHES,
    )
    asked = program.lower(*arguments).compile().memory_analysis()
    return asked.argument_size_in_bytes / 1e9, asked.temp_size_in_bytes / 1e9


def main():
    """Writes the table anew."""
    size, rows = presets.CUSTOM["laptop"], []
    for name in which_model.offered():
        # As in notebook 15: all is kept for the backward pass of the small one alone.
        own = size if name == size.model else dataclasses.replace(size, remat="layer")
        arguments, temporaries = fit(KNOWN[name], own)
        row = {"model": name, "prompts": size.prompts, "group": size.group}
        row |= {"arguments_gb": round(arguments, 2)}
        row |= {"temporaries_gb": round(temporaries, 2)}
        rows.append(row | {"versions": f"jax {metadata.version('jax')}"})
        print(rows[-1], flush=True)
    tables.write(TABLE, rows, FIELDS)


if __name__ == "__main__":
    main()
