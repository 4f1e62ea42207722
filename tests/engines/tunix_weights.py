"""Our folders through Tunix's own loaders, and back where it writes; see handover.py.

    python tunix_weights.py FOLDER...      each with a model.safetensors and logits.npy

Writes the gaps into results.json beside the first folder, and for every family that
Tunix can write, a folder of the model with adapters merged and its logits.
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


def settings(sizes):
    """Tunix's sizes of a model, by its config.json."""
    shared = {
        "num_layers": sizes["num_hidden_layers"],
        "embed_dim": sizes["hidden_size"],
        "hidden_dim": sizes["intermediate_size"],
        "num_heads": sizes["num_attention_heads"],
        "head_dim": sizes["head_dim"],
        "num_kv_heads": sizes["num_key_value_heads"],
        "param_dtype": jnp.float32,
    }
    if sizes["model_type"] == "gemma3_text":
        stretch = sizes.get("rope_scaling") or {}
        return shared | {
            "num_embed": sizes["vocab_size"],
            "sliding_window_size": sizes["sliding_window"],
            "global_base_frequency": int(sizes["rope_theta"]),
            "global_scale_factor": stretch.get("factor", 1.0),
        }
    return shared | {
        "vocab_size": sizes["vocab_size"],
        "rope_theta": int(sizes["rope_theta"]),
        "norm_eps": sizes["rms_norm_eps"],
        "use_tied_embedding": True,
        "dtype": jnp.float32,
    }


def load(folder, mesh):
    """(Tunix's model of a folder, its module of parameters)."""
    sizes = json.loads((folder / "config.json").read_text())
    sizes.setdefault("head_dim", sizes["hidden_size"] // sizes["num_attention_heads"])
    family = LOADERS[sizes["model_type"]]
    module = importlib.import_module(f"tunix.models.{family}.model")
    name = "params_safetensors" if family == "gemma3" else "params"
    loader = importlib.import_module(f"tunix.models.{family}.{name}")
    config = module.ModelConfig(**settings(sizes))
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
    results = {"version": importlib.metadata.version("google-tunix"), "gaps": {}}
    for folder in map(pathlib.Path, sys.argv[1:]):
        ours = np.load(folder / "logits.npy")
        with mesh:
            model, params = load(folder, mesh)
            results["gaps"][folder.name] = float(
                np.abs(logits(model, ours) - ours).max()
            )
            if not hasattr(params, "save_lora_merged_model_as_safetensors"):
                continue
            model = with_adapters(model)
            back = folder.with_name(f"{folder.name}-back")
            params.save_lora_merged_model_as_safetensors(
                str(folder), str(back), model, RANK, ALPHA
            )
            np.save(back / "logits.npy", logits(model, ours))
    pathlib.Path(sys.argv[1]).with_name("results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
