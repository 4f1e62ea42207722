"""The families of models: all that is particular to one is its entry here.

An entry has the family's switches, what its config.json may say, and its names
elsewhere: of its grammar for tool calls and in GGUF files. `fields.json` has what a
field means that is missing, the keys of GGUF files, and how pictures are prepared, and
`names.toml` what each weight is called in a Hugging Face folder. A new family needs an
entry here, its chat template (`helpers.text.tokenizer`), and golden logits.
"""

import json
import pathlib
import tomllib
from typing import NamedTuple

FIELDS = json.loads(pathlib.Path(__file__).with_name("fields.json").read_text("utf-8"))
NAMES = tomllib.loads(pathlib.Path(__file__).with_name("names.toml").read_text("utf-8"))

# Begins the name of a stack of layers that use keys and values of earlier layers.
SHARING = "sharing_"


class Family(NamedTuple):
    """One family of models.

    architecture: the class of transformers that reads the decoder alone.
    with_towers: `model_type` of a model with towers for pictures or sounds; "": none.
    gemma: embeddings are scaled, the feed-forward has GELU, and each block's output is
      normalised, too.
    norm_plus_one: the weights of norms are written as 1 + w.
    qk_norm: queries and keys are normalised. qkv_bias: they and values have a bias.
    calls: which of `tools.grammars.GRAMMARS` its tool calls have; "": none of its own.
    gguf: `general.architecture` in GGUF files.
    reads: fields of config.json that count, beside those of all families; any other
      field that is not empty may change what the model computes, and is an error.
    rope_kinds: how rotary angles of global layers may be scaled.
    """

    architecture: str
    calls: str
    gguf: str
    with_towers: str = ""
    gemma: bool = False
    norm_plus_one: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    reads: str = "rope_scaling"
    rope_kinds: tuple[str, ...] = ("default", "linear", "llama3")


# By `model_type` in the config.json of the decoder alone.
FAMILIES = {
    "gemma3_text": Family(
        architecture="Gemma3ForCausalLM",
        with_towers="gemma3",
        calls="gemma3",
        gguf="gemma3",
        gemma=True,
        norm_plus_one=True,
        qk_norm=True,
        reads="rope_scaling rope_local_base_freq sliding_window sliding_window_pattern "
        "query_pre_attn_scalar hidden_activation",
    ),
    "gemma4_text": Family(
        architecture="Gemma4ForCausalLM",
        with_towers="gemma4",
        calls="gemma4",
        gguf="gemma4",
        gemma=True,
        qk_norm=True,
        reads="sliding_window hidden_activation global_head_dim per_layer_config "
        "num_global_key_value_heads attention_k_eq_v num_kv_shared_layers "
        "use_double_wide_mlp hidden_size_per_layer_input vocab_size_per_layer_input "
        "final_logit_softcapping use_bidirectional_attention",
        rope_kinds=("default", "proportional"),
    ),
    "qwen2": Family(
        architecture="Qwen2ForCausalLM", calls="hermes", gguf="qwen2", qkv_bias=True
    ),
    "qwen3": Family(
        architecture="Qwen3ForCausalLM", calls="hermes", gguf="qwen3", qk_norm=True
    ),
    "llama": Family(architecture="LlamaForCausalLM", calls="", gguf="llama"),
}
WITH_TOWERS = {f.with_towers: name for name, f in FAMILIES.items() if f.with_towers}


# By our name of a weight, that in a Hugging Face folder.
OUTSIDE, IN_LAYER, HALVES = (NAMES[table] for table in ("outside", "layer", "halves"))
IN_GEMMA_LAYER = IN_LAYER | NAMES["gemma_layer"]
TOWER = "vision_tower.vision_model."
_MODULES = NAMES["vision_modules"].items()
IN_VISION_LAYER = {name: f"{theirs}.weight" for name, theirs in _MODULES}
IN_VISION_LAYER |= {f"{name}_bias": f"{theirs}.bias" for name, theirs in _MODULES}
MATRICES = ("q", "k", "v", "o", "gate", "up", "down")
# In Gemma 4's tower, what goes into a matmul and comes out of it may have bounds.
BOUNDS = ("input_min", "input_max", "output_min", "output_max")
# Layers of its tower are called as the decoder's, but for the matrices.
_MATRICES = {name: IN_LAYER[name].removesuffix(".weight") for name in MATRICES}
IN_GEMMA4_VISION_LAYER = (
    IN_GEMMA_LAYER
    | {name: f"{theirs}.linear.weight" for name, theirs in _MATRICES.items()}
    | {f"{x}_{bound}": f"{_MATRICES[x]}.{bound}" for x in MATRICES for bound in BOUNDS}
)
# What tensors of the halves that hear, which is never read, or see begin with.
AUDIO = ("audio_tower.", "embed_audio.")
TOWERS = ("vision_tower.", "multi_modal_projector.", "embed_vision.", *AUDIO)


def weight_names(path, config):
    """[(place or None, tensor name)] of the weight at a tree path like layers/q.

    A place is along the axis of layers. Names are those of a text-only folder, and the
    hub's of vision; see `folder_name`.
    """
    if path[0] == "vision":
        outside, inside = NAMES["vision"], IN_VISION_LAYER
        if config.gemma4:
            outside, inside = NAMES["gemma4_vision"], IN_GEMMA4_VISION_LAYER
        if path[1] != "layers":
            return [(None, outside[path[1]])]
        stem, name = TOWER + "encoder.layers", inside[path[2]]
        return [(i, f"{stem}.{i}.{name}") for i in range(config.vision.layers)]
    if path[0] == "per_layer":
        return [(None, NAMES["per_layer"][path[1]])]
    if path[0] != "layers":
        return [(None, OUTSIDE[path[0]])]
    *stack, name = path[1:]
    numbers = config.gemma4.stacks[stack[0]] if stack else range(config.layers)
    name = (IN_GEMMA_LAYER if config.is_gemma else IN_LAYER)[name]
    return [(i, f"model.layers.{number}.{name}") for i, number in enumerate(numbers)]


def our_name(name: str) -> str:
    """What `weight_names` calls the tensor of a folder, whichever release wrote it."""
    for prefix, plain in HALVES.items():
        if name.startswith(prefix):
            name = plain + name.removeprefix(prefix)
    if name.startswith("vision_tower.") and not name.startswith(TOWER):
        name = TOWER + name.removeprefix("vision_tower.")
    return name


def is_vision(name: str) -> bool:
    """Whether a tensor, by our name of it, belongs to the half that sees or hears."""
    return name.startswith(TOWERS)


def redundant_names(config) -> set[str]:
    """Names of tensors that a checkpoint may hold beside those that are read.

    The vocabulary's vectors a second time, and keys and values matrices of Gemma 4's
    layers that have those of others.
    """
    redundant = {OUTSIDE["head"]}
    for stack, numbers in (config.gemma4.stacks if config.gemma4 else {}).items():
        if stack.startswith(SHARING):
            names = [IN_LAYER[name] for name in ("k", "v", "k_norm")]
            redundant |= {f"model.layers.{i}.{name}" for i in numbers for name in names}
    return redundant


def folder_name(name: str, config) -> str:
    """The hub's name of a tensor in a folder of this model; undoes `our_name`."""
    if config.vision is None:
        return name
    if config.gemma4:
        if is_vision(name):
            return "model." + name.replace(TOWER, "vision_tower.")
        return name.replace("model.", "model.language_model.", 1)
    return name if is_vision(name) else f"language_model.{name}"
