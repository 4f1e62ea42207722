"""Where this runs, on which devices, and where files go."""

from helpers.runtime.platform import (
    ROOT,
    build_folder,
    jit,
    model_folder,
    run_folder,
    seed,
    token,
    use_persistent_storage,
    where,
)
from helpers.runtime.sharding import make_mesh

__all__ = [
    "ROOT",  # the folder of the course
    "build_folder",  # where everything made goes
    "jit",  # jax.jit, compiled as the trainer's update is
    "use_persistent_storage",  # on Google Drive, or in Kaggle's output folder
    "make_mesh",  # the devices, as ("data", "model")
    "model_folder",  # where a run saves its finished model
    "run_folder",  # checkpoints and logs of a run
    "seed",  # the seed of this run of the course
    "token",  # a secret, such as HF_TOKEN
    "where",  # "colab", "kaggle" or "laptop"
]
