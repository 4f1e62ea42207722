"""How an update spreads over chips, on paper: products, messages and what hides.

A model by formulas, not by a compiler and not measured. Products run at the chip's
peak, messages at the published speed of links, all links of an axis at once and without
latency; memory's speed is left out. FSDP's messages, gathers of the next layer's
weights and sums of the last one's gradients, can run behind products. Tensor
parallelism's cannot: the next product waits for them. Source of the formulas: How to
scale your model, jax-ml.github.io/scaling-book, "training".
"""

import math
from typing import NamedTuple

from helpers.model.vision_config import UnsupportedModel
from helpers.tpu import useful_flops
from helpers.tpu.generations import GENERATIONS, Generation

GIB = 2**30
STATE = 16  # bytes a parameter: itself, two moments and its gradient, in float32
GATHERED = 2  # bytes a parameter in bfloat16: once forward, once backward
SUMMED = 4  # bytes of its gradient
PIECE = 36_864  # most tokens of a chip at once: so many of Qwen3-0.6B's fill a v5e
SUMS = 6  # of activations over "model" a layer: two each forward, again and backward


class Work(NamedTuple):
    """Prompts with a group of answers each, tokens of a prompt and of an answer."""

    prompts: int
    group: int = 8
    prompt_tokens: int = 256
    completion_tokens: int = 256

    @property
    def tokens(self) -> int:
        """In all; a prompt is computed once for its group."""
        each = self.prompt_tokens + self.group * self.completion_tokens
        return self.prompts * each


class Spread(NamedTuple):
    """One update on one slice, in milliseconds of a chip.

    Attributes:
      products_ms: with the forward pass computed twice, at the peak.
      gathers_ms: FSDP's messages. sums_ms: tensor parallelism's.
      state_percent: of a chip's memory, for weights, moments and gradients.
      pieces: parts of the batch, one after the other; each gathers anew.
    """

    products_ms: float
    gathers_ms: float
    sums_ms: float
    state_percent: float
    pieces: int

    @property
    def step_ms(self) -> float:
        """If FSDP's messages hide behind products as far as these last."""
        return max(self.products_ms, self.gathers_ms) + self.sums_ms

    @property
    def in_turn_ms(self) -> float:
        """If nothing hides."""
        return self.products_ms + self.gathers_ms + self.sums_ms


def parameters(config) -> int:
    """Weights of a decoder's matrices; norms and biases are a rest, left out.

    Raises:
      UnsupportedModel: it is a Gemma 4, whose layers differ in size, and most of whose
        weights may be a table that no product uses.
    """
    c = config
    if c.gemma4:
        raise UnsupportedModel(
            "The formulas of scaling_model know layers of one size, and not Gemma 4's: "
            "take another model, or compile it (helpers.tpu.ahead_of_time)."
        )
    attention = c.width * c.head_dim * (2 * c.heads + 2 * c.kv_heads)
    tables = c.vocab_size * c.width * (1 if c.tied else 2)
    return c.layers * (attention + 3 * c.width * c.ff) + tables


def spread(config, topology: str, work: Work, model: int = 1) -> Spread:
    """An update of all weights: FSDP over "data", tensor parallel over "model".

    Args:
      topology: such as "v5p:4x4x4".
      model: chips that cut one layer's products; they lie along the last axis.
    Raises:
      ValueError: `model` does not divide the slice's last axis and the heads.
      UnsupportedModel: it is a Gemma 4.
    """
    kind, _, shape = topology.partition(":")
    chip, sizes = GENERATIONS[kind], [int(size) for size in shape.split("x")]
    if sizes[-1] % model or config.kv_heads % model:
        raise ValueError(
            f"model={model} must divide the last axis of {topology} and the "
            f"{config.kv_heads} heads of keys."
        )
    chips, count = math.prod(sizes), parameters(config)
    data = chips // model
    pieces = math.ceil(work.tokens / chips / PIECE)
    gathers = pieces * (2 * GATHERED + SUMMED) * count / model * (data - 1) / data
    outer = [*sizes[:-1], sizes[-1] // model]
    along = _rate(chip, outer, whole=model == 1)
    across = _rate(chip, [model], whole=model == sizes[-1])
    activations = work.tokens / data * config.width * 2
    sums = SUMS * config.layers * 2 * activations * (model - 1) / model
    return Spread(
        products_ms=1e3 * _flops(config, work) / chips / (chip.tflops * 1e12),
        gathers_ms=1e3 * gathers / along if gathers else 0.0,
        sums_ms=1e3 * sums / across if sums else 0.0,
        state_percent=100 * STATE * count / chips / GIB / chip.usable_gb / chip.devices,
        pieces=pieces,
    )


def _flops(config, work):
    """FLOPs of the update, prompts to their end, and the forward pass once more."""
    rows = work.prompts * work.group
    texts = [
        useful_flops.Texts(work.prompts, 0, work.prompt_tokens),
        useful_flops.Texts(rows, work.prompt_tokens, work.completion_tokens),
    ]
    scored = rows * work.completion_tokens
    forward = useful_flops.forward_flops(config, texts, scored)
    again = forward.base + forward.attention
    return useful_flops.update_flops(forward, trains_base=True) + again


def _rate(chip: Generation, sizes, whole) -> float:
    """Bytes a second that a chip receives over the links along axes of these sizes.

    An axis that closes to a ring has two links at each chip. The ends of an open one
    have one, and everybody waits for them; so has a part of an axis.
    """
    rings = [size >= chip.wraps for size in sizes[:-1]]
    rings.append(whole and sizes[-1] >= chip.wraps)
    links = sum(
        2 if ring else 1 for size, ring in zip(sizes, rings, strict=True) if size > 1
    )
    return links * chip.link_gbytes * 1e9
