"""What GGUF files call a decoder's sizes and tensors, and what they hold otherwise.

Two things differ from Hugging Face's folders (llama.cpp's convert_hf_to_gguf.py): the
rows of Llama's queries and keys stand in the order in which its rotation takes them, in
pairs; and Gemma's norms are written with the 1 that is added to them.
"""

import math

import numpy as np

from helpers.model import names
from helpers.model.config import ModelConfig
from helpers.model.gguf_file import GGUFError, GGUFFile
from helpers.model.rope import Stretch, frequencies

FAMILIES = {  # by `general.architecture`
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma3": "gemma3_text",
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
}
ROPE = "rope_freqs.weight"  # by how much each frequency of Llama 3.1 is slowed down
# What llama.cpp builds into the architecture. Newer ones read the pattern and the base
# from the file if it has them; older ones do not.
GEMMA_PATTERN, GEMMA_27B_LAYERS, GEMMA_LOCAL_THETA = 6, 62, 1e4
# Keys that would change what is computed, and the value that changes nothing.
UNKNOWN = {
    "expert_count": 0,
    "attn_logit_softcapping": 0,
    "final_logit_softcapping": 0,
    "attention.causal": True,
    "logit_scale": 1,
    "residual_scale": 1,
    "embedding_scale": 1,
    "attention.scale": 0,
    "use_parallel_residual": False,
}


def tensors(config: ModelConfig) -> dict[str, str]:
    """{name in a Hugging Face folder: name in a GGUF file} of all weights."""
    found = {}
    for path in names.shapes(config):
        for layer, name in names.of_weight(path, config):
            theirs = OUTSIDE if layer is None else IN_LAYER
            stem = "" if layer is None else f"blk.{layer}."
            found[name] = stem + theirs[path[-1]]
    return found


def from_gguf(array: np.ndarray, name: str, config: ModelConfig) -> np.ndarray:
    """A tensor as a Hugging Face folder has it; `name` is the one in the GGUF file."""
    if heads := _turned(name, config):
        pairs = array.reshape(heads, config.head_dim // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(array.shape)
    return array - _one(name, config)


def to_gguf(array: np.ndarray, name: str, config: ModelConfig) -> np.ndarray:
    """Undoes `from_gguf`."""
    if heads := _turned(name, config):
        halves = array.reshape(heads, 2, config.head_dim // 2, -1)
        return halves.swapaxes(1, 2).reshape(array.shape)
    return array + _one(name, config)


def _turned(name, config):
    """How many heads a tensor has whose rows stand in pairs; 0 for all others."""
    if config.family != "llama" or not name.startswith("blk."):
        return 0
    heads = {"attn_q": config.heads, "attn_k": config.kv_heads}
    return heads.get(name.split(".")[2], 0)


def _one(name, config):
    is_norm = config.is_gemma and name.endswith("norm.weight")
    return np.float32(1 if is_norm else 0)


def read_config(file: GGUFFile) -> ModelConfig:
    """The shape of the model in a file.

    Raises:
      GGUFError: a size is missing or cannot be, or the file asks for something that
        this decoder does not do.
    """
    fields = file.fields
    name = fields.get("general.architecture")
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise GGUFError(f"{file.path} is of architecture {name!r:.40}, not {known}.")
    if fields.get("split.count", 1) not in (0, 1):
        raise GGUFError(
            f"{file.path} is one part of {fields['split.count']}: join them first, with"
            " `llama-gguf-split --merge`."
        )
    read = _Fields(file, name)
    read.refuse_unknown()
    embed = file.entries.get(OUTSIDE["embed"])
    if embed is None or len(embed.shape) != 2:
        raise GGUFError(f"{file.path} has no matrix {OUTSIDE['embed']}.")
    heads, width = read.size("attention.head_count"), read.size("embedding_length")
    head_dim = read.size("attention.key_length", width // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if read.size(key, head_dim) != head_dim:
            raise GGUFError(
                f"{file.path}: {name}.{key} is not {head_dim}, as keys are."
            )
    gemma, layers = name == "gemma3", read.size("block_count")
    scale = width / heads if layers == GEMMA_27B_LAYERS else head_dim
    pattern, local = 1, GEMMA_LOCAL_THETA
    if gemma:
        pattern = read.size("attention.sliding_window_pattern", GEMMA_PATTERN)
        local = read.number("rope.freq_base_swa", local)
    return ModelConfig(
        family=FAMILIES[name],
        vocab_size=embed.shape[0],
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=read.size("attention.head_count_kv", heads),
        head_dim=head_dim,
        ff=read.size("feed_forward_length"),
        window=read.size("attention.sliding_window") if gemma else 0,
        pattern=pattern,
        rope_theta=read.number("rope.freq_base", 1e6 if gemma else 1e4),
        rope_local_theta=local,
        stretch=_stretch(file, read, head_dim),
        max_positions=read.size("context_length"),
        query_scale=float(scale) if gemma else 0.0,
        norm_eps=read.number("attention.layer_norm_rms_epsilon"),
        tied=OUTSIDE["head"] not in file.entries,
    )


def config_fields(config: ModelConfig) -> dict:
    """The metadata of a model's shape; `read_config` undoes it.

    Raises:
      GGUFError: the shape has something that llama.cpp builds in otherwise.
    """
    name = ARCHITECTURES[config.family]
    fields: dict[str, int | float | str] = {
        "block_count": config.layers,
        "context_length": config.max_positions,
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
    if config.is_gemma:
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
    if config.stretch is None or config.stretch.kind == "linear":
        return None
    sizes = config.head_dim, config.rope_theta
    ratio = frequencies(*sizes, None) / frequencies(*sizes, config.stretch)
    return np.asarray(ratio, np.float32)


def _stretch(file, read, head_dim):
    kind = read.fields.get(f"{read.name}.rope.scaling.type", "none")
    if kind == "linear":
        return Stretch("linear", read.number("rope.scaling.factor"))
    if kind != "none":
        raise GGUFError(f"{file.path}: rope scaling {kind!r:.40} is not supported.")
    if ROPE not in file.entries:
        return None
    factors = file.array(ROPE)
    stretch = Stretch("llama3", float(np.round(factors.max(), 3)))
    theta = read.number("rope.freq_base", 1e4)
    expected = frequencies(head_dim, theta, None) / frequencies(
        head_dim, theta, stretch
    )
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-3):
        raise GGUFError(
            f"{file.path}: {ROPE} is not Llama 3.1's, of a model first trained on "
            f"{stretch.original} tokens."
        )
    return stretch


class _Fields:
    """The metadata of one architecture."""

    def __init__(self, file, name):
        self.fields, self.path, self.name = file.fields, file.path, name

    def size(self, key, default=None) -> int:
        """A whole number above 0."""
        value = self.fields.get(f"{self.name}.{key}", default)
        if type(value) is not int or not 0 < value < 2**31:
            raise GGUFError(
                f"{self.path}: {self.name}.{key} is {value!r:.40}: no size."
            )
        return value

    def number(self, key, default=None) -> float:
        """A finite number above 0."""
        value = self.fields.get(f"{self.name}.{key}", default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise GGUFError(f"{self.path}: {self.name}.{key} is {value!r:.40}.")
        return float(f"{value:.7g}")  # stored in float32: 1e-6 and not 9.99999997e-7

    def refuse_unknown(self):
        """Refuses what would change the numbers, and is not done here."""
        for key, plain in UNKNOWN.items():
            value = self.fields.get(f"{self.name}.{key}", plain)
            if value != plain:
                raise GGUFError(
                    f"{self.path}: {self.name}.{key}={value!r:.40} is not supported."
                )
