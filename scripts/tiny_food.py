"""Makes `data/tiny/food_base`, a small model that sees, for the food lessons.

Pretrained from nothing on `scripts.food_corpus`: first on pictures with a name, which
is what teaches it to look, then on talk about pictures. Killed and run again it goes on
where it was.
"""

import pathlib

import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.batches import prompt_batches
from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer, count_params
from helpers.model.vision_config import VisionConfig
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import food_corpus

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "data" / "tiny" / "food_base"
WORK = ROOT / "build" / "tiny" / "food_base"
STEPS = {"names": 1200, "talk": 1000}
PEAK = {"names": 2e-2, "talk": 1e-2}
ROWS, LENGTH, SLOTS = 8, 128, 7  # a batch shows up to 56 pictures
WARMUP = 30
WHITENED, FLOOR = 1500, 1e-2  # pictures measured; least variance of a component

TEXT = dict(
    family="gemma3_text",
    width=64,
    layers=3,
    heads=2,
    kv_heads=1,
    head_dim=32,
    ff=160,
    window=32,
    pattern=3,
    rope_theta=1e6,
    query_scale=32.0,
)
TOWER = dict(width=64, layers=3, heads=4, ff=192, patch=8, size=48, tokens=9)


def new_model(tokenizer):
    """A model with random weights that knows the tokenizer's image tokens."""
    begin, soft, end = tokenizer.convert_tokens_to_ids(
        ["<start_of_image>", "<image_soft_token>", "<end_of_image>"]
    )
    vision = VisionConfig(**TOWER, image_token=soft, begin_token=begin, end_token=end)
    config = ModelConfig(vocab_size=len(tokenizer), vision=vision, **TEXT)
    model = Transformer(config, nnx.Rngs(0))
    model.remat = "none"  # so small that keeping all is faster
    return model


def whiten(vision, rows):
    """Starts the tower with patches whose components are all alike in size.

    Neighbouring pixels are nearly equal, so that random filters see little but the mean
    colour of a patch; along the principal axes of patches, each divided by its spread,
    edges count as much (LeCun et al., Efficient BackProp, 1998, section 4.3).
    """
    c = vision.config
    white, mean = whitened(rows, c)
    vision.patch[...] = jnp.asarray(white, jnp.float32)
    vision.patch_bias[...] = jnp.asarray(-mean @ white, jnp.float32)
    # As large beside them as a patch is, and not a sixth of it.
    vision.positions[...] = vision.positions[...] * c.grid / 2


def whitened(rows, tower):
    """Axes of the patches of pictures over their spread (3·patch², C); their mean."""
    pixels = np.stack([row["image"] for row in rows]) / 127.5 - 1.0
    grid = pixels.shape[1] // tower.patch
    cut = pixels.reshape(-1, grid, tower.patch, grid, tower.patch, 3).swapaxes(2, 3)
    patches = cut.reshape(-1, 3 * tower.patch**2)
    spread, axes = np.linalg.eigh(np.cov(patches, rowvar=False))  # smallest first
    white = (axes / np.sqrt(spread + FLOOR))[:, : -tower.width - 1 : -1]
    return white, patches.mean(axis=0)


def train(model, stage, examples, pictures):
    """Trains on one part of the corpus, or goes on; returns the training table."""
    batches = prompt_batches.packed_rows(
        examples,
        batch=ROWS,
        length=LENGTH,
        seed=0,
        pictures=pictures,
        vision=model.config.vision,
        slots=SLOTS,
    )
    steps = STEPS[stage]
    optimizer = optimizers.muon(PEAK[stage], steps=steps, warmup=WARMUP)
    folder = WORK / stage
    trainer = Trainer(model, objectives.sft(), optimizer, folder=folder, save_every=50)
    return trainer.fit(batches, steps)


def main():
    """Trains the model, or goes on, and writes its folder; returns curves."""
    named = food_corpus.pictures(food_corpus.NAMED, seed=0)
    talked = food_corpus.pictures(food_corpus.TALKED, seed=1, levels=(1, 1, 1, 2))
    tokenizer = food_corpus.make_tokenizer(talked)
    model = new_model(tokenizer)
    print(f"food_base: {count_params(model):,} parameters, {STEPS} steps", flush=True)
    whiten(model.vision, named[:WHITENED])
    see = tokenizer, model.config.vision
    table = train(model, "names", *food_corpus.names(*see, named))
    later = train(model, "talk", *food_corpus.talk(*see, talked))
    weights.save(model, FOLDER, tokenizer)
    table += [{**row, "step": row["step"] + STEPS["names"]} for row in later]
    return [("food_base", row["step"], row["loss"], row["seconds"]) for row in table]


if __name__ == "__main__":
    main()
