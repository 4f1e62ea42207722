"""What twenty traces cost a model that sees, into `data/results/food_arms.csv`.

    python -m scripts.food_arms    some three CPU-minutes; goes on where stopped

The base model of notebook 09 imitates its traces in four ways: with all weights, with
the tower frozen, at half the rate, and frozen at a quarter of the rate for twice the
updates. Each is asked for the kcal on 360 held-out pictures, and what food it sees.
Notebook 09 runs one seed itself.
"""

import os
import pathlib

from flax import nnx

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.evaluation import evaluate_food
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.recipes import FOOD
from helpers.tasks import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import TINY, nutrition
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "results" / "food_arms.csv"
SEEDS = (0, 1, 2)
STEPS, RATE = FOOD["laptop"].sft
TRACES, PICTURES = 20, 360
NOT_THE_TOWER = nnx.All(nnx.Param, nnx.Not(nnx.PathContains("vision")))
ARMS = {  # which weights are trained, peak rate, updates
    "base": (nnx.Param, RATE, 0),
    "all weights": (nnx.Param, RATE, STEPS),
    "tower frozen": (NOT_THE_TOWER, RATE, STEPS),
    "half the rate": (nnx.Param, RATE / 2, STEPS),
    "frozen, ¼ rate, 2 × steps": (NOT_THE_TOWER, RATE / 4, 2 * STEPS),
}


def run(wrt, rate: float, steps: int, seed: int) -> dict:
    """Trains one model, and says what it names, looks up and gets right.

    Args:
      wrt: which variables are trained, as an nnx filter.
    """
    folder = stages.stage_folder("food_base")
    tokenizer, model = chat.load_tokenizer(folder), weights.load(folder, vision=True)
    model.remat = "none"
    if steps:
        adam = optimizers.muon(rate, steps=steps, warmup=4)
        trainer = Trainer(model, objectives.sft(), adam, wrt=wrt, log=False)
        trainer.fit(_demonstrations(tokenizer, model.config.vision, seed), steps)
    test = _asked(PICTURES, 7, "test")
    told = _answers(model, tokenizer, test)
    plain = food_traces.shown("What food is this?")
    said = _answers(model, tokenizer, [row | {"question": plain} for row in test])
    food = [i for i, row in enumerate(test) if row["foods"]]
    named = [
        said.answers[i]["text"].removeprefix("assistant: ")
        == " ".join(test[i]["foods"]).replace("_", " ")
        for i in food
    ]
    return {
        "right": round(told.greedy, 4),
        "n": told.n,
        "names": round(sum(named) / len(food), 4),
        "looks_up": round(
            sum(told.answers[i]["food"] == 1 for i in food) / len(food), 4
        ),
        "right_of_food": round(
            sum(told.answers[i]["strict"] for i in food) / len(food), 4
        ),
        "n_food": len(food),
        "load": round(os.getloadavg()[0], 1),
    }


def _asked(count, seed, split):
    """Questions about drawn pictures of one food, one in seven without."""
    drawn = food_pictures.generate(
        count, seed=seed, split=split, levels=(1,), no_food=0.15
    )
    return food_traces.ask(drawn, seed=seed)


def _demonstrations(tokenizer, vision, seed):
    """Packed rows of the traces, each with its pictures, again and again."""
    traces = _asked(TRACES, 1000 + seed, "train")
    examples = [
        chat.conversation_tokens(
            tokenizer, food_traces.demonstration(row), vision=vision
        )
        for row in traces
    ]
    return prompt_batches.packed_rows(
        examples,
        batch=16,
        length=144,
        seed=seed,
        pictures=lambda index: food_traces.pictures(traces[index]),
        vision=vision,
        slots=3,
    )


def _answers(model, tokenizer, rows):
    """Greedy conversations about all of these pictures at once."""
    return evaluate_food(
        model,
        tokenizer,
        rows,
        ToolUse(TINY, [nutrition.TOOL], turns=3, max_result_tokens=20),
        max_tokens=16,
        pictures=food_traces.pictures,
        samples=0,
        batch=len(rows),
        buckets=(40,),
    )


def main():
    """Runs what the table has not yet, and writes each row as it comes."""
    done = tables.read(TABLE)
    had = {(row["arm"], int(row["seed"])) for row in done}
    for seed in SEEDS:
        for arm, settings in ARMS.items():
            if (arm, seed) not in had and (seed == SEEDS[0] or arm != "base"):
                done.append({"arm": arm, "seed": seed} | run(*settings, seed))
                tables.write(TABLE, done)
                print(done[-1], flush=True)


if __name__ == "__main__":
    main()
