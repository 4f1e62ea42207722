"""Which of our stacked weights is which tensor of a Hugging Face folder: one table."""

import jax
from flax import nnx

from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer

OUTSIDE = {
    "embed": "model.embed_tokens.weight",
    "head": "lm_head.weight",
    "final_norm": "model.norm.weight",
}
IN_LAYER = {
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
    "attention_norm": "input_layernorm.weight",
    "ff_norm": "post_attention_layernorm.weight",
}
IN_GEMMA_LAYER = IN_LAYER | {
    "post_attention_norm": "post_attention_layernorm.weight",
    "ff_norm": "pre_feedforward_layernorm.weight",
    "post_ff_norm": "post_feedforward_layernorm.weight",
}
# Gemma 3 with vision keeps its text half under one of these, by release.
TEXT_HALF = {
    "language_model.model.": "model.",
    "model.language_model.": "model.",
    "language_model.lm_head.": "lm_head.",
}
VISION_HALF = ("vision_tower", "multi_modal_projector")


def of_weight(path, config):
    """[(layer or None, tensor name)] of the weight at a tree path like layers/q."""
    if path[0] != "layers":
        return [(None, OUTSIDE[path[0]])]
    name = (IN_GEMMA_LAYER if config.is_gemma else IN_LAYER)[path[1]]
    return [(i, f"model.layers.{i}.{name}") for i in range(config.layers)]


def of_model(config: ModelConfig) -> set[str]:
    """The names of all tensors a checkpoint of this shape holds."""
    shapes = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    return {name for path, _ in items(shapes) for _, name in of_weight(path, config)}


def of_text(name: str) -> str | None:
    """A tensor's name in a text-only folder; None if it belongs to the vision half."""
    if any(part in VISION_HALF for part in name.split(".")[:2]):
        return None
    for prefix, plain in TEXT_HALF.items():
        if name.startswith(prefix):
            return plain + name.removeprefix(prefix)
    return name


def items(state):
    """(path of names, array or shape) of each variable, without nnx wrappers."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(nnx.to_pure_dict(state))
    return [(tuple(key.key for key in path), leaf) for path, leaf in leaves]
