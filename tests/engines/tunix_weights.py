"""Our folders through Tunix's own loaders, and back where it writes; see handover.py.

    python tunix_weights.py FOLDER...      each with a model.safetensors and logits.npy

Writes what it found into found.json beside the first folder, and for every family that
Tunix can write, a folder of the model with adapters merged and its own logits.
"""

import importlib
import importlib.metadata
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import qwix
from flax import nnx

LOADERS = {"gemma3_text": "gemma3", "qwen2": "qwen2", "qwen3": "qwen3"}
RANK, ALPHA = 4, 8.0


def settings(told):
    """Tunix's sizes of a model, by its config.json."""
    shared = {
        "num_layers": told["num_hidden_layers"],
        "embed_dim": told["hidden_size"],
        "hidden_dim": told["intermediate_size"],
        "num_heads": told["num_attention_heads"],
        "head_dim": told["head_dim"],
        "num_kv_heads": told["num_key_value_heads"],
        "param_dtype": jnp.float32,
    }
    if told["model_type"] == "gemma3_text":
        stretch = told.get("rope_scaling") or {}
        return shared | {
            "num_embed": told["vocab_size"],
            "sliding_window_size": told["sliding_window"],
            "global_base_frequency": int(told["rope_theta"]),
            "global_scale_factor": stretch.get("factor", 1.0),
        }
    return shared | {
        "vocab_size": told["vocab_size"],
        "rope_theta": int(told["rope_theta"]),
        "norm_eps": told["rms_norm_eps"],
        "use_tied_embedding": True,
        "dtype": jnp.float32,
    }


def load(folder, mesh):
    """(Tunix's model of a folder, its module of parameters)."""
    told = json.loads((folder / "config.json").read_text())
    told.setdefault("head_dim", told["hidden_size"] // told["num_attention_heads"])
    family = LOADERS[told["model_type"]]
    module = importlib.import_module(f"tunix.models.{family}.model")
    name = "params_safetensors" if family == "gemma3" else "params"
    loader = importlib.import_module(f"tunix.models.{family}.{name}")
    config = module.ModelConfig(**settings(told))
    made = loader.create_model_from_safe_tensors(
        str(folder), config, mesh, dtype=jnp.float32
    )
    return made, importlib.import_module(f"tunix.models.{family}.params")


def logits(model, ours):
    """What Tunix says of the tokens that `ours` are the logits of."""
    rows, length, _ = ours.shape
    tokens = jnp.arange(3, 3 + rows * length, dtype=jnp.int32).reshape(rows, length)
    places = jnp.broadcast_to(jnp.arange(length), tokens.shape)
    seen = jnp.broadcast_to(
        jnp.tril(jnp.ones((length, length), bool)), (rows, length, length)
    )
    return np.asarray(model(tokens, places, None, seen)[0])


def with_adapters(model):
    """The model with adapters that are not zero."""
    provider = qwix.LoraProvider(
        module_path=".*q_einsum|.*kv_einsum|.*gate_proj|.*down_proj|.*q_proj",
        rank=RANK,
        alpha=ALPHA,
    )
    model = qwix.apply_lora_to_model(model, provider, **model.get_model_input())
    state = nnx.state(model, nnx.LoRAParam)
    leaves, form = jax.tree.flatten(state)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    drawn = [
        0.1 * jax.random.normal(key, x.shape)
        for key, x in zip(keys, leaves, strict=True)
    ]
    nnx.update(model, jax.tree.unflatten(form, drawn))
    return model


def main():
    """Loads every folder of the command line, and writes back what can be written."""
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(auto, auto))
    found = {"version": importlib.metadata.version("google-tunix"), "gaps": {}}
    for folder in map(pathlib.Path, sys.argv[1:]):
        ours = np.load(folder / "logits.npy")
        with mesh:
            model, params = load(folder, mesh)
            found["gaps"][folder.name] = float(np.abs(logits(model, ours) - ours).max())
            if not hasattr(params, "save_lora_merged_model_as_safetensors"):
                continue
            model = with_adapters(model)
            back = folder.with_name(f"{folder.name}-back")
            params.save_lora_merged_model_as_safetensors(
                str(folder), str(back), model, RANK, ALPHA
            )
            np.save(back / "logits.npy", logits(model, ours))
    pathlib.Path(sys.argv[1]).with_name("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
