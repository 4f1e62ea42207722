"""The shape of a model from and to the metadata of GGUF files.

Read and written as llama.cpp does (convert_hf_to_gguf.py, conversion/gemma.py,
src/models/gemma4.cpp): one table translates its keys to fields of config.json. What
scaled rotary frequencies are divided by is a tensor, `rope_freqs.weight`.
"""

import math

import numpy as np

from helpers.model import families
from helpers.model.config import LAYERS, Gemma4Config, ModelConfig
from helpers.model.folder import WeightsError
from helpers.model.ops import Stretch, frequencies

FAMILIES = {family.gguf: name for name, family in families.FAMILIES.items()}
ROPE = "rope_freqs.weight"  # by how much each rotary frequency is divided
FETCH = "Fetch the file again, or take the model's folder of safetensors."
EMBED, HEAD = "token_embd.weight", "output.weight"
# What llama.cpp builds into Gemma 3. Newer versions read the pattern and the base from
# the file if it has them; older ones do not.
GEMMA_PATTERN, GEMMA_27B_LAYERS, GEMMA_LOCAL_THETA = 6, 62, 1e4
DEFAULT_POSITIONS = 8192  # where a config has none: llama.cpp wants a number
STILL = 1e30  # what a frequency is divided by where nothing turns
# Of each key, without the architecture before it, the field of config.json; "usual" is
# what llama.cpp assumes where a key is missing; "only_read" are Gemma 3's keys that we
# do not write; "unsupported" ones would change what is computed, but with 0 or 1. Of
# Gemma 4's keys that end in _swa are those of local layers. Where its layers differ in
# other things, a list has each.
_TABLES = families.FIELDS["gguf"]


class GGUFError(WeightsError):
    """A GGUF file is damaged, cut off, or of a kind that is not read here."""


def keys_of(architecture: str) -> dict[str, str]:
    """{key: field of config.json} that a file of this architecture has."""
    return _TABLES["all"] | _TABLES.get(architecture, {})


def read_config(file) -> ModelConfig:
    """The shape of the model in a `gguf.GGUFFile`.

    Raises:
      GGUFError: the file asks for something that this decoder does not do.
      UnsupportedModel, KeyError: a field is missing or impossible.
    """
    name = _architecture(file)
    keys = keys_of(name) | (_TABLES["only_read"] if name == "gemma3" else {})
    fields = {
        key.removeprefix(f"{name}."): float(f"{x:.7g}") if isinstance(x, float) else x
        for key, x in file.fields.items()  # from float32: 1e-6 and not 9.99999997e-7
    }
    for key in set(_TABLES["unsupported"]) - keys.keys():
        if (value := fields.get(key, 0)) not in (0, 1):
            raise GGUFError(f"{file.path}: {key}={value!r:.40} is not supported.")
    width, heads = fields["embedding_length"], fields["attention.head_count"]
    hf = _TABLES["usual"].get(name, {}) | {"num_key_value_heads": heads}
    hf |= {"head_dim": width // heads, "rope_theta": 1e6 if name == "gemma3" else 1e4}
    hf |= {field: fields[key] for key, field in keys.items() if key in fields}
    hf |= {"model_type": FAMILIES[name], "vocab_size": file.shapes[EMBED][0]}
    hf["tie_word_embeddings"] = HEAD not in file.shapes
    if (layers := hf["num_hidden_layers"]) > len(file.shapes):
        raise GGUFError(
            f"{file.path} has {len(file.shapes)} tensors for {layers:,} layers. {FETCH}"
        )
    if name == "gemma3":
        is_27b = layers == GEMMA_27B_LAYERS
        hf["query_pre_attn_scalar"] = width / heads if is_27b else hf["head_dim"]
    hf = _gemma4_hf(file, hf) if name == "gemma4" else hf
    if scaling := _scaling(file, fields, hf):
        hf["rope_scaling"] = scaling
    return ModelConfig.from_hf(hf)


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
            f"{file.path}: {ROPE} is not Llama 3.1's, or frequencies are divided a "
            f"second time. {FETCH}"
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
        _require_sharing(gemma4)
        hf["layer_types"] = [kind == "local" for kind in gemma4.kinds]
        if gemma4.full_kv_heads != config.kv_heads:
            by_kind = {"full": gemma4.full_kv_heads, "local": config.kv_heads}
            hf["num_key_value_heads"] = [by_kind[kind] for kind in gemma4.kinds]
        if gemma4.double_wide and gemma4.sharing:
            unshared = config.layers - gemma4.sharing
            wide = [2 * config.ff] * gemma4.sharing
            hf["intermediate_size"] = [config.ff] * unshared + wide
    elif config.is_gemma:
        _require_gemma3(config)
    fields = {key: hf[field] for key, field in keys_of(name).items()}
    if config.stretch and config.stretch.kind == "linear":
        fields["rope.scaling.type"] = "linear"
        fields["rope.scaling.factor"] = float(config.stretch.factor)
    return {f"{name}.{key}": value for key, value in fields.items()}


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
                f"every Gemma 3 {value}. Save a folder in place of a GGUF file."
            )


def _gemma4_hf(file, hf):
    """The config.json of a Gemma 4 from its translated keys, lists among them."""
    types = [LAYERS[near] for near in hf["layer_types"]]
    kv_heads, ff = (
        x if isinstance(x, list) else [x] * len(types)
        for x in (hf["num_key_value_heads"], hf["intermediate_size"])
    )
    by_type = dict(zip(types, kv_heads, strict=True))
    with_keys = len(types) - hf["num_kv_shared_layers"]
    full = [i for i in range(with_keys) if types[i] == "full_attention"]
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
        "use_double_wide_mlp": ff[-1] != ff[0],
        "vocab_size_per_layer_input": hf["vocab_size"],
        "rope_parameters": {
            "full_attention": scaling | {"rope_theta": hf["rope_theta"]},
            "sliding_attention": {"rope_theta": local_theta},
        },
    }


def _require_sharing(gemma4: Gemma4Config):
    """Layers that share take the last keys of their kind; llama.cpp takes fixed ones.

    It ends with an error where there is no local layer, or only one with its own keys.
    """
    before = gemma4.kinds[: len(gemma4.kinds) - gemma4.sharing]
    fixed = {"full": before[-1], "local": before[-2:][0]}
    shares = gemma4.kinds[len(before) :]
    few = "local" not in before or len(before) < 2
    if few or any(fixed[kind] != kind for kind in shares):
        raise GGUFError(
            f"Its last {gemma4.sharing} layers use keys of earlier ones, of {before}. "
            "llama.cpp takes those of the last two, so in a GGUF file this is another "
            "model. Save a folder in place of it."
        )


def _read_proportional(file, head_dim):
    """Which share of the pairs turns in full layers, from `rope_freqs.weight`."""
    pairs, factors = head_dim // 2, file.array(ROPE)
    turned = int((factors < STILL / 2).sum())
    expected = np.where(np.arange(pairs) < turned, factors[0], np.float32(STILL))
    if factors[0] <= 0 or not np.array_equal(factors, expected):
        raise GGUFError(
            f"{file.path}: {ROPE} does not say which of {pairs} pairs turn. {FETCH}"
        )
    factor = float(f"{factors[0]:.7g}") if turned else 1.0
    if (turned, factor) == (pairs, 1.0):
        return None
    return Stretch("proportional", factor, share=turned / pairs)
