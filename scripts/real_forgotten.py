"""What a real model has forgotten: plain questions, after training on sums.

    python -m scripts.real_forgotten [--seed 0] [--preset laptop-real]

Forty-eight capitals, asked as anyone would, of the model as it comes and of every stage
that `make real` has trained here with a seed. Into `data/results/real_forgotten.csv`:
the share that names the capital, with its 95% interval; the share of answers that end
as a problem of arithmetic does, with `####`; and the loss, in nats a token, on the
answers that the model gave before any training.
"""

import argparse
import json
import os
import pathlib

import jax
from flax import nnx

from helpers import runtime
from helpers.batches import prompt_batches
from helpers.evaluation import score, wilson
from helpers.model.folder import ADAPTERS
from helpers.recipes import maths, presets
from helpers.text import chat
from helpers.training import objectives
from scripts import real, tables

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/results/real_forgotten.csv"
FIELDS = (
    *("model", "stage", "seed", "n", "capitals", "low", "high", "marked"),
    *("loss", "load"),
)
CAPITALS = json.loads("""{
  "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid",
  "Portugal": "Lisbon", "Austria": "Vienna", "Poland": "Warsaw", "Greece": "Athens",
  "Ireland": "Dublin", "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki",
  "Denmark": "Copenhagen", "Hungary": "Budapest", "Romania": "Bucharest",
  "Bulgaria": "Sofia", "Ukraine": "Kyiv", "Russia": "Moscow", "Turkey": "Ankara",
  "Egypt": "Cairo", "Kenya": "Nairobi", "Ghana": "Accra", "Senegal": "Dakar",
  "Morocco": "Rabat", "Ethiopia": "Addis Ababa", "Japan": "Tokyo", "China": "Beijing",
  "India": "New Delhi", "Pakistan": "Islamabad", "Thailand": "Bangkok",
  "Vietnam": "Hanoi", "Indonesia": "Jakarta", "Iran": "Tehran", "Iraq": "Baghdad",
  "Lebanon": "Beirut", "Jordan": "Amman", "Saudi Arabia": "Riyadh", "Canada": "Ottawa",
  "Cuba": "Havana", "Peru": "Lima", "Chile": "Santiago", "Brazil": "Brasilia",
  "Argentina": "Buenos Aires", "Colombia": "Bogota", "Ecuador": "Quito",
  "Uruguay": "Montevideo", "Australia": "Canberra", "New Zealand": "Wellington"
}""")
ROWS = [
    {"question": f"What is the capital of {country}?", "answer": capital}
    for country, capital in CAPITALS.items()
]
ACCENTS = str.maketrans("áéíóúãç", "aeiouac")
BATCHES, ROWS_AT_ONCE, LENGTH = 4, 4, 256  # of the loss


def names_it(prompts, completions, answer, **columns):
    """1.0 where the capital is named, else 0.0; accents do not matter."""
    pairs = zip(answer, completions, strict=True)
    return [float(a.lower() in text.lower().translate(ACCENTS)) for a, text in pairs]


def loss(there, answers) -> float:
    """Nats a token on answers that were given before, in a few packed rows."""
    questions = [row["question"] for row in ROWS]
    examples = chat.examples_tokens(there.tokenizer, questions, answers)
    source = prompt_batches.packed_rows(
        examples, batch=ROWS_AT_ONCE, length=LENGTH, seed=0
    )
    loss_of = nnx.jit(lambda model, batch: objectives.sft()(model, batch)[0])
    found = [float(loss_of(there.policy, next(source))) for _ in range(BATCHES)]
    return sum(found) / len(found)


def trained(preset) -> list[str]:
    """The stages that have kept adapters in the build folder."""
    folders = [stage.adapters for stage in real.STAGES.values()]
    return [
        stage
        for stage in dict.fromkeys(folders)
        if (runtime.model_folder(f"{stage}_{preset.name}") / ADAPTERS).is_file()
    ]


def asked(there, stage: str, before: list[str] | None) -> tuple[dict, list[str]]:
    """A row of the table, and the answers; `before` are those of the base."""
    found = score(there.policy, there.tokenizer, ROWS, names_it, max_tokens=32)
    said = found.column("completion")
    right = round(found.mean * found.n)
    low, high = wilson(right, found.n)
    row = {
        "model": there.preset.model.split("/")[-1],
        "stage": stage,
        "n": found.n,
        "capitals": round(right / found.n, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "marked": round(sum("####" in text for text in said) / found.n, 4),
        "loss": round(loss(there, before or said), 4),
        "load": round(os.getloadavg()[0], 1),
    }
    return row, said


def main():
    """Asks the stages in order, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--preset", default="laptop-real")
    given = parser.parse_args()
    preset = presets.preset(given.preset)
    os.environ["COURSE_BUILD"] = str(real.WORK / str(given.seed))
    fresh = maths.recipe(preset)
    before, rows = None, []
    for stage in ["base", *trained(preset)]:
        there = fresh if stage == "base" else fresh.start(stage)
        row, said = asked(there, stage, before)
        before = before or said
        rows.append(row | {"seed": given.seed})
        print(rows[-1], "\n ", said[0], flush=True)
        jax.clear_caches()
    own = rows[0]["model"], str(given.seed)
    others = [row for row in tables.read(TABLE) if (row["model"], row["seed"]) != own]
    tables.write(TABLE, [*others, *rows], FIELDS)


if __name__ == "__main__":
    main()
