"""What few bits cost: trained tiny models beside themselves, quantized.

    python -m scripts.quantized_error     some minutes, into data/results/quantized.csv

All read the same held-out problems with their solutions, token by token, and then
answer the problems greedily. `bits` are those of a matrix's number, its scales
included, and `megabytes` the whole model's. `off` is the root of the mean square by
which matrices differ from the exact ones, as a share of theirs. `top1` is the share of
tokens with the same likeliest next token; logits are compared where the solution is,
in the logits' own unit.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.model import lora, quantized, weights
from helpers.tasks.maths import word_problems
from helpers.text import chat
from scripts import tables

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "results"
TABLE = RESULTS / "quantized.csv"
STAGES, N = ("sft", "grpo"), 500
EXACT = "float32"


def read(model, tokenizer, problems):
    """Logits at the solutions' tokens, (tokens, vocabulary), teacher-forced."""
    columns = [[row[name] for row in problems] for name in ("question", "answer")]
    examples = chat.examples_tokens(tokenizer, *columns)
    tokens, mask = (np.zeros((len(examples), 160), np.int32) for _ in range(2))
    for i, (own, learned) in enumerate(examples):
        tokens[i, : len(own)], mask[i, : len(own)] = own, learned
    logits = forward(model, jnp.asarray(tokens))
    return np.asarray(logits)[:, :-1][mask[:, 1:] > 0]


@nnx.jit
def forward(model, tokens):
    """Logits (rows, T, V) of tokens (rows, T), padded with 0 at the end."""
    places = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    real = (tokens > 0).astype(jnp.int32)
    hidden, _ = model(tokens[:, None], places[:, None], real[:, None])
    return model.logits(hidden)[:, 0]


def sizes(model, exact):
    """Bits a number of the matrices, megabytes of the model, and how far it is off."""
    matrices = [getattr(exact.layers, name)[...] for name in lora.ATTENTION + lora.MLP]
    decoded = [model.layers.weight(name) for name in lora.ATTENTION + lora.MLP]
    pairs = list(zip(decoded, matrices, strict=True))
    wrong = sum(float(jnp.square(own - true).sum()) for own, true in pairs)
    held = jax.tree.leaves(nnx.state(model, lora.Quantized)) or matrices
    return {
        "bits": 8 * sum(x.nbytes for x in held) / sum(x.size for x in matrices),
        "megabytes": sum(x.nbytes for x in jax.tree.leaves(nnx.state(model))) / 1e6,
        "off": (wrong / sum(float(jnp.square(x).sum()) for x in matrices)) ** 0.5,
    }


def compare(stage):
    """The rows of one stage, the exact model's first."""
    folder = stages.stage_folder(stage)
    tokenizer, exact = chat.load_tokenizer(folder), weights.load(folder)
    problems = word_problems.generate(N, seed=99, levels=(3,), split="test")
    exact_TV = read(exact, tokenizer, problems[:100])
    for kind in (EXACT, *quantized.KINDS):
        model = exact if kind == EXACT else lora.quantize(exact, kind)
        logits_TV = read(model, tokenizer, problems[:100])
        gap = np.abs(logits_TV - exact_TV)
        same = logits_TV.argmax(axis=-1) == exact_TV.argmax(axis=-1)
        limits = {"max_tokens": 64, "samples": 0, "buckets": (48,)}
        report = evaluate(model, tokenizer, problems, **limits)
        yield {
            "stage": stage,
            "stored": kind,
            **sizes(model, exact),
            "tokens": len(gap),
            "mean_gap": float(gap.mean()),
            "largest_gap": float(gap.max()),
            "top1": float(same.mean()),
            "greedy": report.greedy,
            "low": report.low,
            "high": report.high,
            "n": N,
        }


def main():
    """Compares all stages and writes the table."""
    rows = [row for stage in STAGES for row in compare(stage)]
    for row in rows:
        print(row)
        row |= {k: f"{v:.4g}" for k, v in row.items() if isinstance(v, float)}
    tables.write(TABLE, rows)


if __name__ == "__main__":
    main()
