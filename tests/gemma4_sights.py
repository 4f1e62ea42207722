"""Small Gemma 4s that see: every switch of the tower alone, and drawn by hypothesis."""

import dataclasses

import gemma4_shapes
import numpy as np
import tiny_models

from helpers.model.vision_config import Gemma4VisionConfig

IMAGE, BEGIN, END, PAD = 18, 17, 16, 1


def config(shape=gemma4_shapes.SMALL, **changes):
    """A decoder with a tower in which no two sizes agree by chance; no switch is on."""
    sizes = {"width": 12, "layers": 2, "heads": 3, "kv_heads": 3, "head_dim": 8}
    sizes |= {"ff": 20, "patch": 2, "pool": 2, "positions": 40, "budget": 12}
    tokens = {"image_token": IMAGE, "begin_token": BEGIN, "end_token": END}
    vision = Gemma4VisionConfig(
        **sizes | tokens | {"pad_token": PAD, "rope_theta": 7.0} | changes
    )
    return dataclasses.replace(gemma4_shapes.config(**shape), vision=vision)


NAMES = {"begin_token": "<|image>", "image_token": "<|image|>", "end_token": "<image|>"}


def for_tokenizer(tokenizer):
    """A config with the vocabulary and image tokens of a tokenizer of the family."""
    ids = {name: tokenizer.convert_tokens_to_ids(NAMES[name]) for name in NAMES}
    shape = gemma4_shapes.SMALL | {"vocab_size": len(tokenizer)}
    return config(shape, **ids, budget=70, positions=140)


def of_config(config, seed=0, unbound=False):
    """A model whose every weight is random, norms and bounds too; nothing compiles.

    Args:
      unbound: bounds are infinite, as in a model that nobody calibrated.
    """

    def random(name, noise, x):
        if "_min" in name or "_max" in name:  # most of what it bounds lies within
            sign = -1 if "_min" in name else 1
            return sign * (
                np.full(x.shape, np.inf) if unbound else 0.7 + 0.1 * abs(noise)
            )
        if "norm" in name or "scale" in name:
            narrow = "'q_norm'" in name or "'k_norm'" in name
            return (1 + 0.3 * noise) * (0.6 if narrow else 1)
        return noise * (0.5 if "bias" in name else x.shape[1] ** -0.5)

    return tiny_models.randomised(config, random, seed)


def place(vision, strip):
    """The ids that stand for a picture in a prompt: begin to end."""
    soft = [vision.image_token] * vision.count(strip)
    return [vision.begin_token, *soft, vision.end_token]


SIZES = ((2, 3), (1, 4), (3, 1), (2, 2))  # squares high and wide, of four pictures


def batch(vision, seed=0):
    """Rows with one picture, two, none, and a long one: (tokens, mask, pixels, strips).

    tokens, mask: int (4, 30), padded. pixels: of each row, a list of uint8 (H, W, 3).
    strips: uint8 (4, 2, H, W, 3), black where there is none.
    """
    rng = np.random.default_rng(seed)
    side = vision.side

    def picture(rows, columns):
        shape = rows * side, columns * side, 3
        return rng.integers(0, 256, shape).astype(np.uint8)

    def text(length):
        return rng.integers(2, END, length).tolist()

    pixels = [
        [picture(*SIZES[0])],
        [picture(*SIZES[1]), picture(*SIZES[2])],
        [],
        [picture(1, vision.budget)],
    ]
    shown = [[vision.strip(x) for x in row] for row in pixels]
    places = [[place(vision, x) for x in row] for row in shown]
    rows = [
        text(5) + places[0][0] + text(9),
        text(3) + places[1][0] + text(2) + places[1][1] + text(6),
        text(30),
        text(2) + places[3][0] + text(5),
    ]
    tokens, mask = np.full((4, 30), 5), np.zeros((4, 30), int)
    strips = np.zeros((4, 2, (vision.budget + 1) * side, side, 3), np.uint8)
    for i, row in enumerate(rows):
        tokens[i, : len(row)], mask[i, : len(row)] = row, 1
        for slot, strip in enumerate(shown[i]):
            strips[i, slot] = strip
    return tokens, mask, pixels, strips
