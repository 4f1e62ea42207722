"""What int8 costs: the trained tiny models beside themselves with int8 matrices.

    python -m scripts.int8_error      a minute, into data/results/int8.csv

Both read the same held-out problems with their solutions, token by token, and then
answer the problems greedily. `top1` is the share of tokens with the same likeliest
next token; logits are compared where the solution is, in the logits' own unit.
"""

import csv
import pathlib

import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.course import stages
from helpers.evaluation.evaluator import evaluate
from helpers.model import lora, weights
from helpers.tasks.maths import word_problems
from helpers.text import chat

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "results" / "int8.csv"
STAGES, N = ("sft", "grpo"), 500


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


def compare(stage):
    """The row of one stage."""
    folder = stages.stage_folder(stage)
    tokenizer, exact = chat.load_tokenizer(folder), weights.load(folder)
    small = lora.quantize(exact)
    problems = word_problems.generate(N, seed=99, levels=(3,), split="test")
    large_TV, small_TV = (read(m, tokenizer, problems[:100]) for m in (exact, small))
    gap = np.abs(large_TV - small_TV)
    same = large_TV.argmax(axis=-1) == small_TV.argmax(axis=-1)
    scores = [
        evaluate(m, tokenizer, problems, max_tokens=64, samples=0, buckets=(48,)).greedy
        for m in (exact, small)
    ]
    return {
        "stage": stage,
        "tokens": len(gap),
        "largest_logit": float(np.abs(large_TV).max()),
        "mean_gap": float(gap.mean()),
        "largest_gap": float(gap.max()),
        "top1": float(same.mean()),
        "greedy": scores[0],
        "greedy_int8": scores[1],
        "n": N,
    }


def main():
    """Compares all stages and writes the table."""
    rows = [compare(stage) for stage in STAGES]
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            )
            print(row)


if __name__ == "__main__":
    main()
