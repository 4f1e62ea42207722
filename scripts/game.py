"""*Higher or lower* learned by GRPO, with several seeds: `make game`.

    python -m scripts.game [--seeds 0 1 2] [--arms main …]

Writes data/results/game.csv, a row for each tenth step of the main runs, and
game_arms.csv, the last rows of all runs. Runs whose last row is there are skipped.
"""

import argparse
import pathlib

from helpers import runtime
from helpers.course.stages import stage_folder
from helpers.model import weights
from helpers.recipes import game as recipe
from helpers.tasks.games import HigherOrLower
from helpers.text import chat
from scripts import tables

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "results"
CURVES, ARMS = RESULTS / "game.csv", RESULTS / "game_arms.csv"
SAMPLES, LOOK_EVERY = 16, 10


def run(arm, seed):
    """Trains with the settings of an arm; returns the rows of its looks."""
    folder, sizes = stage_folder("game_base"), recipe.ARMS[arm]
    model = weights.load(folder, mesh=runtime.make_mesh())
    tokenizer, model.remat = chat.load_tokenizer(folder), "none"
    source = recipe.rollouts(model, tokenizer, HigherOrLower, sizes, seed)
    looks, table = [], []

    def look(step):
        measured = recipe.measure(model, tokenizer, SAMPLES)
        rounded = {name: round(value, 4) for name, value in measured.items()}
        looks.append({"seed": seed, "step": step, **rounded})
        print(arm, looks[-1], flush=True)

    look(0)
    for settle, begin, steps in (
        (False, 0, sizes.steps),
        (True, sizes.steps, sizes.settle),
    ):
        trainer = recipe.trainer(model, sizes, settle=settle, log=False)
        for step in range(LOOK_EVERY, steps + 1, LOOK_EVERY):
            table += trainer.fit(source, step)[-LOOK_EVERY:]
            look(begin + step)
    entropy = sum(row["entropy"] for row in table[-LOOK_EVERY:]) / LOOK_EVERY
    spent = sum(row["cpu_seconds"] for row in table)
    return looks, {"entropy": round(entropy, 4), "cpu_seconds": round(spent, 1)}


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(recipe.ARMS))
    options = parser.parse_args()
    for arm in options.arms:
        for seed in options.seeds:
            if tables.has(ARMS, arm=arm, seed=seed):
                continue
            looks, training = run(arm, seed)
            if arm == "main":
                tables.put(CURVES, looks, ("seed", "step"))
            last = {"arm": arm, **looks[-1], **training}
            tables.put(ARMS, [last], ("arm", "seed"))


if __name__ == "__main__":
    main()
