"""What worked solutions buy, and what answers alone buy: `make ladder`.

    python -m scripts.ladder [maths|food] [--seeds 0 1 2]

Writes data/results/ladder.csv, one row for each run that is not there yet, and
ladder_steps.csv, where SFT stops after a fixed number of steps. A seed decides which
problems are drawn, the order of the data, and every sampling key.

Methods:

- sft: supervised fine-tuning on N worked solutions, until the held-out loss (maths) or
  score (food) has not improved for 32 steps. The best weights are kept.
- grpo: GRPO from there, on questions with final answers only. grpo_long: twice as
  many steps, on the same questions.
- rft1, rft3: from there, one or three rounds of rejection sampling. The model samples
  eight answers to each of GRPO's questions, and the base model is fine-tuned on at most
  four different right ones of each.

`cpu_seconds` counts training, sampling, and the looks that decide when to stop. It does
not count the final evaluation, or the SFT that GRPO and rejection sampling start from.
"""

import argparse
import os
import pathlib
import time

import numpy as np
from flax import nnx

from helpers import batches, recipes, runtime
from helpers.course.stages import stage_folder
from helpers.evaluation import evaluate, evaluate_food, wilson
from helpers.evaluation.answers import generate_answers
from helpers.generation import Rollouts, ToolUse
from helpers.generation.sampling import Dialogue
from helpers.model import weights
from helpers.rewards import RewardSet, correct, food_rewards, format_reward
from helpers.tasks import food_pictures, food_traces, word_problems
from helpers.text import chat
from helpers.tools import TINY, nutrition
from helpers.training import Trainer, objectives, optimizers
from scripts import tables

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "results"
LADDER, FIXED = RESULTS / "ladder.csv", RESULTS / "ladder_steps.csv"
KEY = ("world", "demonstrations", "careless", "method", "seed")
FIELDS = (*KEY, "greedy", "low", "high", "names_kept", "n", "cpu_seconds")
LOOK_EVERY, PATIENCE, FIXED_STEPS = 8, 32, 64

# (demonstrations, share of them that only state the answer): methods
MATHS = {
    (16, 0.0): ("sft", "grpo", "grpo_long", "rft1", "rft3"),
    (32, 0.0): ("sft", "grpo"),
    (64, 0.0): ("sft",),
    (90, 0.0): ("sft", "grpo"),
    (240, 0.0): ("sft", "grpo"),
    (700, 0.0): ("sft",),
    (1_536, 0.0): ("sft",),
    (32, 0.36): ("sft", "grpo"),
    (90, 0.36): ("sft",),
    (240, 0.36): ("sft", "grpo"),
    (700, 0.36): ("sft",),
}
FOOD = {
    (20, 0.0): ("sft", "grpo"),
    (100, 0.0): ("sft",),
    (500, 0.0): ("sft",),
}


class Maths:
    """Three-step word problems, answered with or without the work."""

    name, most = "maths", 200

    def __init__(self, seed: int):
        self.seed, self.folder = seed, stage_folder("base")
        self.sizes = recipes.PRESETS["laptop"]
        self.tokenizer = chat.load_tokenizer(self.folder)
        self.test = word_problems.generate(500, seed=99, levels=(3,), split="test")
        self.questions = self._problems(1_536, 11)

    def _problems(self, count, first):
        return word_problems.generate(count, seed=first + 100 * self.seed, levels=(3,))

    def _packed(self, rows, batch):
        """Packed rows of (question, answer) pairs."""
        examples = chat.examples_tokens(self.tokenizer, *zip(*rows, strict=True))
        return batches.packed_rows(examples, batch=batch, length=256, seed=self.seed)

    def demonstrations(self, count, careless, first=7):
        """(question, response) pairs, `careless` of them without the work."""
        rows = word_problems.demonstrations(
            self._problems(count, first), answer_only=careless, seed=self.seed
        )
        return [(row["question"], row["response"]) for row in rows]

    def load(self, folder):
        """A model of this world."""
        return weights.load(folder)

    def batches(self, rows):
        """Packed rows for SFT."""
        return self._packed(rows, 8)

    def optimizer(self, count):
        """SFT's, at a constant rate."""
        return optimizers.adamw(1e-3, warmup=5)

    def looker(self, careless):
        """A function of a model: its loss on 48 rows of other demonstrations."""
        held = next(self._packed(self.demonstrations(300, careless, first=8), 48))
        objective = objectives.sft()
        loss = nnx.jit(lambda model, batch: objective(model, batch)[0])
        return lambda model: float(loss(model, held))

    def rollouts(self, model):
        """Groups of answers to questions, scored by their final answers."""
        shape = {"batch": self.sizes.prompts, "buckets": (self.sizes.prompt_tokens,)}
        prompts = batches.prompts(
            self.questions, self.tokenizer, seed=self.seed, **shape
        )
        reward = RewardSet({correct: 1.0, format_reward: 0.1})
        settings = {
            "group": self.sizes.group,
            "max_tokens": self.sizes.completion_tokens,
        }
        return Rollouts(model, prompts, reward, self.tokenizer, **settings)

    def right_answers(self, model, seed):
        """At most four different right answers to each question, as pairs."""
        answers = generate_answers(
            model,
            self.tokenizer,
            self.questions,
            Dialogue(),
            max_tokens=self.sizes.completion_tokens,
            buckets=(self.sizes.prompt_tokens,),
            batch=128,
            seed=seed,
            log=False,
        )
        pairs = []
        for row, (_, sampled) in zip(self.questions, answers, strict=True):
            texts = list(dict.fromkeys(x.text for x in sampled if x.ended))
            golds = [row["answer"]] * len(texts)
            marks = zip(
                correct([], texts, answer=golds),
                format_reward([], texts),
                texts,
                strict=True,
            )
            right = [text for mark, form, text in marks if mark == form == 1]
            pairs += [(row["question"], text) for text in right[:4]]
        return pairs

    def evaluate(self, model):
        """The report on 500 test problems."""
        shape = {
            "max_tokens": self.sizes.completion_tokens,
            "buckets": (self.sizes.prompt_tokens,),
        }
        return evaluate(
            model, self.tokenizer, self.test, samples=0, batch=500, log=False, **shape
        )


class Food:
    """Questions about drawn plates, answered after a call of the nutrition tool."""

    name, most = "food", 160

    def __init__(self, seed: int):
        self.seed, self.folder = seed, stage_folder("food_base")
        self.sizes = recipes.FOOD["laptop"]
        self.tokenizer = chat.load_tokenizer(self.folder)
        self.tools = ToolUse(TINY, [nutrition.TOOL], turns=3, max_result_tokens=20)
        self.test = self._ask(360, 7, "test")
        self.vision = self.load(self.folder).config.vision

    def _ask(self, count, seed, split="train"):
        drawn = food_pictures.generate(count, seed=seed, split=split, no_food=0.15)
        return food_traces.ask(drawn, seed=seed)

    def demonstrations(self, count, careless):
        """Rows whose conversations are to be imitated."""
        return self._ask(count, 1000 + self.seed)

    def load(self, folder):
        """A model of this world. It is so small that keeping everything is faster."""
        model = weights.load(folder, vision=True)
        model.remat = "none"
        return model

    def batches(self, rows):
        """Packed rows for SFT, with their pictures."""
        examples = [
            chat.conversation_tokens(
                self.tokenizer, food_traces.demonstration(row), vision=self.vision
            )
            for row in rows
        ]
        return batches.packed_rows(
            examples,
            batch=16,
            length=144,
            seed=self.seed,
            pictures=lambda index: food_traces.pictures(rows[index]),
            vision=self.vision,
            slots=3,
        )

    def optimizer(self, count):
        """SFT's, at a constant rate: lower where there is little to learn from."""
        rate = self.sizes.sft.rate * (1 if count < 100 else 2)
        return optimizers.muon(rate, warmup=4)

    def looker(self, careless):
        """A function of a model: its share of wrong answers on 150 other pictures."""
        other = self._ask(150, 3000 + self.seed)
        return lambda model: 1 - self._evaluate(model, other).greedy

    def rollouts(self, model):
        """Groups of conversations, with the tool in the loop."""
        rows = self._ask(self.sizes.prompts * self.sizes.rl.steps, 2000 + self.seed)
        prompts = batches.prompts(
            rows,
            self.tokenizer,
            batch=self.sizes.prompts,
            buckets=(self.sizes.prompt_tokens,),
            seed=self.seed,
            pictures=food_traces.pictures,
            vision=self.vision,
        )
        settings = {"group": self.sizes.group, "max_tokens": 16}
        settings |= {"environment": self.tools, "seed": self.seed}
        reward = food_rewards.WEIGHTS
        return Rollouts(model, prompts, reward, self.tokenizer, **settings)

    def _evaluate(self, model, rows):
        shape = {"max_tokens": 16, "pictures": food_traces.pictures, "buckets": (40,)}
        return evaluate_food(
            model, self.tokenizer, rows, self.tools, samples=0, log=False, **shape
        )

    def evaluate(self, model):
        """The report on 360 pictures of the test split."""
        return self._evaluate(model, self.test)


def fine_tune(world, rows, look):
    """SFT from the base model: the best one, and the one after a fixed number of steps.

    Returns:
      ({"best": model, "fixed": model}, CPU-seconds until the stop).
    """
    began, spent = time.process_time(), None
    model, source = world.load(world.folder), world.batches(rows)
    trainer = Trainer(model, objectives.sft(), world.optimizer(len(rows)), log=False)
    lowest, best, kept = np.inf, 0, {}
    for step in range(LOOK_EVERY, world.most + 1, LOOK_EVERY):
        trainer.fit(source, step)
        if spent is None:
            loss = look(model)
            if loss < lowest:
                lowest, best, kept["best"] = loss, step, nnx.clone(model)
            if step - best >= PATIENCE or step == world.most:
                spent = time.process_time() - began
        if step == FIXED_STEPS:
            kept["fixed"] = nnx.clone(model)
        if spent is not None and step >= FIXED_STEPS:
            break
    print(
        f"  SFT on {len(rows)}: best after {best} steps, {spent:.0f} CPU-s", flush=True
    )
    return kept, spent


def reinforce(world, model, times=1):
    """GRPO of the model in place; returns CPU-seconds."""
    began = time.process_time()
    steps, rate = world.sizes.rl
    final, warmup = (0.3, 3) if world.name == "maths" else (0.2, 2)
    optimizer = optimizers.adamw(rate, steps=times * steps, warmup=warmup, final=final)
    trainer = Trainer(
        model, objectives.policy_gradient(), optimizer, minibatches=4, log=False
    )
    trainer.fit(world.rollouts(model), times * steps)
    return time.process_time() - began


def rejection_sample(world, model, rounds):
    """Rounds of SFT of the base model on the right answers of the last one."""
    look, total = world.looker(0.0), 0.0
    for turn in range(rounds):
        began = time.process_time()
        rows = world.right_answers(model, seed=world.seed + turn)
        total += time.process_time() - began
        kept, spent = fine_tune(world, rows, look)
        model, total = kept["best"], total + spent
    return model, total


def row(world, key, model, spent):
    """A row of the table for a model."""
    report = world.evaluate(model)
    right = round(report.greedy * report.n)
    low, high = wilson(right, report.n)
    names = getattr(report, "names_kept", None)
    measured = dict(zip(KEY, key, strict=True)) | {
        "greedy": round(report.greedy, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "names_kept": "" if names is None else round(names, 4),
        "n": report.n,
        "cpu_seconds": round(spent, 1),
    }
    print(measured, flush=True)
    return measured


def run(world, count, careless, methods):
    """Measures what the table lacks of some demonstrations."""
    key = {m: (world.name, count, careless, m, world.seed) for m in methods}
    missing = [
        m
        for m in methods
        if not tables.has(LADDER, **dict(zip(KEY, key[m], strict=True)))
    ]
    if not missing:
        return
    folder = runtime.build_folder() / "ladder" / "-".join(map(str, key["sft"]))
    if "sft" in missing or not folder.exists():
        rows = world.demonstrations(count, careless)
        kept, spent = fine_tune(world, rows, world.looker(careless))
        weights.save(kept["best"], folder, world.tokenizer)
        tables.put(LADDER, [row(world, key["sft"], kept["best"], spent)], KEY, FIELDS)
        fixed = row(world, key["sft"], kept["fixed"], spent)
        fixed = {n: v for n, v in fixed.items() if n not in ("method", "cpu_seconds")}
        fixed_key = tuple(name for name in KEY if name != "method")
        tables.put(FIXED, [fixed | {"steps": FIXED_STEPS}], fixed_key)
    for method in missing:
        if method == "sft":
            continue
        model = world.load(folder)
        if method.startswith("grpo"):
            spent = reinforce(world, model, 2 if method == "grpo_long" else 1)
        else:
            model, spent = rejection_sample(world, model, int(method[-1]))
        tables.put(LADDER, [row(world, key[method], model, spent)], KEY, FIELDS)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    worlds = {"maths": (Maths, MATHS), "food": (Food, FOOD)}
    parser.add_argument("worlds", nargs="*", default=[*worlds], help="maths, food")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args()
    os.nice(19)
    for seed in arguments.seeds:
        for name in arguments.worlds:
            world, table = worlds[name]
            made = world(seed)
            for (count, careless), methods in table.items():
                run(made, count, careless, methods)


if __name__ == "__main__":
    main()
