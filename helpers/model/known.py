"""The shapes of the real models the course uses, so that programs can be compiled for
them where their weights are not. Each equals what the model's config.json gives."""

from typing import Any

from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.rope import Stretch
from helpers.model.vision_config import Gemma4VisionConfig, VisionConfig

_QWEN2: dict[str, Any] = dict(
    family="qwen2", vocab_size=151_936, rope_theta=1e6, max_positions=32_768
)
_QWEN3: dict[str, Any] = dict(
    family="qwen3",
    vocab_size=151_936,
    layers=28,
    heads=16,
    kv_heads=8,
    head_dim=128,
    rope_theta=1e6,
    max_positions=40_960,
)
_GEMMA: dict[str, Any] = dict(
    family="gemma3_text",
    vocab_size=262_144,
    head_dim=256,
    pattern=6,
    rope_theta=1e6,
    query_scale=256.0,
    max_positions=32_768,
)
# Gemma 4 as Google's own code has it (google-deepmind/gemma, gm/nn/gemma4/_gemma4.py).
_GEMMA4: dict[str, Any] = dict(
    family="gemma4_text",
    vocab_size=262_144,
    head_dim=256,
    rope_theta=1e6,
    stretch=Stretch("proportional", 1.0, share=0.25),
    query_scale=1.0,
    max_positions=131_072,
)
_FULL: dict[str, Any] = dict(full_head_dim=512, softcap=30.0)
_FOUR, _FIVE = (("local",) * local + ("full",) for local in (4, 5))


KNOWN = {
    "Qwen/Qwen2.5-0.5B-Instruct": ModelConfig(
        **_QWEN2, width=896, layers=24, heads=14, kv_heads=2, head_dim=64, ff=4864
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": ModelConfig(
        **_QWEN2, width=1536, layers=28, heads=12, kv_heads=2, head_dim=128, ff=8960
    ),
    "Qwen/Qwen3-0.6B": ModelConfig(**_QWEN3, width=1024, ff=3072),
    "Qwen/Qwen3-1.7B": ModelConfig(**_QWEN3, width=2048, ff=6144),
    "google/gemma-3-270m-it": ModelConfig(
        **_GEMMA, width=640, layers=18, heads=4, kv_heads=1, ff=2048, window=512
    ),
    "google/gemma-3-1b-it": ModelConfig(
        **_GEMMA, width=1152, layers=26, heads=4, kv_heads=1, ff=6912, window=512
    ),
    "google/gemma-3-4b-it": ModelConfig(
        **_GEMMA | {"vocab_size": 262_208, "max_positions": 131_072},
        width=2560,
        layers=34,
        heads=8,
        kv_heads=4,
        ff=10_240,
        window=1024,
        stretch=Stretch("linear", 8.0),
    ),
    "google/gemma-4-E2B-it": ModelConfig(
        **_GEMMA4,
        width=1536,
        layers=35,
        heads=8,
        kv_heads=1,
        ff=6144,
        window=512,
        gemma4=Gemma4Config(
            _FOUR * 7,
            full_kv_heads=1,
            sharing=20,
            double_wide=True,
            per_layer=256,
            **_FULL,
        ),
    ),
    "google/gemma-4-E4B-it": ModelConfig(
        **_GEMMA4,
        width=2560,
        layers=42,
        heads=8,
        kv_heads=2,
        ff=10_240,
        window=512,
        gemma4=Gemma4Config(
            _FIVE * 7, full_kv_heads=2, sharing=18, per_layer=256, **_FULL
        ),
    ),
    "google/gemma-4-31B-it": ModelConfig(
        **_GEMMA4 | {"max_positions": 262_144},
        width=5376,
        layers=60,
        heads=32,
        kv_heads=16,
        ff=21_504,
        window=1024,
        gemma4=Gemma4Config(_FIVE * 10, full_kv_heads=4, keys_are_values=True, **_FULL),
    ),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ModelConfig(
        family="llama",
        vocab_size=49_152,
        width=576,
        layers=30,
        heads=9,
        kv_heads=3,
        head_dim=64,
        ff=1536,
        rope_theta=1e5,
        max_positions=8192,
        norm_eps=1e-5,
    ),
    "meta-llama/Llama-3.1-70B-Instruct": ModelConfig(
        family="llama",
        vocab_size=128_256,
        width=8192,
        layers=80,
        heads=64,
        kv_heads=8,
        head_dim=128,
        ff=28_672,
        rope_theta=5e5,
        stretch=Stretch("llama3", 8.0, 1.0, 4.0, 8192),
        max_positions=131_072,
        norm_eps=1e-5,
        tied=False,
    ),
}
_TOWER4: dict[str, Any] = dict(
    patch=16,
    pool=3,
    positions=10_240,
    image_token=258_880,
    begin_token=255_999,
    end_token=258_882,
)
_TOWER_OF_E = Gemma4VisionConfig(
    **_TOWER4,
    width=768,
    layers=16,
    heads=12,
    kv_heads=12,
    head_dim=64,
    ff=3072,
    clipped=True,
)
# The towers of those that can see: `replace(KNOWN[name], vision=SEES[name])`.
SEES = {
    "google/gemma-3-4b-it": VisionConfig(  # SigLIP so400m
        width=1152,
        layers=27,
        heads=16,
        ff=4304,
        patch=14,
        size=896,
        tokens=256,
        image_token=262_144,
        begin_token=255_999,
        end_token=256_000,
    ),
    "google/gemma-4-E2B-it": _TOWER_OF_E,
    "google/gemma-4-E4B-it": _TOWER_OF_E,
    "google/gemma-4-31B-it": Gemma4VisionConfig(
        **_TOWER4,
        width=1152,
        layers=27,
        heads=16,
        kv_heads=16,
        head_dim=72,
        ff=4304,
        both_ways=True,
        standardized=True,
    ),
}
