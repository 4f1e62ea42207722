"""Does the shape of Gemma 4 matter at half a million parameters? (`shapes.csv`)

    python -m scripts.shapes [--seeds 0 1 2]       about 20 minutes on two cores

The shipped base is made like Gemma 3. Here a model made like Gemma 4's E2B is trained
from nothing as the base is: with the same text, tokenizer, batches and optimizer, and
as many parameters to 1%. Both have two local layers and two full ones. The second also
has wider heads in full layers, vectors for each layer of each token, keys and values
that the last two layers share, with feed-forwards twice as wide there, and capped
logits. Written down: the loss of held-out answers in nats a token, and how many of 500
questions of one to three steps are answered right, greedily. `sharp` leaves the
queries' norms as they begin elsewhere, at 1 (`begin_flat`); of it there is seed 0.
"""

import argparse
import itertools
import pathlib
import time

import numpy as np
from flax import nnx

from helpers.batches import prompt_batches
from helpers.evaluation.evaluator import evaluate
from helpers.model.config import Gemma4Config, ModelConfig
from helpers.model.rope import Stretch
from helpers.model.transformer import Transformer, count_params
from helpers.tasks.maths import word_problems
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import corpus, tables, tiny

TABLE = pathlib.Path(tiny.ROOT / "data" / "results" / "shapes.csv")
SIZES, STEPS, _ = tiny.BASE
GEMMA4 = Gemma4Config(
    kinds=("local", "full") * 2,
    full_head_dim=64,
    full_kv_heads=1,
    sharing=2,
    double_wide=True,
    per_layer=16,
    softcap=30.0,
)
LIKE_GEMMA4 = dict(
    family="gemma4_text",
    kv_heads=1,
    head_dim=32,
    window=32,
    rope_theta=1e6,
    stretch=Stretch("proportional", 1.0, share=0.25),
    query_scale=1.0,
    gemma4=GEMMA4,
)
SHAPES = {
    "like Gemma 3": SIZES | tiny.SHARED,
    "like Gemma 4": SIZES | {"ff": 117} | LIKE_GEMMA4,
    "like Gemma 4, sharp": SIZES | {"ff": 117} | LIKE_GEMMA4,
}
QUESTIONS = 500


def trained(shape: str, seed: int, tokenizer, texts, steps: int = STEPS):
    """A model of a shape, trained from nothing, and the CPU-seconds that it took."""
    config = ModelConfig(vocab_size=len(tokenizer), **SHAPES[shape])
    model = Transformer(config, nnx.Rngs(seed))
    if shape == "like Gemma 4":
        begin_flat(model)
    examples = corpus.examples(tokenizer, *texts)
    rows = prompt_batches.packed_rows(
        examples, batch=tiny.ROWS, length=tiny.LENGTH, seed=seed
    )
    optimizer = optimizers.muon(tiny.PEAK, warmup=tiny.WARMUP)
    start = time.process_time()
    Trainer(model, objectives.sft(), optimizer, log=False).fit(rows, steps)
    return model, time.process_time() - start


def begin_flat(model) -> None:
    """Has attention begin as flat as Gemma 3's, which divides its scores by √d.

    Gemma 4 divides them by nothing; its queries' norms begin at 1/√d here.
    """
    flat = dict(nnx.to_flat_state(nnx.state(model)))
    for path, norm in flat.items():
        if path[-1] == "q_norm":
            norm[...] = norm[...] * norm.shape[-1] ** -0.5
    nnx.update(model, nnx.from_flat_state(list(flat.items())))


def held_out(model, tokenizer) -> float:
    """Nats per token of answers that were never trained on, of the corpus's kind."""
    texts = word_problems.generate(400, seed=99, levels=corpus.LEVELS, split="test")
    rows = prompt_batches.packed_rows(
        corpus.examples(tokenizer, texts, [], []),
        batch=tiny.ROWS,
        length=tiny.LENGTH,
        seed=0,
        epochs=1,
    )
    objective, found = nnx.jit(objectives.sft()), []
    for batch in rows:
        loss, _ = objective(model, batch)
        found.append((float(loss), float(batch["loss_mask"][:, 1:].sum())))
    losses, counts = zip(*found, strict=True)
    return float(np.average(losses, weights=counts))


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=[*SHAPES])
    asked = parser.parse_args()
    texts = corpus.texts()
    tokenizer = corpus.make_tokenizer(*texts)
    test = word_problems.generate(
        QUESTIONS, seed=99, levels=corpus.LEVELS, split="test"
    )
    for shape, seed in itertools.product(asked.shapes, asked.seeds):
        model, seconds = trained(shape, seed, tokenizer, texts)
        settings = {"max_tokens": 64, "samples": 0, "buckets": (48,), "log": False}
        report = evaluate(model, tokenizer, test, **settings)
        row = {"shape": shape, "seed": str(seed), "parameters": count_params(model)}
        row |= {"steps": STEPS, "loss": f"{held_out(model, tokenizer):.4f}"}
        row |= {n: f"{getattr(report, n):.4g}" for n in ("greedy", "low", "high")}
        row |= {"n": report.n, "cpu_seconds": f"{seconds:.0f}"}
        print(row, flush=True)
        kept = {(old["shape"], old["seed"]): old for old in tables.read(TABLE)}
        kept[shape, str(seed)] = row
        tables.write(TABLE, [kept[key] for key in sorted(kept)])


if __name__ == "__main__":
    main()
