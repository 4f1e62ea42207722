"""What GGUF files call a decoder's sizes and tensors, and what they hold otherwise.

Two things differ from Hugging Face's folders (llama.cpp's convert_hf_to_gguf.py): the
rows of Llama's queries and keys stand in the order in which its rotation takes them, in
pairs; and Gemma 3's norms are written with the 1 that is added to them. Gemma 4's
shape is in `gguf_gemma4`.
"""

import math

import numpy as np

from helpers.model import families, gguf_gemma4
from helpers.model.config import ModelConfig
from helpers.model.gguf_fields import Fields
from helpers.model.gguf_file import GGUFError, GGUFFile
from helpers.model.rope import Stretch, frequencies
from helpers.model.transformer import weight_shapes

FAMILIES = {  # by `general.architecture`
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma3": "gemma3_text",
    gguf_gemma4.NAME: "gemma4_text",
}
ARCHITECTURES = {family: name for name, family in FAMILIES.items()}
OUTSIDE = {
    "embed": "token_embd.weight",
    "head": "output.weight",
    "final_norm": "output_norm.weight",
}
IN_LAYER = {
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
    "attention_norm": "attn_norm.weight",
    "ff_norm": "ffn_norm.weight",
    "post_attention_norm": "post_attention_norm.weight",
    "post_ff_norm": "post_ffw_norm.weight",
    "input_gate": "inp_gate.weight",  # these four are of Gemma 4
    "input_out": "proj.weight",
    "input_norm": "post_norm.weight",
    "scale": "layer_output_scale.weight",
}
ROPE = gguf_gemma4.ROPE  # by how much each frequency is slowed down
# What llama.cpp builds into the architecture. Newer ones read the pattern and the base
# from the file if it has them; older ones do not.
GEMMA_PATTERN, GEMMA_27B_LAYERS, GEMMA_LOCAL_THETA = 6, 62, 1e4
UNTOLD = 8192  # positions of a model that says none: llama.cpp wants a number


def tensors(config: ModelConfig) -> dict[str, str]:
    """{name in a Hugging Face folder: name in a GGUF file} of all weights."""
    found = {}
    for path in weight_shapes(config):
        for layer, name in families.weight_names(path, config):
            if layer is not None:  # its place in a stack; the name has its number
                found[name] = f"blk.{name.split('.')[2]}.{IN_LAYER[path[-1]]}"
            elif path[0] == "per_layer":
                found[name] = gguf_gemma4.OUTSIDE[path[1]]
            else:
                found[name] = OUTSIDE[path[0]]
    return found


def needless(config: ModelConfig) -> set[str]:
    """Tensors that a file may hold beside those that are read."""
    known = {theirs: ours for ours, theirs in families.IN_LAYER.items()}
    found = {ROPE}
    for name in families.redundant_names(config):
        if name.startswith("model.layers."):
            _, _, number, inside = name.split(".", 3)
            found.add(f"blk.{number}.{IN_LAYER[known[inside]]}")
    return found


def from_gguf(array: np.ndarray, name: str, config: ModelConfig) -> np.ndarray:
    """A tensor as a Hugging Face folder has it; `name` is the one in the GGUF file."""
    if heads := _turned(name, config):
        pairs = array.reshape(heads, config.head_dim // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(array.shape)
    return array - 1 if _has_one(name, config) else array


def to_gguf(array: np.ndarray, name: str, config: ModelConfig) -> np.ndarray:
    """Undoes `from_gguf`."""
    if heads := _turned(name, config):
        halves = array.reshape(heads, 2, config.head_dim // 2, -1)
        return halves.swapaxes(1, 2).reshape(array.shape)
    return array + 1 if _has_one(name, config) else array


def _turned(name, config):
    """How many heads a tensor has whose rows stand in pairs; 0 for all others."""
    if config.family != "llama" or not name.startswith("blk."):
        return 0
    heads = {"attn_q": config.heads, "attn_k": config.kv_heads}
    return heads.get(name.split(".")[2], 0)


def _has_one(name, config):
    return config.norm_plus_one and name.endswith("norm.weight")


def read_config(file: GGUFFile) -> ModelConfig:
    """The shape of the model in a file.

    Raises:
      GGUFError: a size is missing or cannot be, or the file asks for something that
        this decoder does not do.
    """
    name = _architecture(file)
    read = Fields(file, name)
    embed = file.entries.get(OUTSIDE["embed"])
    if embed is None or len(embed.shape) != 2:
        raise GGUFError(
            f"{file.path} has no matrix {OUTSIDE['embed']}. Fetch the file again, or "
            "take another one."
        )
    common = {
        "family": FAMILIES[name],
        "vocab_size": embed.shape[0],
        "width": read.size("embedding_length"),
        "layers": read.size("block_count"),
        "heads": read.size("attention.head_count"),
        "max_positions": read.size("context_length"),
        "norm_eps": read.number("attention.layer_norm_rms_epsilon"),
        "tied": OUTSIDE["head"] not in file.entries,
    }
    if name == gguf_gemma4.NAME:
        read.refuse_unknown(known=("final_logit_softcapping",))
        return gguf_gemma4.read(read, file, common)
    read.refuse_unknown()
    return _of_one_kind(read, file, common)


def _architecture(file):
    """Its name; refuses parts of a file, which have none, and other things first."""
    if (parts := file.fields.get("split.count", 1)) not in (0, 1):
        raise GGUFError(
            f"{file.path} is one part of {parts!r:.40}: join them first, with "
            "`llama-gguf-split --merge`."
        )
    if (kind := file.fields.get("general.type", "model")) != "model":
        raise GGUFError(
            f"{file.path} holds something to put beside a model (general.type is "
            f"{kind!r:.40}): take the GGUF file of the model, or its folder of "
            "safetensors."
        )
    name = file.fields.get("general.architecture")
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise GGUFError(
            f"{file.path} is of architecture {name!r:.40}, not {known}: take a "
            "model of one of these."
        )
    return name


def _of_one_kind(read, file, common):
    """The shape of a model whose layers have all one size."""
    width, layers, heads = (common[key] for key in ("width", "layers", "heads"))
    head_dim = read.size("attention.key_length", width // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        read.require(key, head_dim)
    gemma = read.name == "gemma3"
    scale = width / heads if layers == GEMMA_27B_LAYERS else head_dim
    pattern, local = 1, GEMMA_LOCAL_THETA
    if gemma:
        pattern = read.size("attention.sliding_window_pattern", GEMMA_PATTERN)
        local = read.number("rope.freq_base_swa", local)
    return ModelConfig(
        **common,
        kv_heads=read.size("attention.head_count_kv", heads),
        head_dim=head_dim,
        ff=read.size("feed_forward_length"),
        window=read.size("attention.sliding_window") if gemma else 0,
        pattern=pattern,
        rope_theta=read.number("rope.freq_base", 1e6 if gemma else 1e4),
        rope_local_theta=local,
        stretch=_stretch(file, read, head_dim),
        query_scale=float(scale) if gemma else 0.0,
    )


def config_fields(config: ModelConfig) -> dict:
    """The metadata of a model's shape; `read_config` undoes it.

    Raises:
      GGUFError: the shape has something that llama.cpp builds in otherwise.
    """
    name = ARCHITECTURES[config.family]
    fields: dict[str, int | float | str | list] = {
        "block_count": config.layers,
        "context_length": config.max_positions or UNTOLD,
        "embedding_length": config.width,
        "feed_forward_length": config.ff,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.norm_eps,
        "rope.freq_base": config.rope_theta,
        "rope.dimension_count": config.head_dim,
        "vocab_size": config.vocab_size,
    }
    if config.gemma4:
        fields |= gguf_gemma4.fields(config)
    elif config.is_gemma:
        built_in = {
            "pattern": GEMMA_PATTERN,
            "rope_local_theta": GEMMA_LOCAL_THETA,
            "attention_scale": (
                config.width / config.heads
                if config.layers == GEMMA_27B_LAYERS
                else config.head_dim
            )
            ** -0.5,
        }
        for field, value in built_in.items():
            if not math.isclose(getattr(config, field), value):
                raise GGUFError(
                    f"The model has {field}={getattr(config, field)}, and llama.cpp "
                    f"gives every Gemma 3 of {config.layers} layers {value}: in a GGUF "
                    "file it would be another model. Save a folder in place of it."
                )
        fields["attention.sliding_window"] = config.window
    if config.stretch and config.stretch.kind == "linear":
        fields["rope.scaling.type"] = "linear"
        fields["rope.scaling.factor"] = config.stretch.factor
    return {f"{name}.{key}": value for key, value in fields.items()}


def slowed(config: ModelConfig) -> np.ndarray | None:
    """What `rope_freqs.weight` holds: by how much each frequency is divided.

    None where there is no such tensor: nothing is, or all by one factor.
    """
    if config.gemma4:
        return gguf_gemma4.slowed(config)
    if config.stretch is None or config.stretch.kind == "linear":
        return None
    sizes = config.head_dim, config.rope_theta
    ratio = frequencies(*sizes, None) / frequencies(*sizes, config.stretch)
    return np.asarray(ratio, np.float32)


def _stretch(file, read, head_dim):
    factor = read.stretched()
    if ROPE not in file.entries:
        return Stretch("linear", factor) if factor != 1 else None
    if factor != 1 or file.entries[ROPE].shape != (head_dim // 2,):
        raise GGUFError(
            f"{file.path}: {ROPE} is not for {head_dim // 2} frequencies, or these are "
            "divided a second time."
        )
    factors = file.array(ROPE)
    stretch = Stretch("llama3", float(np.round(factors.max(), 3)))
    theta = read.number("rope.freq_base", 1e4)
    expected = frequencies(head_dim, theta, None) / frequencies(
        head_dim, theta, stretch
    )
    if not np.allclose(factors, expected, rtol=1e-3):
        raise GGUFError(
            f"{file.path}: {ROPE} is not Llama 3.1's, of a model first trained on "
            f"{stretch.original} tokens."
        )
    return stretch
