"""Our folders through MaxText's converter, and back; see handover.py.

    python maxtext_weights.py FOLDER NAME OVERRIDE...

FOLDER is one of weights_out.py, NAME is MaxText's of a model of that family, OVERRIDE
are its sizes, "base_emb_dim=64". The converter's table of shapes gets the folder's
config.json instead of the published one; its mapping of names and arrays is used as it
is. Writes FOLDER-back and FOLDER-gap.json.
"""

import json
import multiprocessing.pool  # noqa: F401  MaxText uses it and does not import it
import pathlib
import shutil
import sys

import jax
import numpy as np
from absl import flags
from maxtext.checkpoint_conversion import to_huggingface, to_maxtext
from maxtext.common.common_types import MODEL_MODE_TRAIN
from maxtext.configs import pyconfig
from maxtext.utils import maxtext_utils, model_creation_utils
from maxtext.utils.globals import MAXTEXT_CONFIGS_DIR
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, Gemma3Config

BASE = str(pathlib.Path(MAXTEXT_CONFIGS_DIR) / "base.yml")
EXACT = {
    "override_model_config": "true",
    "dtype": "float32",
    "weight_dtype": "float32",
    "matmul_precision": "highest",
    "attention": "dot_product",
    "scan_layers": "false",
    "hardware": "cpu",
    "skip_jax_distributed_system": "true",
    "per_device_batch_size": "2",
    "use_multimodal": "false",
}


def renamed(folder, old, new):
    """A copy of a folder in which tensors have other names."""
    copy = folder.with_name(f"{folder.name}-renamed")
    shutil.copytree(folder, copy)
    held = load_file(folder / "model.safetensors")
    save_file(
        {name.replace(old, new, 1): x for name, x in held.items()},
        copy / "model.safetensors",
    )
    return copy


def words(name, overrides, **changes):
    """The arguments of a program of MaxText."""
    given = EXACT | {"model_name": name} | overrides | changes
    return ["", BASE, *(f"{key}={value}" for key, value in given.items())]


def gaps(argv, folder):
    """The largest difference between the logits of a checkpoint and ours.

    Its tied head rounds the table to bfloat16 whatever the settings say, so they are
    compared with ours of such a head as well.
    """
    ours = {name: np.load(folder / f"{name}.npy") for name in ("logits", "short_head")}
    rows, length, vocabulary = ours["logits"].shape
    config = pyconfig.initialize(argv)
    devices = maxtext_utils.create_device_mesh(config)
    mesh = jax.sharding.Mesh(devices, config.mesh_axes)
    model = model_creation_utils.from_pretrained(
        config, mesh, model_mode=MODEL_MODE_TRAIN
    )
    tokens = np.arange(3, 3 + rows * length, dtype=np.int32).reshape(rows, length)
    places = np.broadcast_to(np.arange(length), tokens.shape)
    with mesh:
        said = model(
            tokens,
            places,
            decoder_segment_ids=np.ones_like(tokens),
            enable_dropout=False,
            model_mode=MODEL_MODE_TRAIN,
        )
    said = np.asarray(said)[..., :vocabulary]
    return {name: float(np.abs(said - x).max()) for name, x in ours.items()}


def main():
    """Converts the folder of the command line there, compares, and converts it back."""
    folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    overrides = dict(word.split("=", 1) for word in sys.argv[3:])
    there, back = (folder.with_name(f"{folder.name}-{x}") for x in ("there", "back"))
    told = AutoConfig.from_pretrained(folder)
    source = folder
    if name.startswith("gemma3"):  # whose names are those of transformers in memory
        source = renamed(folder, "model.", "model.language_model.")
        told = Gemma3Config(text_config=told.to_dict())
    to_maxtext.HF_MODEL_CONFIGS[name] = told
    argv = words(name, overrides, base_output_directory=there)
    to_maxtext.main(
        argv,
        hf_model_path=str(source),
        save_dtype="float32",
        simulated_cpu_devices_count=2,  # with 1 it cannot save what it loads lazily
    )
    argv = words(name, overrides, load_parameters_path=there / "0" / "items")
    found = gaps(argv, folder)
    folder.with_name(f"{folder.name}-gap.json").write_text(json.dumps(found))
    argv += [f"base_output_directory={back}"]
    flags.FLAGS(["", f"--hf_model_path={folder}"])
    to_huggingface.main(argv)


if __name__ == "__main__":
    main()
