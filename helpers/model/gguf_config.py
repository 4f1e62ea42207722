"""The shape of a model from and to the metadata of GGUF files.

Read and written as llama.cpp does (convert_hf_to_gguf.py, conversion/gemma.py,
src/models/gemma4.cpp): one table translates its keys to fields of config.json. What
scaled rotary frequencies are divided by is a tensor, `rope_freqs.weight`.
"""

import math

import numpy as np

from helpers.model import families
from helpers.model.config import LAYERS, Gemma4Config, ModelConfig
from helpers.model.gguf_file import FETCH, ROPE, GGUFError, GGUFFile
from helpers.model.ops import Stretch, frequencies

FAMILIES = {family.gguf: name for name, family in families.FAMILIES.items()}
EMBED, HEAD = "token_embd.weight", "output.weight"
# What llama.cpp builds into Gemma 3. Newer versions read the pattern and the base from
# the file if it has them; older ones do not.
GEMMA_PATTERN, GEMMA_27B_LAYERS, GEMMA_LOCAL_THETA = 6, 62, 1e4
DEFAULT_POSITIONS = 8192  # where a config has none: llama.cpp wants a number
STILL = 1e30  # what a frequency is divided by where nothing turns
# Of each key, without the architecture before it, the field of config.json.
KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "head_dim",
    "vocab_size": "vocab_size",
}
GEMMA3_KEYS = KEYS | {"attention.sliding_window": "sliding_window"}
# Of Gemma 4's keys that end in _swa are those of local layers. Where its layers differ
# in other things, a list has each.
GEMMA4_KEYS = KEYS | {
    "attention.key_length": "global_head_dim",
    "attention.value_length": "global_head_dim",
    "attention.key_length_swa": "head_dim",
    "attention.value_length_swa": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "layer_types",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope.freq_base_swa": "rope_local_base_freq",
    "rope.dimension_count": "global_head_dim",
    "rope.dimension_count_swa": "head_dim",
}
WRITTEN = {"gemma3": GEMMA3_KEYS, "gemma4": GEMMA4_KEYS}
# Keys that we read, and do not write.
ONLY_READ = {
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "rope.freq_base_swa": "rope_local_base_freq",
}
READ = WRITTEN | {"gemma3": GEMMA3_KEYS | ONLY_READ}
# What llama.cpp assumes where a key is missing.
USUAL: dict[str, dict] = {
    "gemma3": {
        "sliding_window_pattern": GEMMA_PATTERN,
        "rope_local_base_freq": GEMMA_LOCAL_THETA,
    },
    "gemma4": {
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
        "final_logit_softcapping": 30.0,
    },
}
# Keys that would change what is computed, but with 0 or 1.
UNSUPPORTED = (
    "expert_count attn_logit_softcapping final_logit_softcapping logit_scale "
    "residual_scale embedding_scale attention.scale rope.scaling.attn_factor".split()
)


def read_config(file: GGUFFile) -> ModelConfig:
    """The shape of the model in a file.

    Raises:
      GGUFError: the file asks for something that this decoder does not do, or its
        metadata contradict each other.
      UnsupportedModel, KeyError: a field is missing or impossible.
    """
    name = _architecture(file)
    keys = READ.get(name, KEYS)
    fields = {
        key.removeprefix(f"{name}."): float(f"{x:.7g}") if isinstance(x, float) else x
        for key, x in file.fields.items()  # from float32: 1e-6 and not 9.99999997e-7
    }
    for key in set(UNSUPPORTED) - keys.keys():
        if (value := fields.get(key, 0)) not in (0, 1):
            raise GGUFError(f"{file.path}: {key}={value!r:.40} is not supported.")
    width, heads = fields["embedding_length"], fields["attention.head_count"]
    hf = USUAL.get(name, {}) | {"num_key_value_heads": heads}
    hf |= {"head_dim": width // heads, "rope_theta": 1e6 if name == "gemma3" else 1e4}
    hf |= {field: fields[key] for key, field in keys.items() if key in fields}
    for key, field in keys.items():
        if key != "vocab_size" and fields.get(key, hf.get(field)) != hf[field]:
            raise GGUFError(
                f"{file.path}: {key}={fields[key]!r:.40} is not {field}={hf[field]}. "
                f"{FETCH}"
            )
    hf |= {"model_type": FAMILIES[name], "vocab_size": file.shapes[EMBED][0]}
    hf["tie_word_embeddings"] = HEAD not in file.shapes
    if (layers := hf["num_hidden_layers"]) > len(file.shapes):
        raise GGUFError(
            f"{file.path} names {layers:,} layers, and holds {len(file.shapes):,} "
            f"tensors for all of them. {FETCH}"
        )
    if name == "gemma3":
        is_27b = layers == GEMMA_27B_LAYERS
        hf["query_pre_attn_scalar"] = width / heads if is_27b else hf["head_dim"]
    hf = _gemma4_hf(file, hf) if name == "gemma4" else hf
    if scaling := _scaling(file, fields, hf):
        hf["rope_scaling"] = scaling
    config = ModelConfig.from_hf(hf)
    if config.gemma4:
        _require_sharing(config.gemma4, "Take the model's folder of safetensors.")
    return config


def _architecture(file):
    """Its name; refuses parts of a model and what goes beside one."""
    if (parts := file.fields.get("split.count", 1)) not in (0, 1):
        raise GGUFError(
            f"{file.path} is one part of {parts!r:.40}: join them first, with "
            "`llama-gguf-split --merge`."
        )
    name = file.fields.get("general.architecture")
    kind = file.fields.get("general.type", "model")
    if kind != "model" or name not in FAMILIES:
        raise GGUFError(
            f"{file.path} is a {kind!r:.40} of architecture {name!r:.40}: take a model "
            f"of {', '.join(FAMILIES)}."
        )
    return name


def _scaling(file, fields, hf):
    """The `rope_scaling` of config.json, or None.

    As in llama-model.cpp, a factor without a kind is a linear one; Llama 3.1's divisors
    are a tensor.
    """
    kind = fields.get("rope.scaling.type", "linear")
    factor = fields.get("rope.scaling.factor") or 1.0
    if kind not in ("linear", "none"):
        raise GGUFError(f"{file.path}: rope.scaling.type={kind!r:.40}: not supported.")
    linear = kind == "linear" and factor != 1
    if ROPE not in file.shapes or "rope_parameters" in hf:
        return Stretch("linear", factor).to_hf() if linear else None
    factors = file.array(ROPE)
    stretch = Stretch("llama3", float(np.round(factors.max(), 3)))
    expected = _divisors(hf["head_dim"], hf["rope_theta"], stretch)
    same = factors.shape == expected.shape and np.allclose(factors, expected, rtol=1e-3)
    if linear or not same:
        raise GGUFError(
            f"{file.path}: {ROPE} is not Llama 3.1's, of a model first trained on "
            f"{stretch.original} tokens, or frequencies are divided a second time. "
            f"{FETCH}"
        )
    return stretch.to_hf()


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
    name = families.FAMILIES[config.family].gguf
    hf = config.to_hf() | {
        "max_position_embeddings": config.max_positions or DEFAULT_POSITIONS,
        # llama.cpp refuses whole numbers here.
        "rms_norm_eps": float(config.norm_eps),
        "rope_theta": float(config.rope_theta),
        "rope_local_base_freq": float(config.rope_local_theta),
        "final_logit_softcapping": float(config.softcap),  # also 0: none means 30
    }
    if gemma4 := config.gemma4:
        _require_sharing(gemma4, "Save a folder in place of it.")
        hf["layer_types"] = [kind == "local" for kind in gemma4.kinds]
        if gemma4.full_kv_heads != config.kv_heads:
            by_kind = {"full": gemma4.full_kv_heads, "local": config.kv_heads}
            hf["num_key_value_heads"] = [by_kind[kind] for kind in gemma4.kinds]
        if gemma4.double_wide and gemma4.sharing:
            hf["intermediate_size"] = _widths(config.layers, gemma4.sharing, config.ff)
    elif config.is_gemma:
        _require_gemma3(config)
    fields = {key: hf[field] for key, field in WRITTEN.get(name, KEYS).items()}
    if config.stretch and config.stretch.kind == "linear":
        fields["rope.scaling.type"] = "linear"
        fields["rope.scaling.factor"] = float(config.stretch.factor)
    return {f"{name}.{key}": value for key, value in fields.items()}


def _widths(layers, sharing, ff):
    """Of each layer's feed-forward, where layers that share keys are double wide."""
    return [ff] * (layers - sharing) + [2 * ff] * sharing


def _require_gemma3(config):
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
                f"The model has {field}={getattr(config, field)}, and llama.cpp gives "
                f"every Gemma 3 of {config.layers} layers {value}: in a GGUF file it "
                "would be another model. Save a folder in place of it."
            )


def _gemma4_hf(file, hf):
    """The config.json of a Gemma 4 from its translated keys, lists among them."""
    layers, sharing = hf["num_hidden_layers"], hf["num_kv_shared_layers"]
    types = [LAYERS[near] for near in hf["layer_types"]]
    kv_heads, ff = hf["num_key_value_heads"], hf["intermediate_size"]
    kv_heads = kv_heads if isinstance(kv_heads, list) else [kv_heads] * layers
    ff = ff if isinstance(ff, list) else [ff] * layers
    by_type, wide = dict(zip(types, kv_heads, strict=True)), ff[-1] != ff[0]
    widths = _widths(layers, sharing, ff[0]) if wide else [ff[0]] * layers
    if [by_type[kind] for kind in types] != kv_heads or ff != widths:
        raise GGUFError(
            f"{file.path}: head_count_kv={kv_heads} is not one number for local layers "
            f"and one for full ones, or feed_forward_length={ff} not one number, twice "
            "as large in layers that share keys."
        )
    full = [i for i in range(layers - sharing) if types[i] == "full_attention"]
    stretch = _read_proportional(file, hf["global_head_dim"])
    scaling = stretch.to_hf() if stretch else {"rope_type": "default"}
    local_theta = hf.pop("rope_local_base_freq")
    return hf | {
        "layer_types": types,
        "num_key_value_heads": by_type["sliding_attention"],
        "num_global_key_value_heads": by_type["full_attention"],
        "attention_k_eq_v": not {f"blk.{i}.attn_v.weight" for i in full}
        & set(file.shapes),
        "intermediate_size": ff[0],
        "use_double_wide_mlp": wide,
        "vocab_size_per_layer_input": hf["vocab_size"],
        "rope_parameters": {
            "full_attention": scaling | {"rope_theta": hf["rope_theta"]},
            "sliding_attention": {"rope_theta": local_theta},
        },
    }


def _require_sharing(gemma4: Gemma4Config, remedy):
    """Layers that share take the last keys of their kind; llama.cpp takes fixed ones.

    It ends with an error where there is no local layer, or only one with its own keys.
    """
    before = gemma4.kinds[: len(gemma4.kinds) - gemma4.sharing]
    shares = gemma4.kinds[len(before) :]
    fixed = {"full": before[-1], "local": before[-2:][0]}
    few = "local" not in before or len(before) < 2
    if few or any(fixed[kind] != kind for kind in shares):
        raise GGUFError(
            f"Its last {gemma4.sharing} layers use keys of earlier ones, which are "
            f"{before}. llama.cpp takes those of a full layer at their end, and of a "
            "local one before it, so in a GGUF file this is another model, or none. "
            f"{remedy}"
        )


def _read_proportional(file, head_dim):
    """Which share of the pairs turns in full layers, from `rope_freqs.weight`."""
    pairs, factors = head_dim // 2, file.array(ROPE)
    turned = int((factors < STILL / 2).sum())
    expected = np.where(np.arange(pairs) < turned, factors[0], np.float32(STILL))
    if factors[0] <= 0 or not np.array_equal(factors, expected):
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
