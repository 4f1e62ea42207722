"""Which of our stacked weights is which tensor of a Hugging Face folder: one table."""

import jax
from flax import nnx

from helpers.model.config import ModelConfig
from helpers.model.gemma4_config import SHARING
from helpers.model.gemma4_vision import BOUNDS, MATRICES
from helpers.model.transformer import Transformer

OUTSIDE = {
    "embed": "model.embed_tokens.weight",
    "head": "lm_head.weight",
    "final_norm": "model.norm.weight",
}
PER_LAYER = {
    "vectors": "model.embed_tokens_per_layer.weight",
    "projection": "model.per_layer_model_projection.weight",
    "norm": "model.per_layer_projection_norm.weight",
}
TABLE, HOST_TABLE = ("per_layer", "vectors"), ("per_layer", "host_vectors")
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
    "input_gate": "per_layer_input_gate.weight",  # these four are of Gemma 4
    "input_out": "per_layer_projection.weight",
    "input_norm": "post_per_layer_input_norm.weight",
    "scale": "layer_scalar",
}
TOWER = "vision_tower.vision_model."
OF_VISION = {
    "patch": TOWER + "embeddings.patch_embedding.weight",
    "patch_bias": TOWER + "embeddings.patch_embedding.bias",
    "positions": TOWER + "embeddings.position_embedding.weight",
    "final_norm": TOWER + "post_layernorm.weight",
    "final_norm_bias": TOWER + "post_layernorm.bias",
    "soft_norm": "multi_modal_projector.mm_soft_emb_norm.weight",
    "projection": "multi_modal_projector.mm_input_projection_weight",
}
IN_VISION_LAYER = {
    "attention_norm": "layer_norm1.weight",
    "attention_norm_bias": "layer_norm1.bias",
    "ff_norm": "layer_norm2.weight",
    "ff_norm_bias": "layer_norm2.bias",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.out_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "o_bias": "self_attn.out_proj.bias",
    "up": "mlp.fc1.weight",
    "up_bias": "mlp.fc1.bias",
    "down": "mlp.fc2.weight",
    "down_bias": "mlp.fc2.bias",
}
OF_GEMMA4_VISION = {
    "patches": TOWER + "patch_embedder.input_proj.weight",
    "positions": TOWER + "patch_embedder.position_embedding_table",
    "token_bias": TOWER + "std_bias",
    "token_scale": TOWER + "std_scale",
    "projection": "embed_vision.embedding_projection.weight",
}
# Its layers are called as the decoder's, but for the matrices, which may have bounds.
_MATRICES = {name: IN_LAYER[name].removesuffix(".weight") for name in MATRICES}
IN_GEMMA4_VISION_LAYER = (
    IN_GEMMA_LAYER
    | {name: f"{theirs}.linear.weight" for name, theirs in _MATRICES.items()}
    | {f"{x}_{bound}": f"{_MATRICES[x]}.{bound}" for x in MATRICES for bound in BOUNDS}
)
# Tensors of Gemma 4's other parts.
HEARING = ("audio_tower.", "embed_audio.")
TOWERS = ("vision_tower.", "embed_vision.", *HEARING)
# Where Gemmas with vision keep their halves, and what we call that: Gemma 3 in the
# hub's folders, which all releases of transformers read, and inside it since 4.52.
HALVES = {
    "language_model.model.": "model.",
    "model.language_model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "model.vision_tower.": "vision_tower.",
    "model.multi_modal_projector.": "multi_modal_projector.",
    "model.embed_vision.": "embed_vision.",
    "model.audio_tower.": "audio_tower.",
    "model.embed_audio.": "embed_audio.",
}


def of_weight(path, config):
    """[(place or None, tensor name)] of the weight at a tree path like layers/q.

    A place is along the axis of layers. Names are those of a text-only folder, and the
    hub's of vision; see `in_folder`.
    """
    if path[0] == "vision":
        outside, inside = OF_VISION, IN_VISION_LAYER
        if config.gemma4:
            outside, inside = OF_GEMMA4_VISION, IN_GEMMA4_VISION_LAYER
        if path[1] != "layers":
            return [(None, outside[path[1]])]
        stem, name = TOWER + "encoder.layers", inside[path[2]]
        return [(i, f"{stem}.{i}.{name}") for i in range(config.vision.layers)]
    if path[0] == "per_layer":
        return [(None, PER_LAYER[path[1]])]
    if path[0] != "layers":
        return [(None, OUTSIDE[path[0]])]
    *stack, name = path[1:]
    numbers = config.gemma4.stacks[stack[0]] if stack else range(config.layers)
    name = (IN_GEMMA_LAYER if config.is_gemma else IN_LAYER)[name]
    return [(i, f"model.layers.{number}.{name}") for i, number in enumerate(numbers)]


def of_model(config: ModelConfig) -> set[str]:
    """The names of all tensors a checkpoint of this shape holds."""
    return {name for path in shapes(config) for _, name in of_weight(path, config)}


def shapes(config: ModelConfig) -> dict:
    """{tree path: shape and dtype} of each weight of a plain model of this shape."""
    made = nnx.eval_shape(lambda: nnx.state(Transformer(config, nnx.Rngs(0))))
    return dict(items(made))


def file_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """{tensor name: its shape in a folder} of a model without vision."""
    return {
        name: shape.shape if layer is None else shape.shape[:0:-1]
        for path, shape in shapes(config).items()
        for layer, name in of_weight(path, config)
    }


def ours(name: str) -> str:
    """What `of_weight` calls the tensor of a folder, whichever release wrote it."""
    for prefix, plain in HALVES.items():
        if name.startswith(prefix):
            name = plain + name.removeprefix(prefix)
    if name.startswith("vision_tower.") and not name.startswith(TOWER):
        name = TOWER + name.removeprefix("vision_tower.")
    return name


def of_vision(name: str) -> bool:
    """Whether a tensor, by our name of it, belongs to the half that sees or hears."""
    return name.startswith((*TOWERS, "multi_modal_projector."))


def of_hearing(name: str) -> bool:
    """Whether a tensor, by our name of it, is of what hears, which is never read."""
    return name.startswith(HEARING)


def is_read(name: str, vision: bool) -> bool:
    """Whether a tensor, by our name of it, is read, with the tower that sees or not."""
    return not of_hearing(name) and (vision or not of_vision(name))


def needless(config: ModelConfig) -> set[str]:
    """Names of tensors that a checkpoint may hold beside those that are read.

    The vocabulary's vectors a second time, and keys and values matrices of Gemma 4's
    layers that have those of others.
    """
    found = {OUTSIDE["head"]}
    for stack, numbers in (config.gemma4.stacks if config.gemma4 else {}).items():
        if stack.startswith(SHARING):
            names = [IN_LAYER[name] for name in ("k", "v", "k_norm")]
            found |= {f"model.layers.{i}.{name}" for i in numbers for name in names}
    return found


def in_folder(name: str, config: ModelConfig) -> str:
    """The hub's name of a tensor in a folder of this model; undoes `ours`."""
    if config.vision is None:
        return name
    if config.gemma4:
        if of_vision(name):
            return "model." + name.replace(TOWER, "vision_tower.")
        return name.replace("model.", "model.language_model.", 1)
    return name if of_vision(name) else f"language_model.{name}"


def in_transformers(name: str, towers: bool) -> str:
    """What a text tensor is called inside the loaded model, since transformers 4.52.

    Args:
      towers: whether transformers opens it with what sees or hears beside it.
    """
    inside = "model.language_model." if towers else "model."
    return inside + name.removeprefix("model.")


def items(state):
    """(path of names, array or shape) of each variable, without nnx wrappers."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(nnx.to_pure_dict(state))
    return [(tuple(key.key for key in path), leaf) for path, leaf in leaves]
