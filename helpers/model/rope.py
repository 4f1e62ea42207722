"""Rotary positions (2104.09864), and how long-context models stretch them."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

STRETCHES = {  # by kind, our name of each setting and the one in config.json
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
        "original": "original_max_position_embeddings",
    },
    "proportional": {"factor": "factor", "share": "partial_rotary_factor"},
}


class Stretch(NamedTuple):
    """How far a model's rotary angles were stretched for longer texts.

    kind: "linear" divides every angle by `factor`; "llama3" only those whose wave is
    longer than `original / low` tokens, none whose wave is shorter than
    `original / high`, and blends in between (Llama 3.1's `rope_scaling`);
    "proportional" turns the first `share` of the pairs only (Gemma 4).
    original: the length in tokens the model was first trained on.
    """

    kind: str
    factor: float
    low: float = 1.0
    high: float = 4.0
    original: int = 8192
    share: float = 1.0

    @classmethod
    def from_hf(cls, rope: dict) -> "Stretch":
        """Reads a `rope_scaling` of config.json that has all its fields."""
        kind = rope["rope_type"]
        return cls(kind, **{our: rope[name] for our, name in STRETCHES[kind].items()})

    def to_hf(self) -> dict:
        """The `rope_scaling` of config.json."""
        names = STRETCHES[self.kind].items()
        return {"rope_type": self.kind} | {n: getattr(self, our) for our, n in names}


def frequencies(head_dim: int, theta: float, stretch: Stretch | None = None):
    """Radians per token of each pair of channels, float64 (head_dim / 2,)."""
    frequency = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    if stretch is None:
        return frequency
    if stretch.kind == "linear":
        return frequency / stretch.factor
    if stretch.kind == "proportional":
        turned = int(stretch.share * head_dim // 2)
        return (
            np.where(np.arange(head_dim // 2) < turned, frequency, 0) / stretch.factor
        )
    waves = stretch.original * frequency / (2 * math.pi)  # in the original length
    kept = np.clip((waves - stretch.low) / (stretch.high - stretch.low), 0, 1)
    return kept * frequency + (1 - kept) * frequency / stretch.factor


def rotary(positions_PGT, frequency):
    """Cosines and sines of rotary positions, float32 (P, G, T, H/2)."""
    frequency = jnp.asarray(frequency, jnp.float32)
    angle = positions_PGT[..., None].astype(jnp.float32) * frequency
    return jnp.cos(angle), jnp.sin(angle)


def rotate(x_PGNTH, cos_sin):
    """Turns each head's halves by its position; (P, G, heads, T, H), dtype kept."""
    cos, sin = (part[:, :, None].astype(x_PGNTH.dtype) for part in cos_sin)
    first, second = jnp.split(x_PGNTH, 2, axis=-1)
    return jnp.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )


def rotaries(positions, config):
    """`rotary` of a model's global layers, and of its local ones."""
    c = config
    return [
        rotary(positions, frequencies(c.head_dim, c.rope_theta, c.stretch)),
        rotary(positions, frequencies(c.head_dim, c.rope_local_theta)),
    ]
