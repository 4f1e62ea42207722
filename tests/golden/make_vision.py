"""Makes the references that hold our Gemma 3 with vision to that of transformers.

As make_golden.py, in an environment with torch and transformers, then in the course's:

    python tests/golden/make_vision.py write    # a random model, saved and run
    python tests/golden/make_vision.py resave   # its config files as we write them
    python tests/golden/make_vision.py check    # transformers reads those just the same

The batch in vision.npz has a row with one picture, with two, with none, and with two
side by side, all with text before and after; the windows are shorter than a picture.
"""

import functools
import pathlib
import sys

import numpy as np
from make_golden import LINEAR, SIZES, greedy_of, load, logits_of, resave, resaved

HERE = pathlib.Path(__file__).parent
FOLDER, KIND = "gemma3_vision", "Gemma3ForConditionalGeneration"
IMAGE, BEGIN, END, TOKENS, PIXELS = 28, 29, 30, 9, 24
LENGTH, NEW = 44, 24
CONFIGS = ("config.json", "preprocessor_config.json")


def configuration():
    """Two local layers, one global, one local; 6 × 6 patches averaged to 3 × 3."""
    from transformers import Gemma3Config, Gemma3TextConfig, SiglipVisionConfig

    text = Gemma3TextConfig(
        **SIZES,
        sliding_window=6,
        query_pre_attn_scalar=12,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"]
        + ["sliding_attention"],
        rope_parameters={
            "full_attention": LINEAR | {"rope_theta": 1e5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    )
    tower = SiglipVisionConfig(
        hidden_size=12,
        intermediate_size=20,
        num_hidden_layers=3,
        num_attention_heads=3,
        image_size=PIXELS,
        patch_size=4,
        vision_use_head=False,
    )
    return Gemma3Config(
        text_config=text,
        vision_config=tower,
        mm_tokens_per_image=TOKENS,
        image_token_index=IMAGE,
        boi_token_index=BEGIN,
        eoi_token_index=END,
    )


def prompts():
    """(tokens, mask) int64 and uint8 images (P, N, H, W, 3), black where there is none.

    The last row is padded.
    """
    rng = np.random.default_rng(0)
    soft = [IMAGE] * TOKENS
    one = [BEGIN, *soft, END]

    def text(length):
        return rng.integers(3, IMAGE, length).tolist()

    rows = [
        text(7) + one + text(26),
        text(4) + one + text(3) + one + text(15),
        text(LENGTH),
        text(9) + [BEGIN, *soft, *soft, END] + text(5),
    ]
    tokens = np.full((len(rows), LENGTH), 5)
    mask = np.zeros_like(tokens)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
    shape = len(rows), 2, PIXELS, PIXELS, 3
    images = rng.integers(0, 256, shape).astype(np.uint8)
    for row, ids in enumerate(rows):
        images[row, ids.count(IMAGE) // TOKENS :] = 0
    return tokens, mask, images


def inputs(tokens, mask, images):
    """What transformers takes: only the pictures that have tokens, normalised."""
    import torch

    used = (tokens == IMAGE).sum(axis=1) // TOKENS
    seen = [picture for row, n in zip(images, used, strict=True) for picture in row[:n]]
    arguments = {
        "input_ids": torch.tensor(tokens),
        "attention_mask": torch.tensor(mask),
        "token_type_ids": torch.tensor((tokens == IMAGE).astype(int)),
    }
    if seen:
        pixels = (np.stack(seen).transpose(0, 3, 1, 2) / 255 - 0.5) / 0.5
        arguments["pixel_values"] = torch.tensor(pixels, dtype=torch.float32)
    return arguments


def answers_of(model, tokens, mask, images):
    """Tokens that it generates after each prompt alone, likeliest first."""
    rows = []
    for row, length in enumerate(mask.sum(axis=1)):
        one = slice(row, row + 1)
        some = inputs(tokens[one, :length], mask[one, :length], images[one])
        rows.append(greedy_of(model, NEW, **some, suppress_tokens=[IMAGE])[0])
    return np.stack(rows)


def processed(folder):
    """Pictures of several shapes, and what a folder's image processor makes of them."""
    from PIL import Image
    from transformers import Gemma3ImageProcessorPil

    rng = np.random.default_rng(1)
    drawn = {
        "wide": rng.integers(0, 256, (17, 60, 3)),
        "tall": rng.integers(0, 256, (90, 31, 3)),
        "grey": rng.integers(0, 256, (40, 40)),
        "small": rng.integers(0, 256, (2, 3, 3)),
        "same": rng.integers(0, 256, (PIXELS, PIXELS, 3)),
    }
    processor = Gemma3ImageProcessorPil.from_pretrained(folder)
    arrays = {}
    for name, pixels in drawn.items():
        pixels = pixels.astype(np.uint8)
        out = processor(Image.fromarray(pixels), return_tensors="np")["pixel_values"]
        arrays[f"picture_{name}"] = pixels
        arrays[f"pixels_{name}"] = out[0].transpose(1, 2, 0).astype(np.float32)
    return arrays


def write(folder=HERE):
    """Random weights everywhere, norms and biases too, saved by transformers."""
    import torch
    from transformers import Gemma3ForConditionalGeneration, Gemma3ImageProcessorPil

    folder = pathlib.Path(folder) / FOLDER
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(configuration())
    for name, parameter in model.named_parameters():
        tower_norm = "layer_norm" in name or "layernorm" in name
        centre = float(tower_norm and "vision" in name and name.endswith("weight"))
        # A last norm of both signs: else each answer repeats its first token.
        spread = 2.0 if name.endswith("language_model.norm.weight") else 0.3
        torch.nn.init.normal_(parameter.data, centre, spread)
    model.save_pretrained(folder)
    size = {"height": PIXELS, "width": PIXELS}
    Gemma3ImageProcessorPil(size=size).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens, mask, images = batch = prompts()
    model = load(folder, KIND)
    logits = logits_of(model, **inputs(*batch))
    np.savez_compressed(
        folder / "vision.npz",
        tokens=tokens,
        mask=mask,
        images=images,
        logits=logits,
        greedy=answers_of(model, *batch),
        **processed(folder),
    )
    moved = logits_of(model, **inputs(tokens, mask, images * 0)) - logits
    print("logits of standard deviation", logits.std(), "moved by the pictures up to",
          np.abs(moved).max(axis=(1, 2)))  # fmt: skip


def check():
    """What transformers computes under our config files is what was stored."""
    import transformers

    folder, stored = HERE / FOLDER, np.load(HERE / FOLDER / "vision.npz")
    batch = [stored[name] for name in ("tokens", "mask", "images")]
    with resaved(folder, CONFIGS) as scratch:
        logits = logits_of(load(scratch, KIND), **inputs(*batch))
        pixels = processed(scratch)
    gap = np.abs(logits - stored["logits"]).max()
    seen = max(np.abs(pixels[name] - stored[name]).max() for name in pixels)
    print(f"transformers {transformers.__version__} {FOLDER}: {gap:.1e}, {seen:.1e}")
    assert seen < 1e-5 and gap < 5e-5  # as in make_golden


if __name__ == "__main__":
    ours = functools.partial(resave, [HERE / FOLDER], CONFIGS, vision=True)
    {"write": write, "resave": ours, "check": check}[sys.argv[1]](*sys.argv[2:])
