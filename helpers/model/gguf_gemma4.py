"""What GGUF files say of Gemma 4's shape: where its layers differ, a list has each.

Read and written as llama.cpp does (its src/models/gemma4.cpp, conversion/gemma.py):
keys and values without a layer's own values matrix are one; of which earlier layer a
layer shares the keys is built in; and what full layers do not turn stands in
`rope_freqs.weight` as a wave too long to matter.
"""

import numpy as np

from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.gemma4 import own_of
from helpers.model.gguf_fields import Fields
from helpers.model.gguf_file import GGUFError, GGUFFile
from helpers.model.rope import Stretch, frequencies

NAME, ROPE = "gemma4", "rope_freqs.weight"
OUTSIDE = {  # by the last two names of our tree paths
    "vectors": "per_layer_token_embd.weight",
    "projection": "per_layer_model_proj.weight",
    "norm": "per_layer_proj_norm.weight",
}
STILL = 1e30  # what a frequency is divided by where nothing turns
VALUES = "attn_v.weight"


def fields(config: ModelConfig) -> dict:
    """The metadata that only Gemma 4 has, without the architecture's name.

    Raises:
      GGUFError: llama.cpp would not run it, or take keys and values of other layers.
    """
    own, layers = own_of(config), config.layers
    _require_layers(own, "Save a folder in place of it.")
    found: dict[str, int | float | list] = {
        "attention.key_length": own.full_head_dim,
        "attention.value_length": own.full_head_dim,
        "attention.key_length_swa": config.head_dim,
        "attention.value_length_swa": config.head_dim,
        "attention.sliding_window": config.window,
        "attention.sliding_window_pattern": [kind == "local" for kind in own.kinds],
        "attention.shared_kv_layers": own.sharing,
        "embedding_length_per_layer_input": own.per_layer,
        "final_logit_softcapping": own.softcap,  # 0 is told, too: silence is 30
        "rope.freq_base_swa": config.rope_local_theta,
        "rope.dimension_count": own.full_head_dim,
        "rope.dimension_count_swa": config.head_dim,
    }
    if own.full_kv_heads != config.kv_heads:
        by_kind = {"full": own.full_kv_heads, "local": config.kv_heads}
        found["attention.head_count_kv"] = [by_kind[kind] for kind in own.kinds]
    if own.double_wide and own.sharing:
        wide = [config.ff * (1 + (i >= layers - own.sharing)) for i in range(layers)]
        found["feed_forward_length"] = wide
    return found


def read(said: Fields, file: GGUFFile, common: dict) -> ModelConfig:
    """The shape of the model in a file.

    Args:
      said: its metadata.
      common: arguments of ModelConfig that every family's file has.
    Raises:
      GGUFError: as `gguf_names.read_config`.
    """
    layers = common["layers"]
    local = said.every("attention.sliding_window_pattern", layers, bool)
    sharing = said.count("attention.shared_kv_layers", 0)
    if sharing >= layers:
        raise GGUFError(f"{file.path}: all {layers} layers share keys, of none.")
    kinds = tuple("local" if near else "full" for near in local)
    heads = _heads(said, kinds)
    ff, double_wide = _ff(said, layers, sharing)
    sizes = {"full": said.size("attention.key_length")}
    sizes["local"] = said.size("attention.key_length_swa")
    for key in ("attention.value_length", "rope.dimension_count"):
        said.require(key, sizes["full"])
        said.require(f"{key}_swa", sizes["local"])
    own = [i for i in range(layers - sharing) if kinds[i] == "full"]
    gemma4 = Gemma4Config(
        kinds=kinds,
        full_head_dim=sizes["full"],
        full_kv_heads=heads["full"],
        keys_are_values=not any(f"blk.{i}.{VALUES}" in file.entries for i in own),
        sharing=sharing,
        double_wide=double_wide,
        per_layer=said.count("embedding_length_per_layer_input", 0),
        softcap=said.number("final_logit_softcapping", 30.0, least=0.0),
    )
    _require_layers(gemma4, "Take the model's folder of safetensors.")
    if said.stretched() != 1:
        raise GGUFError(f"{file.path}: rope scaling of a Gemma 4 is not supported.")
    return ModelConfig(
        **common,
        kv_heads=heads["local"],
        head_dim=sizes["local"],
        ff=ff,
        window=said.size("attention.sliding_window"),
        rope_theta=said.number("rope.freq_base"),
        rope_local_theta=said.number("rope.freq_base_swa"),
        stretch=_stretch(file, sizes["full"]),
        query_scale=1.0,
        gemma4=gemma4,
    )


def _heads(said, kinds):
    """{kind: heads of keys}, the same in all layers of a kind."""
    every = said.every("attention.head_count_kv", len(kinds), int)
    found: dict[str, set[int]] = {"local": set(), "full": set()}
    for kind, heads in zip(kinds, every, strict=True):
        found[kind].add(heads)
    found["local"] = found["local"] or found["full"]
    if any(len(sizes) != 1 for sizes in found.values()):
        raise GGUFError(
            f"{said.path}: {NAME}.attention.head_count_kv is {every!r:.80}: this knows "
            "one number for local layers and one for full ones."
        )
    return {kind: min(sizes) for kind, sizes in found.items()}


def _ff(said, layers, sharing):
    """(size, whether it is twice as large in layers that share keys)."""
    every = said.every("feed_forward_length", layers, int)
    size, last = every[0], every[-1]
    if every != [size] * (layers - sharing) + [last] * sharing or last not in (
        size,
        2 * size,
    ):
        raise GGUFError(
            f"{said.path}: {NAME}.feed_forward_length is {every!r:.80}: this knows one "
            "size, or twice that in the layers that share keys."
        )
    return size, last != size


def _require_layers(own, remedy):
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


def slowed(config: ModelConfig) -> np.ndarray:
    """What `rope_freqs.weight` holds: a divisor of each frequency of full layers."""
    plain = own_of(config).full_head_dim, config.rope_theta
    turned = frequencies(*plain, config.stretch)
    still = turned == 0
    ratio = frequencies(*plain, None) / np.where(still, 1, turned)
    return np.where(still, STILL, ratio).astype(np.float32)


def _stretch(file, head_dim):
    """The inverse of `slowed`."""
    pairs = head_dim // 2
    if ROPE not in file.entries or file.entries[ROPE].shape != (pairs,):
        raise GGUFError(f"{file.path} has no {ROPE} for {pairs} pairs.")
    factors = file.array(ROPE)
    turned = int((factors < STILL / 2).sum())
    expected = np.where(np.arange(pairs) < turned, factors[0], np.float32(STILL))
    if factors[0] <= 0 or (factors != expected).any():
        raise GGUFError(
            f"{file.path}: {ROPE} does not say which of {pairs} pairs are turned, and "
            "which not."
        )
    factor = float(f"{factors[0]:.7g}") if turned else 1.0
    if (turned, factor) == (pairs, 1.0):
        return None
    share = turned / pairs
    if not turned or int(share * head_dim // 2) != turned:  # as `frequencies` counts
        share = (2 * turned + 0.5) / head_dim
    return Stretch("proportional", factor, share=share)
