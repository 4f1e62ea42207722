"""The shape of a model from and to the metadata of GGUF files.

Read and written as llama.cpp does (convert_hf_to_gguf.py, conversion/gemma.py,
src/models/gemma4.cpp). What scaled rotary frequencies are divided by is a tensor,
`rope_freqs.weight`.
"""

import math
from typing import Any

import numpy as np

from helpers.model import families
from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.gguf_file import FETCH, ROPE, GGUFError, GGUFFile
from helpers.model.ops import Stretch, frequencies

FAMILIES = {family.gguf: name for name, family in families.FAMILIES.items()}
EMBED, HEAD = "token_embd.weight", "output.weight"
# What llama.cpp builds into Gemma 3. Newer versions read the pattern and the base from
# the file if it has them; older ones do not.
GEMMA_PATTERN, GEMMA_27B_LAYERS, GEMMA_LOCAL_THETA = 6, 62, 1e4
DEFAULT_POSITIONS = 8192  # where a config has none: llama.cpp wants a number
STILL = 1e30  # what a frequency is divided by where nothing turns
# Keys that would change what is computed, and the value that changes nothing.
UNSUPPORTED = {
    "expert_count": 0,
    "attn_logit_softcapping": 0,
    "final_logit_softcapping": 0,
    "attention.causal": True,
    "logit_scale": 1,
    "residual_scale": 1,
    "embedding_scale": 1,
    "attention.scale": 0,
    "rope.scaling.attn_factor": 1,
    "use_parallel_residual": False,
}


class Metadata:
    """The metadata of a file's architecture, each value checked where it is read."""

    def __init__(self, file: GGUFFile, name: str):
        self.file, self.name = file, name

    def error(self, key, value, why):
        return GGUFError(f"{self.file.path}: {self.name}.{key} is {value!r:.40}: {why}")

    def get(self, key, default=None) -> Any:
        return self.file.fields.get(f"{self.name}.{key}", default)

    def size(self, key, default=None, least=1) -> int:
        value = self.get(key, default)
        if type(value) is not int or not least <= value < 2**31:
            raise self.error(key, value, f"no size. {FETCH}")
        return value

    def number(self, key, default=None, least=1e-30) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float) or not least <= value < math.inf:
            raise self.error(key, value, f"no number that can be. {FETCH}")
        return float(f"{value:.7g}")  # stored in float32: 1e-6 and not 9.99999997e-7

    def per_layer(self, key, layers: int, kind: type) -> list:
        """One flag, or size, of each layer; a single size is that of all."""
        value = self.get(key)
        if type(value) is int and kind is int:
            value = [value] * layers
        ok = isinstance(value, list) and len(value) == layers
        ok = ok and all(type(x) is kind for x in value)
        if not ok or (kind is int and min(value) < 1):
            raise self.error(key, value, f"not one {kind.__name__} per layer. {FETCH}")
        return value

    def require(self, key, size: int) -> None:
        """Refuses a size that is not the heads'; a missing one is."""
        if (value := self.size(key, size)) != size:
            why = f"not {size}, as keys are. Take the model's folder of safetensors."
            raise self.error(key, value, why)

    def linear_scaling(self) -> float:
        """By what all rotary frequencies are divided; 1.0 where nothing says so.

        As in llama-model.cpp: a factor without a kind is a linear one.
        """
        kind = self.get("rope.scaling.type", "linear")
        if kind not in ("linear", "none"):
            raise self.error("rope.scaling.type", kind, "not supported.")
        old = self.get("rope.scale_linear", 0.0)
        factor = self.number("rope.scaling.factor", old, least=0.0)
        return factor if factor and kind == "linear" else 1.0


def read_config(file: GGUFFile) -> ModelConfig:
    """The shape of the model in a file.

    Raises:
      GGUFError: a size is missing or impossible, or the file asks for something that
        this decoder does not do.
    """
    name = _architecture(file)
    read, gemma4 = Metadata(file, name), name == "gemma4"
    for key, plain in UNSUPPORTED.items():
        known = gemma4 and key == "final_logit_softcapping"
        if not known and (value := read.get(key, plain)) != plain:
            raise read.error(key, value, "not supported. Take another model.")
    embed = file.shapes.get(EMBED, ())
    if len(embed) != 2:
        raise GGUFError(f"{file.path} has no matrix {EMBED}. {FETCH}")
    common: dict[str, Any] = {
        "family": FAMILIES[name],
        "vocab_size": embed[0],
        "width": read.size("embedding_length"),
        "layers": read.size("block_count"),
        "heads": read.size("attention.head_count"),
        "max_positions": read.size("context_length"),
        "norm_eps": read.number("attention.layer_norm_rms_epsilon"),
        "tied": HEAD not in file.shapes,
    }
    if common["layers"] > len(file.shapes):
        raise GGUFError(
            f"{file.path} names {common['layers']:,} layers, and holds "
            f"{len(file.shapes):,} tensors for all of them. {FETCH}"
        )
    return (_read_gemma4 if gemma4 else _read_uniform)(read, common)


def _architecture(file):
    """Its name; refuses parts of a model and what goes beside one."""
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
        raise GGUFError(
            f"{file.path} is of architecture {name!r:.40}, not {', '.join(FAMILIES)}: "
            "take a model of one of these."
        )
    return name


def _read_uniform(read, common):
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
        stretch=_read_stretch(read, head_dim),
        query_scale=float(scale) if gemma else 0.0,
    )


def _read_stretch(read, head_dim):
    """Linear scaling, or Llama 3.1's, whose divisors are a tensor."""
    file, factor = read.file, read.linear_scaling()
    if ROPE not in file.shapes:
        return Stretch("linear", factor) if factor != 1 else None
    if factor != 1 or file.shapes[ROPE] != (head_dim // 2,):
        raise GGUFError(
            f"{file.path}: {ROPE} is not for {head_dim // 2} frequencies, or these are "
            f"divided a second time. {FETCH}"
        )
    factors = file.array(ROPE)
    stretch = Stretch("llama3", float(np.round(factors.max(), 3)))
    theta = read.number("rope.freq_base", 1e4)
    if not np.allclose(factors, _divisors(head_dim, theta, stretch), rtol=1e-3):
        raise GGUFError(
            f"{file.path}: {ROPE} is not Llama 3.1's, of a model first trained on "
            f"{stretch.original} tokens. {FETCH}"
        )
    return stretch


def _divisors(head_dim, theta, stretch):
    """By how much each rotary frequency is divided; STILL where nothing turns."""
    plain, scaled = (frequencies(head_dim, theta, x) for x in (None, stretch))
    still = scaled == 0
    ratio = plain / np.where(still, 1, scaled)
    return np.where(still, STILL, ratio).astype(np.float32)


def rope_divisors(config: ModelConfig) -> np.ndarray | None:
    """What `rope_freqs.weight` holds; None: nothing, or all are divided by one factor.

    Gemma 4's are those of its full layers, which turn a share of the pairs only.
    """
    if config.gemma4:
        head_dim = config.gemma4.full_head_dim
    elif config.stretch and config.stretch.kind != "linear":
        head_dim = config.head_dim
    else:
        return None
    return _divisors(head_dim, config.rope_theta, config.stretch)


def config_fields(config: ModelConfig) -> dict:
    """The metadata of a model's shape; `read_config` undoes it.

    Raises:
      GGUFError: llama.cpp has another value of the shape built in.
    """
    fields: dict[str, int | float | str | list] = {
        "block_count": config.layers,
        "context_length": config.max_positions or DEFAULT_POSITIONS,
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
        fields |= _gemma4_fields(config, config.gemma4)
    elif config.is_gemma:
        scale: float = config.head_dim
        if config.layers == GEMMA_27B_LAYERS:
            scale = config.width / config.heads
        for field, value in {
            "pattern": GEMMA_PATTERN,
            "rope_local_theta": GEMMA_LOCAL_THETA,
            "attention_scale": scale**-0.5,
        }.items():
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
    name = families.FAMILIES[config.family].gguf
    return {f"{name}.{key}": value for key, value in fields.items()}


# --- Gemma 4: where its layers differ, a list has each ---


def _gemma4_fields(config, own):
    _require_sharing(own, "Save a folder in place of it.")
    fields: dict[str, int | float | list] = {
        "attention.key_length": own.full_head_dim,
        "attention.value_length": own.full_head_dim,
        "attention.key_length_swa": config.head_dim,
        "attention.value_length_swa": config.head_dim,
        "attention.sliding_window": config.window,
        "attention.sliding_window_pattern": [kind == "local" for kind in own.kinds],
        "attention.shared_kv_layers": own.sharing,
        "embedding_length_per_layer_input": own.per_layer,
        "final_logit_softcapping": own.softcap,  # 0 is written, too: none means 30
        "rope.freq_base_swa": config.rope_local_theta,
        "rope.dimension_count": own.full_head_dim,
        "rope.dimension_count_swa": config.head_dim,
    }
    if own.full_kv_heads != config.kv_heads:
        by_kind = {"full": own.full_kv_heads, "local": config.kv_heads}
        fields["attention.head_count_kv"] = [by_kind[kind] for kind in own.kinds]
    if own.double_wide and own.sharing:
        first = config.layers - own.sharing
        wide = [config.ff * (1 + (i >= first)) for i in range(config.layers)]
        fields["feed_forward_length"] = wide
    return fields


def _read_gemma4(read, common):
    file, layers = read.file, common["layers"]
    local = read.per_layer("attention.sliding_window_pattern", layers, bool)
    kinds = tuple("local" if near else "full" for near in local)
    sharing = read.size("attention.shared_kv_layers", 0, least=0)
    if sharing >= layers:
        raise GGUFError(f"{file.path}: all {layers} layers share keys. {FETCH}")
    heads = _heads_by_kind(read, kinds)
    every = read.per_layer("feed_forward_length", layers, int)
    ff, last = every[0], every[-1]
    if every != [ff] * (layers - sharing) + [last] * sharing or last not in (
        ff,
        2 * ff,
    ):
        why = "not one size, or twice that in the layers that share keys."
        raise read.error("feed_forward_length", every, why)
    full = read.size("attention.key_length")
    near = read.size("attention.key_length_swa")
    for key in ("attention.value_length", "rope.dimension_count"):
        read.require(key, full)
        read.require(f"{key}_swa", near)
    own = [i for i in range(layers - sharing) if kinds[i] == "full"]
    gemma4 = Gemma4Config(
        kinds=kinds,
        full_head_dim=full,
        full_kv_heads=heads["full"],
        keys_are_values=not any(f"blk.{i}.attn_v.weight" in file.shapes for i in own),
        sharing=sharing,
        double_wide=last != ff,
        per_layer=read.size("embedding_length_per_layer_input", 0, least=0),
        softcap=read.number("final_logit_softcapping", 30.0, least=0.0),
    )
    _require_sharing(gemma4, "Take the model's folder of safetensors.")
    if read.linear_scaling() != 1:
        raise GGUFError(f"{file.path}: rope scaling of a Gemma 4 is not supported.")
    return ModelConfig(
        **common,
        kv_heads=heads["local"],
        head_dim=near,
        ff=ff,
        window=read.size("attention.sliding_window"),
        rope_theta=read.number("rope.freq_base"),
        rope_local_theta=read.number("rope.freq_base_swa"),
        stretch=_read_proportional(file, full),
        query_scale=1.0,
        gemma4=gemma4,
    )


def _heads_by_kind(read, kinds):
    """{kind: heads of keys}, the same in all layers of a kind."""
    every = read.per_layer("attention.head_count_kv", len(kinds), int)
    pairs = set(zip(kinds, every, strict=True))
    heads = dict(pairs)
    if len(heads) < len(pairs) or "full" not in heads:
        why = "not one number for local layers and one for full ones."
        raise read.error("attention.head_count_kv", every, why)
    return {"local": heads["full"]} | heads


def _require_sharing(own, remedy):
    """Layers that share take the last keys of their kind; llama.cpp takes fixed ones.

    It ends with an error where there is no local layer, or only one with its own keys.
    """
    before = own.kinds[: len(own.kinds) - own.sharing]
    shares = own.kinds[len(before) :]
    if "local" not in own.kinds or len(before) < 2:
        raise GGUFError(
            "llama.cpp runs no Gemma 4 without local layers, nor one with fewer than "
            f"two layers that have keys of their own. {remedy}"
        )
    fixed = {"full": before[-1], "local": before[-2]}
    if any(fixed[kind] != kind for kind in shares):
        raise GGUFError(
            f"Its last {own.sharing} layers use keys of earlier ones, which end with "
            f"{', '.join(before[-2:])}; llama.cpp takes those of a full layer, and of "
            f"a local one before it, so in a GGUF file this is another model. {remedy}"
        )


def _read_proportional(file, head_dim):
    """Which share of the pairs turns in full layers, from `rope_freqs.weight`."""
    pairs = head_dim // 2
    if file.shapes.get(ROPE) != (pairs,):
        raise GGUFError(f"{file.path} has no {ROPE} for {pairs} pairs. {FETCH}")
    factors = file.array(ROPE)
    turned = int((factors < STILL / 2).sum())
    expected = np.where(np.arange(pairs) < turned, factors[0], np.float32(STILL))
    if factors[0] <= 0 or (factors != expected).any():
        raise GGUFError(
            f"{file.path}: {ROPE} does not say which of {pairs} pairs are turned, and "
            f"which not. {FETCH}"
        )
    factor = float(f"{factors[0]:.7g}") if turned else 1.0
    if (turned, factor) == (pairs, 1.0):
        return None
    share = turned / pairs
    if not turned or int(share * head_dim // 2) != turned:  # as `frequencies` counts
        share = (2 * turned + 0.5) / head_dim
    return Stretch("proportional", factor, share=share)
