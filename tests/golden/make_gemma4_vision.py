"""Makes the references that hold our Gemma 4 with vision to that of transformers.

As make_vision.py, in an environment with torch and transformers:

    python tests/golden/make_gemma4_vision.py write    # a random model, saved and run
    python tests/golden/make_gemma4_vision.py check    # our config files mean the same
    python tests/golden/make_gemma4_vision.py resave   # here: our config files

The batch in vision.npz has rows with one picture, with two of other shapes, with none
and with a long one, all with text before and after. Every switch of the tower is on.
"""

import pathlib
import shutil
import sys
import tempfile

import gemma4_sights_torch as theirs
import numpy as np

HERE = pathlib.Path(__file__).parent
FOLDER = "gemma4_vision"
IMAGE, BEGIN, END, PAD = 28, 29, 30, 1
SIDE, BUDGET, LENGTH, NEW = 4, 70, 40, 12
SQUARES = ((2, 3), (1, 4), (3, 1), (1, 12))  # high and wide
CONFIGS = ("config.json", "preprocessor_config.json")


def configuration():
    """E2B's habits in six layers, and a tower with everything that one may have."""
    from make_golden import GEMMA4, SIZES
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
    for row, own in enumerate(rows):
        tokens[row, : len(own)], mask[row, : len(own)] = own, 1
    return tokens, mask, pictures


OF_ROW = ([0], [1, 2], [], [3])  # which pictures


def greedy_of(model, tokens, mask, pictures):
    """Tokens that it generates after each prompt alone, likeliest first."""
    found = []
    for row, own in enumerate(OF_ROW):
        one, length = slice(row, row + 1), mask[row].sum()
        seen = [pictures[i] for i in own]
        cut = tokens[one, :length], mask[one, :length]
        longer = model.generate(
            **theirs.inputs(model, *cut, seen, BUDGET),
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=False,
            eos_token_id=[],
            suppress_tokens=[IMAGE],
        )
        found.append(longer[0, length:].numpy())
    return np.stack(found)


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
    model = theirs.load(folder)
    logits = theirs.logits(model, tokens, mask, pictures, BUDGET)
    np.savez_compressed(
        folder / "vision.npz",
        tokens=tokens,
        mask=mask,
        logits=logits,
        greedy=greedy_of(model, tokens, mask, pictures),
        **{f"seen_{i}": picture for i, picture in enumerate(pictures)},
        **processed(folder),
    )
    blank = [255 - picture for picture in pictures]
    moved = theirs.logits(model, tokens, mask, blank, BUDGET) - logits
    print("logits of standard deviation", logits.std(), "moved by the pictures up to",
          np.abs(moved).max(axis=(1, 2)))  # fmt: skip


def resave():
    """Our config files of the same model, beside theirs."""
    from helpers.model import weights

    with tempfile.TemporaryDirectory() as scratch:
        weights.save(weights.load(HERE / FOLDER, vision=True), scratch)
        for name in CONFIGS:
            shutil.copy(f"{scratch}/{name}", HERE / FOLDER / f"resaved_{name}")


def check():
    """What transformers computes under our config files is what was stored."""
    import transformers

    folder, stored = HERE / FOLDER, np.load(HERE / FOLDER / "vision.npz")
    with tempfile.TemporaryDirectory() as scratch:
        for name in CONFIGS:
            shutil.copy(folder / f"resaved_{name}", f"{scratch}/{name}")
        shutil.copy(folder / "model.safetensors", scratch)
        pictures = [stored[f"seen_{i}"] for i in range(len(SQUARES))]
        batch = stored["tokens"], stored["mask"], pictures, BUDGET
        gap = np.abs(theirs.logits(theirs.load(scratch), *batch) - stored["logits"])
        for name, array in processed(scratch).items():
            np.testing.assert_array_equal(array, stored[name], err_msg=name)
    print(f"transformers {transformers.__version__} {FOLDER}: {gap.max():.1e}")
    assert gap.max() < 5e-5  # as in make_golden


if __name__ == "__main__":
    {"write": write, "resave": resave, "check": check}[sys.argv[1]](*sys.argv[2:])
