"""Makes the shipped checkpoints of `data/tiny` (`make tiny`, under an hour).

    base, student_base    pretrained here, from nothing, on `scripts.corpus`
    game_base             the same, on random games
    sft, grpo             what notebooks 04 and 07 make of the base, run as they are
    food_base             pretrained by `scripts.tiny_food`, on pictures
    food_sft, food_grpo   what notebooks 09 and 10 make of it

Killed and run again it goes on where it was. `base` is stopped on purpose while its
arithmetic is half learned: what is left to learn is what the notebooks teach.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from flax import nnx

from helpers.batches import prompt_batches
from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer, count_params
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import corpus, tables, tiny_food

ROOT = pathlib.Path(__file__).resolve().parents[1]
TINY = ROOT / "data" / "tiny"
WORK = ROOT / "build" / "tiny"
ROWS, LENGTH = 16, 256  # a batch is 4,096 tokens
PEAK, WARMUP = 2e-2, 20

SHARED = dict(
    family="gemma3_text",
    kv_heads=1,
    head_dim=32,
    window=32,
    pattern=2,
    rope_theta=1e6,
    query_scale=32.0,
)
# name: sizes and steps
BASE = dict(width=96, layers=4, heads=3, ff=256), 450
STUDENT = dict(width=64, layers=3, heads=2, ff=120), 1200
GAME = dict(width=64, layers=2, heads=2, ff=128, window=128), 400
PRETRAINED = {"base": BASE, "student_base": STUDENT, "game_base": GAME}
NOTEBOOKS = {"sft": "04", "grpo": "07", "food_sft": "09", "food_grpo": "10"}


def pretrain(name, tokenizer, examples):
    """Trains a model from nothing, and writes data/tiny/<name>."""
    sizes, steps = PRETRAINED[name]
    config = ModelConfig(vocab_size=len(tokenizer), **SHARED | sizes)
    model = Transformer(config, nnx.Rngs(0))
    print(f"{name}: {count_params(model):,} parameters, {steps} steps", flush=True)
    rows = prompt_batches.packed_rows(examples, batch=ROWS, length=LENGTH, seed=0)
    optimizer = optimizers.muon(PEAK, warmup=WARMUP)
    trainer = Trainer(
        model, objectives.sft(), optimizer, folder=WORK / name, save_every=50
    )
    table = trainer.fit(rows, steps)
    weights.save(model, TINY / name, tokenizer)
    return [(name, row["step"], row["loss"], row["seconds"]) for row in table]


def from_notebooks():
    """Runs the four notebooks as `make course` does, and keeps the models they save."""
    environment = os.environ | {
        "COURSE_BUILD": str(WORK / "course"),
        "COURSE_PRESET": "laptop",
        "COURSE_SEED": "0",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, str(ROOT / "notebooks" / "walk.py"), *NOTEBOOKS.values()]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    for stage in NOTEBOOKS:
        shutil.rmtree(TINY / stage, ignore_errors=True)
        shutil.copytree(WORK / "course" / "runs" / stage / "model", TINY / stage)


def main():
    """Pretrains the models, runs the notebooks, writes the training curves."""
    start, curves = time.monotonic(), []
    texts = corpus.texts()
    tokenizer = corpus.make_tokenizer(*texts)
    examples = corpus.examples(tokenizer, *texts)
    for name in ("base", "student_base"):
        curves += pretrain(name, tokenizer, examples)
    curves += pretrain("game_base", *corpus.games_examples())
    curves += tiny_food.main()
    columns = "model", "step", "loss", "seconds"
    lines = [(n, s, f"{x:.4f}", f"{t:.2f}") for n, s, x, t in curves]
    rows = [dict(zip(columns, line, strict=True)) for line in lines]
    tables.write(TINY / "curves.csv", rows)
    from_notebooks()
    print(f"data/tiny is made, in {(time.monotonic() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
