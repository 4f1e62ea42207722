"""Makes `data/tiny/food_base`, a small model that sees, for the food lessons.

Pretrained from nothing on `scripts.food_corpus`. It joins `make tiny` once its recipe
has been run whole. Killed and run again it goes on where it was.
"""

import pathlib

from flax import nnx

from helpers import lessons, optimizers, pipeline
from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer, count_params
from helpers.model.vision_config import VisionConfig
from helpers.trainer import Trainer
from scripts import food_corpus

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "data" / "tiny" / "food_base"
WORK = ROOT / "build" / "tiny" / "food_base"
STEPS = 3000
ROWS, LENGTH, SLOTS = 8, 128, 7  # a batch shows up to 56 pictures
PEAK, WARMUP = 2e-2, 30

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


def main():
    """Trains the model, or goes on, and writes its folder."""
    rows = food_corpus.pictures()
    tokenizer = food_corpus.make_tokenizer(rows)
    model = new_model(tokenizer)
    print(f"food_base: {count_params(model):,} parameters, {STEPS} steps", flush=True)
    examples, pictures = food_corpus.examples(tokenizer, model.config.vision, rows)
    batches = pipeline.packed_rows(
        examples,
        batch=ROWS,
        length=LENGTH,
        seed=0,
        pictures=pictures,
        vision=model.config.vision,
        slots=SLOTS,
    )
    optimizer = optimizers.muon(PEAK, steps=STEPS, warmup=WARMUP)
    trainer = Trainer(model, lessons.sft(), optimizer, folder=WORK, save_every=50)
    table = trainer.fit(batches, STEPS)
    weights.save(model, FOLDER, tokenizer)
    return [("food_base", row["step"], row["loss"], row["seconds"]) for row in table]


if __name__ == "__main__":
    main()
