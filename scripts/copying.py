"""A real model on this machine, drafting by prompt lookup, into speculative.csv.

    python -m scripts.copying     five minutes of two cores

SmolLM2-135M-Instruct answers one question at a time, greedily: eight that ask for a
text to be written again, and four that ask for a story. Seconds are the clock's, so
let nothing else run; with and without a drafter in turn, and the answers are equal.
"""

import os
import time

import jax
import numpy as np

from helpers.batches import prompt_batches
from helpers.generation import sampling
from helpers.model import hub, weights
from helpers.serving import speculative
from helpers.serving.drafters import PromptLookup
from helpers.text import chat
from scripts import tables
from scripts.speculative import FIELDS, TABLE, read

SMOL = "HuggingFaceTB/SmolLM2-135M-Instruct"
BLOCKS, BUDGET, WIDTH, SEED = (4, 8, 16), 96, 192, 0
THINGS = ("apples", "candles", "pencils", "stamps", "ropes", "lemons", "cups", "maps")
DEEDS = ("sold", "bought", "found", "counted", "painted", "kept", "lost", "sent")
PLACES = ("on Monday", "at the market", "in the garden", "before lunch", "for a friend")
PLACES += ("in a blue box", "with her sister", "near the station")
PEOPLE = ("Ada", "Ben", "Cho", "Dan", "Eve", "Finn", "Gus", "Hana")


def copied() -> list[str]:
    """Questions whose answer repeats the prompt: texts of five sentences."""
    rng, asked = np.random.default_rng(SEED), []
    for _ in range(8):
        rows = zip(
            *(rng.permutation(words)[:5] for words in (PEOPLE, DEEDS, THINGS, PLACES)),
            strict=True,
        )
        text = " ".join(
            f"{who} {did} {rng.integers(2, 90)} {what} {where}."
            for who, did, what, where in rows
        )
        asked.append(f"Repeat this text word for word:\n\n{text}")
    return asked


def free() -> list[str]:
    """Questions whose answer does not."""
    return [
        f"Tell me a story about {who}, who likes {what}."
        for who, what in zip(PEOPLE[:4], THINGS[:4], strict=True)
    ]


def ask(work, prompts, mask, keys):
    """(results, seconds) of a way to answer, one question after the other."""
    found, start = [], time.perf_counter()
    for i in range(len(prompts)):
        part = slice(i, i + 1)
        found.append(work(prompts[part], mask[part], keys[part]))
        jax.block_until_ready(found[-1])
    return found, time.perf_counter() - start


def measure(model, tokenizer, questions, block) -> dict:
    """A row's figures: drafted beside plain."""
    ids = chat.prompts_tokens(tokenizer, questions)
    prompts, mask = prompt_batches.pad_prompts(ids, (WIDTH,))
    keys = sampling.row_keys(jax.random.key(SEED), 0, len(ids), 1)
    settings = {"max_tokens": BUDGET, "eos_ids": chat.eos_ids(tokenizer)}
    settings |= {"temperature": 0.0}
    drafter = PromptLookup(block)
    ways = {
        "seconds": lambda *rows: speculative.generate(
            model, drafter, *rows, **settings
        ),
        "plain_seconds": lambda *rows: sampling.generate(model, *rows, **settings),
    }
    found, row = {}, {}
    for name, work in ways.items():
        ask(work, prompts[:1], mask[:1], keys[:1])  # compiles
        found[name], row[name] = ask(work, prompts, mask, keys)
    drafted = [x.completions for x in found["seconds"]]
    for one, other in zip(drafted, found["plain_seconds"], strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
    passes = sum(int(x.passes.sum()) for x in found["seconds"])
    kept = sum(int(x.kept.sum()) for x in found["seconds"])
    tokens = sum(int(x.mask.sum()) for x in drafted) - len(ids)
    print(repr(chat.decode(tokenizer, np.asarray(drafted[0].tokens)[0, 0])))
    row |= {"accepted_per_pass": tokens / passes, "n": len(ids)}
    return row | {"acceptance": kept / (passes * block)}


def main():
    """Measures both kinds of questions, and puts them after the tiny model's rows."""
    folder = hub.fetch(SMOL)
    model, tokenizer = weights.load(folder), chat.load_tokenizer(folder)
    rows = []
    for kind, questions in {"copying": copied(), "free": free()}.items():
        for block in BLOCKS:
            row = {"target": SMOL.split("/")[1], "drafter": f"prompt lookup, {kind}"}
            row |= {"block": block, "temperature": 0.0, "at_once": 1, "seed": SEED}
            row |= {"train_seconds": 0.0} | measure(model, tokenizer, questions, block)
            row |= {"load": os.getloadavg()[0]}
            rows.append(
                {k: round(x, 4) if type(x) is float else x for k, x in row.items()}
            )
            print(rows[-1], flush=True)
    kept = [row for row in read() if row["target"] == "grpo"]
    tables.write(TABLE, [*kept, *rows], FIELDS)


if __name__ == "__main__":
    main()
