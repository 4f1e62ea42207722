"""The shapes of the real models the course uses, so that programs can be compiled for
them where their weights are not. Each equals what the model's config.json gives."""

from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.ops import Stretch
from helpers.model.vision_config import Gemma4VisionConfig, VisionConfig

# width, layers, heads, kv_heads, head_dim, ff
Sizes = tuple[int, int, int, int, int, int]


def _qwen2(*sizes: *Sizes):
    return ModelConfig("qwen2", 151_936, *sizes, rope_theta=1e6, max_positions=32_768)


def _qwen3(*sizes: *Sizes):
    return ModelConfig("qwen3", 151_936, *sizes, rope_theta=1e6, max_positions=40_960)


def _gemma3(
    *sizes: *Sizes,
    vocab_size=262_144,
    window=512,
    max_positions=32_768,
    stretch=None,
):
    return ModelConfig(
        "gemma3_text",
        vocab_size,
        *sizes,
        window=window,
        pattern=6,
        rope_theta=1e6,
        stretch=stretch,
        max_positions=max_positions,
        query_scale=256.0,
    )


def _gemma4(*sizes: *Sizes, window, local, groups, max_positions=131_072, **gemma4):
    """As Google's own code has it (google-deepmind/gemma, gm/nn/gemma4/_gemma4.py)."""
    kinds = (("local",) * local + ("full",)) * groups
    return ModelConfig(
        "gemma4_text",
        262_144,
        *sizes,
        window=window,
        rope_theta=1e6,
        stretch=Stretch("proportional", 1.0, share=0.25),
        max_positions=max_positions,
        query_scale=1.0,
        gemma4=Gemma4Config(kinds, full_head_dim=512, softcap=30.0, **gemma4),
    )


_E2B = {"full_kv_heads": 1, "sharing": 20, "double_wide": True, "per_layer": 256}
_E4B = {"full_kv_heads": 2, "sharing": 18, "per_layer": 256}
_31B = {"full_kv_heads": 4, "keys_are_values": True, "max_positions": 262_144}
KNOWN = {
    "Qwen/Qwen2.5-0.5B-Instruct": _qwen2(896, 24, 14, 2, 64, 4864),
    "Qwen/Qwen2.5-1.5B-Instruct": _qwen2(1536, 28, 12, 2, 128, 8960),
    "Qwen/Qwen3-0.6B": _qwen3(1024, 28, 16, 8, 128, 3072),
    "Qwen/Qwen3-1.7B": _qwen3(2048, 28, 16, 8, 128, 6144),
    "google/gemma-3-270m-it": _gemma3(640, 18, 4, 1, 256, 2048),
    "google/gemma-3-1b-it": _gemma3(1152, 26, 4, 1, 256, 6912),
    "google/gemma-3-4b-it": _gemma3(
        *(2560, 34, 8, 4, 256, 10_240),
        vocab_size=262_208,
        window=1024,
        max_positions=131_072,
        stretch=Stretch("linear", 8.0),
    ),
    "google/gemma-4-E2B-it": _gemma4(
        *(1536, 35, 8, 1, 256, 6144), window=512, local=4, groups=7, **_E2B
    ),
    "google/gemma-4-E4B-it": _gemma4(
        *(2560, 42, 8, 2, 256, 10_240), window=512, local=5, groups=7, **_E4B
    ),
    "google/gemma-4-31B-it": _gemma4(
        *(5376, 60, 32, 16, 256, 21_504), window=1024, local=5, groups=10, **_31B
    ),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ModelConfig(
        *("llama", 49_152, 576, 30, 9, 3, 64, 1536), rope_theta=1e5, norm_eps=1e-5
    ),
    "meta-llama/Llama-3.1-70B-Instruct": ModelConfig(
        *("llama", 128_256, 8192, 80, 64, 8, 128, 28_672),
        rope_theta=5e5,
        stretch=Stretch("llama3", 8.0, 1.0, 4.0, 8192),
        max_positions=131_072,
        norm_eps=1e-5,
        tied=False,
    ),
}


def _tower4(*sizes: *Sizes, **switches):
    return Gemma4VisionConfig(
        *sizes,
        patch=16,
        pool=3,
        positions=10_240,
        image_token=258_880,
        begin_token=255_999,
        end_token=258_882,
        **switches,
    )


_TOWER_OF_E = _tower4(768, 16, 12, 12, 64, 3072, clipped=True)
# The towers of those that can see: `replace(KNOWN[name], vision=SEES[name])`.
SEES = {
    "google/gemma-3-4b-it": VisionConfig(  # SigLIP so400m
        *(1152, 27, 16, 4304),  # width, layers, heads, ff
        patch=14,
        size=896,
        tokens=256,
        image_token=262_144,
        begin_token=255_999,
        end_token=256_000,
    ),
    "google/gemma-4-E2B-it": _TOWER_OF_E,
    "google/gemma-4-E4B-it": _TOWER_OF_E,
    "google/gemma-4-31B-it": _tower4(
        *(1152, 27, 16, 16, 72, 4304), both_ways=True, standardized=True
    ),
}
