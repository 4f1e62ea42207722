"""Where this runs, on which devices, and where files go."""

from helpers.runtime.environment import (
    ROOT,
    build_folder,
    model_folder,
    run_folder,
    seed,
    where,
)
from helpers.runtime.jit import jit
from helpers.runtime.lasting import keep_runs
from helpers.runtime.mesh import make_mesh
from helpers.runtime.secrets import token

__all__ = [
    "ROOT",  # the folder of the course
    "build_folder",  # where everything made goes
    "jit",  # jax.jit, compiled as the trainer's update is
    "keep_runs",  # on Google Drive, or in Kaggle's output folder
    "make_mesh",  # the devices, as ("data", "model")
    "model_folder",  # where a run saves its finished model
    "run_folder",  # checkpoints and logs of a run
    "seed",  # the seed of this run of the course
    "token",  # a secret, such as HF_TOKEN
    "where",  # "colab", "kaggle" or "laptop"
]
