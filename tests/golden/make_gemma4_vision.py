"""Makes the references that hold our Gemma 4 with vision to that of transformers.

As make_vision.py, in an environment with torch and transformers:

    python tests/golden/make_gemma4_vision.py write    # a random model, saved and run
    python tests/golden/make_gemma4_vision.py check    # our config files mean the same
    python tests/golden/make_gemma4_vision.py resave   # here: our config files

The batch in vision.npz has rows with one picture, with two of other shapes, with none
and with a long one, all with text before and after. Every switch of the tower is on.
"""

import functools
import pathlib
import sys

import numpy as np
from make_golden import GEMMA4, SIZES, greedy_of, load, logits_of, resave, resaved

HERE = pathlib.Path(__file__).parent
FOLDER, KIND = "gemma4_vision", "Gemma4ForConditionalGeneration"
IMAGE, BEGIN, END, PAD = 28, 29, 30, 1
SIDE, BUDGET, LENGTH, NEW = 4, 70, 40, 12
SQUARES = ((2, 3), (1, 4), (3, 1), (1, 12))  # high and wide
CONFIGS = ("config.json", "preprocessor_config.json")


def configuration():
    """E2B's habits in six layers, and a tower with everything that one may have."""
    from transformers import Gemma4Config, Gemma4TextConfig, Gemma4VisionConfig

    text = Gemma4TextConfig(
        **SIZES | {"num_hidden_layers": 6, "pad_token_id": PAD},
        **GEMMA4,
        layer_types=["sliding_attention", "full_attention"] * 3,
        num_kv_shared_layers=2,
        use_double_wide_mlp=True,
        hidden_size_per_layer_input=4,
        use_bidirectional_attention="vision",
    )
    tower = Gemma4VisionConfig(
        hidden_size=12,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=8,
        patch_size=2,
        pooling_kernel_size=2,
        position_embedding_size=140,
        use_clipped_linears=True,
        standardize=True,
    )
    return Gemma4Config(
        text_config=text,
        vision_config=tower,
        image_token_id=IMAGE,
        boi_token_id=BEGIN,
        eoi_token_id=END,
        vision_soft_tokens_per_image=BUDGET,
    )


def prompts():
    """(tokens, mask) int64, and pictures, a list of uint8 (H, W, 3) in their order."""
    rng = np.random.default_rng(0)
    pictures = [
        rng.integers(0, 256, (rows * SIDE, columns * SIDE, 3)).astype(np.uint8)
        for rows, columns in SQUARES
    ]
    one, two, three, long = (
        [BEGIN, *[IMAGE] * (rows * columns), END] for rows, columns in SQUARES
    )

    def text(length):
        return rng.integers(3, IMAGE, length).tolist()

    rows = [
        text(7) + one + text(20),
        text(4) + two + text(3) + three + text(5),
        text(LENGTH),
        text(9) + long + text(6),
    ]
    tokens = np.full((len(rows), LENGTH), 5)
    mask = np.zeros_like(tokens)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
    return tokens, mask, pictures


OF_ROW = ([0], [1, 2], [], [3])  # which pictures


def patches(pictures, patch, pool, budget):
    """(pixel_values, image_position_ids) as the image processor lays pictures out.

    Args:
      pictures: list of uint8 (H, W, 3), already of whole squares.
    """
    values = np.zeros((len(pictures), budget * pool**2, 3 * patch**2), np.float32)
    places = np.full((*values.shape[:2], 2), -1)
    for i, picture in enumerate(pictures):
        rows, columns = (size // patch for size in picture.shape[:2])
        for row in range(rows):
            for column in range(columns):
                n = row * columns + column
                top, left = row * patch, column * patch
                cut = picture[top : top + patch, left : left + patch]
                values[i, n], places[i, n] = cut.reshape(-1) / 255, (column, row)
    return values, places


def inputs(model, tokens, mask, pictures, budget):
    """What the model takes: ids, mask, which of them are images, and pictures."""
    import torch

    config = model.config
    tower = config.vision_config
    is_image = (tokens == config.image_token_id) & (mask > 0)
    arguments = {
        "input_ids": torch.tensor(tokens),
        "attention_mask": torch.tensor(mask),
        "mm_token_type_ids": torch.tensor(is_image.astype(int)),
    }
    if pictures:
        sizes = tower.patch_size, tower.pooling_kernel_size, budget
        values, places = patches(pictures, *sizes)
        arguments["pixel_values"] = torch.tensor(values, dtype=model.dtype)
        arguments["image_position_ids"] = torch.tensor(places)
    return arguments


def logits(model, *batch):
    """(P, T, V) of a batch, in the model's dtype."""
    # Without this, transformers 5.23 cuts off inputs that some shapes lack.
    return logits_of(model, **inputs(model, *batch), output_hidden_states=True)


def answers_of(model, tokens, mask, pictures):
    """Tokens that it generates after each prompt alone, likeliest first."""
    rows = []
    for row, which in enumerate(OF_ROW):
        one, length = slice(row, row + 1), mask[row].sum()
        cut = tokens[one, :length], mask[one, :length]
        some = inputs(model, *cut, [pictures[i] for i in which], BUDGET)
        rows.append(greedy_of(model, NEW, **some, suppress_tokens=[IMAGE])[0])
    return np.stack(rows)


def processed(folder):
    """Pictures of several shapes, and what a folder's image processor makes of them."""
    from PIL import Image
    from transformers import Gemma4ImageProcessorPil

    rng = np.random.default_rng(1)
    shapes = {
        "wide": (17, 60, 3),
        "tall": (90, 31, 3),
        "grey": (40, 40),
        "small": (2, 3, 3),
        "narrow": (3, 400, 3),
        "large": (200, 300, 3),
        "same": (28, 40, 3),
    }
    processor = Gemma4ImageProcessorPil.from_pretrained(folder)
    arrays = {}
    for name, shape in shapes.items():
        pixels = rng.integers(0, 256, shape).astype(np.uint8)
        out = processor(Image.fromarray(pixels), return_tensors="np")
        arrays[f"picture_{name}"] = pixels
        arrays[f"pixels_{name}"] = out["pixel_values"][0].astype(np.float32)
        arrays[f"places_{name}"] = out["image_position_ids"][0]
    return arrays


def write(folder=HERE):
    """Random weights everywhere, norms and bounds too, saved by transformers."""
    import torch
    from transformers import Gemma4ForConditionalGeneration, Gemma4ImageProcessorPil

    folder = pathlib.Path(folder) / FOLDER
    torch.manual_seed(0)
    model = Gemma4ForConditionalGeneration(configuration())
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter.data, float("norm" in name), 0.2)
        # Larger, sharper numbers: float32's rounding alone moved logits by 3e-4.
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            parameter.data.mul_(0.6)
    for name, buffer in model.named_buffers():
        if name.endswith(("layer_scalar", "std_scale")):
            torch.nn.init.normal_(buffer, 1.0, 0.3)
        elif name.endswith("std_bias"):
            torch.nn.init.normal_(buffer, 0.0, 0.3)
        elif name.endswith(("_min", "_max")):
            sign = -1.0 if name.endswith("_min") else 1.0
            torch.nn.init.uniform_(buffer, min(0.8 * sign, sign), max(0.8 * sign, sign))
    model.save_pretrained(folder)
    sizes = {"patch_size": 2, "pooling_kernel_size": 2, "max_soft_tokens": BUDGET}
    Gemma4ImageProcessorPil(**sizes).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens, mask, pictures = prompts()
    model = load(folder, KIND)
    expected = logits(model, tokens, mask, pictures, BUDGET)
    np.savez_compressed(
        folder / "vision.npz",
        tokens=tokens,
        mask=mask,
        logits=expected,
        greedy=answers_of(model, tokens, mask, pictures),
        **{f"seen_{i}": picture for i, picture in enumerate(pictures)},
        **processed(folder),
    )
    blank = [255 - picture for picture in pictures]
    moved = logits(model, tokens, mask, blank, BUDGET) - expected
    print("logits of standard deviation", expected.std(), "moved by the pictures up to",
          np.abs(moved).max(axis=(1, 2)))  # fmt: skip


def check():
    """What transformers computes under our config files is what was stored."""
    import transformers

    folder, stored = HERE / FOLDER, np.load(HERE / FOLDER / "vision.npz")
    pictures = [stored[f"seen_{i}"] for i in range(len(SQUARES))]
    batch = stored["tokens"], stored["mask"], pictures, BUDGET
    with resaved(folder, CONFIGS) as scratch:
        gap = np.abs(logits(load(scratch, KIND), *batch) - stored["logits"])
        for name, array in processed(scratch).items():
            np.testing.assert_array_equal(array, stored[name], err_msg=name)
    print(f"transformers {transformers.__version__} {FOLDER}: {gap.max():.1e}")
    assert gap.max() < 5e-5  # as in make_golden


if __name__ == "__main__":
    ours = functools.partial(resave, [HERE / FOLDER], CONFIGS, vision=True)
    {"write": write, "resave": ours, "check": check}[sys.argv[1]](*sys.argv[2:])
