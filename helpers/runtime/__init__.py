"""Where this runs, on which devices, and where files go."""

from helpers.runtime.platform import (
    ROOT,  # the folder of the course
    build_folder,  # where everything made goes
    jit,  # jax.jit, compiled as the trainer's update is
    model_folder,  # where a run saves its finished model
    run_folder,  # checkpoints and logs of a run
    seed,  # the seed of this run of the course
    token,  # a secret, such as HF_TOKEN
    use_persistent_storage,  # on Google Drive, or in Kaggle's output folder
    where,  # "colab", "kaggle" or "laptop"
)
from helpers.runtime.sharding import make_mesh  # the devices, as ("data", "model")
