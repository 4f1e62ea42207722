"""A tiny Gemma 4 learns to look food up, by its family's own tokens.

    python -m scripts.gemma4_food [--seeds 0 1 2]      about an hour of one core

The food walk of notebooks 09 and 10 with Gemma 4's shape, eye, turns and calls: a model
made like E2B, of 0.4 million parameters, is pretrained on pictures and talk
about them, imitates conversations with the nutrition tool (SFT), and is then rewarded
for its own (GRPO). As in the real model the tool stands in a system turn, and a call,
its result and the answer stand in one turn of the model. Each stage is asked about the
same 360 held-out pictures, into `data/results/gemma4_food.csv`; so is one walk that
imitates as briefly as notebook 09, and fails. Pretraining is done once, and all is kept
in build/gemma4_food: killed and run again, it goes on.
"""

import argparse
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.batches import images, packed_rows, prompts
from helpers.evaluation import evaluate_food
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.model import vision_config
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer
from helpers.model.vision_config import Gemma4VisionConfig
from helpers.recipes.food101 import FORM_GEMMA4
from helpers.recipes.presets import FOOD, Stage
from helpers.rewards import food_rewards
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.text.tokenizer import read_template, train_tokenizer
from helpers.tools import nutrition
from helpers.training import objectives, optimizers
from helpers.training.trainer import Trainer
from scripts import food_corpus, shapes, tables, tiny_food

ROOT = tiny_food.ROOT
TABLE = ROOT / "data" / "results" / "gemma4_food.csv"
WORK = ROOT / "build" / "gemma4_food"
SPECIAL = (
    "<pad> <eos> <bos> <unk> <|turn> <turn|> <|tool> <tool|> <|tool_call> <tool_call|>"
    ' <|tool_response> <tool_response|> <|"|> <|channel> <channel|> <|image> <|image|>'
    " <image|>"
).split()
TEXT = shapes.LIKE_GEMMA4 | {"width": 64, "layers": 4, "heads": 2, "ff": 96}
TOWER = dict(width=64, layers=3, heads=4, kv_heads=4, head_dim=16, ff=128)
TOWER |= dict(patch=8, pool=2, positions=18, budget=9)  # 3 × 3 squares of 16 pixels
GRAMMAR = FORM_GEMMA4.grammar
TOOLS = ToolUse(GRAMMAR, [nutrition.TOOL], turns=2, max_result_tokens=32)
TRACES, QUESTIONS, NO_FOOD = 20, 360, 0.15
TURN = 28  # tokens
BUCKETS = (200,)
RUN = "stage", "imitated", "seed"  # imitated: updates of SFT
PARTS = "valid", "food", "grams", "declined"
LAPTOP = FOOD["laptop"]
# A call of two words takes 21 tokens here and 9 in notebook 09. After that one's 24
# updates half of them are broken, and GRPO, which samples next to none, learns to
# decline all pictures.
IMITATION, TOO_BRIEF = Stage(120, 1e-2), LAPTOP.sft


class SmallEye(Gemma4VisionConfig):
    """A tower whose pictures take fewer tokens than any of Google's."""

    def target(self, height, width):
        """(height, width) in pixels that a picture of this shape is scaled to."""
        return vision_config.scaled_size(height, width, self.side, self.budget)


def written_calls(rows):
    """Whole conversations as the chat template writes them, without special tokens."""
    bare = train_tokenizer(["-"], 300, SPECIAL, read_template("gemma4"))
    texts = []
    for row in food_traces.ask(rows, seed=0):
        said = food_traces.demonstration(row, GRAMMAR)
        text = bare.apply_chat_template(said, tokenize=False, tools=TOOLS.schemas)
        texts.append(re.sub("|".join(map(re.escape, SPECIAL)), "\n", text))
    return texts


def make_tokenizer(rows):
    """The tokenizer of pretraining, with Gemma 4's special tokens and turns."""
    return food_corpus.make_tokenizer(
        rows, 720, written_calls, special=SPECIAL, template=read_template("gemma4")
    )


def new_model(tokenizer):
    """A model with random weights that knows the tokenizer's image tokens."""
    begin, soft, end = tokenizer.convert_tokens_to_ids(
        ["<|image>", "<|image|>", "<image|>"]
    )
    vision = SmallEye(**TOWER, image_token=soft, begin_token=begin, end_token=end)
    config = ModelConfig(vocab_size=len(tokenizer), vision=vision, **TEXT)
    model = Transformer(config, nnx.Rngs(0))
    model.remat = "none"  # so small that keeping all is faster
    shapes.begin_flat(model)
    return model


def whiten(vision, rows):
    """Starts the tower with whitened patches; see `tiny_food.whitened`."""
    white, mean = tiny_food.whitened(rows, vision.config)
    vision.patches[...] = jnp.asarray(white.T, jnp.float32)
    columns, rows = vision.positions[...]
    vision.positions[...] = jnp.stack([columns - mean @ white, rows])


def pretrained(tokenizer):
    """The model that has seen pictures and read of the tool, and its training table."""
    model = new_model(tokenizer)
    named = food_corpus.pictures(food_corpus.NAMED, seed=0)
    talked = food_corpus.pictures(food_corpus.TALKED, seed=1, levels=(1, 1, 1, 2))
    whiten(model.vision, named[: tiny_food.WHITENED])
    see = tokenizer, model.config.vision
    work = WORK / "base"
    table = tiny_food.train(model, "names", *food_corpus.names(*see, named), work=work)
    talks = food_corpus.talk(*see, talked, tools=TOOLS.schemas)
    longer = {"length": 256, "slots": 9}  # what tells of the tool takes 110 tokens
    table += tiny_food.train(model, "talk", *talks, work=work, **longer)
    return model, table


def ask(count, seed, split="train"):
    """Questions about drawn pictures of one food, some without."""
    drawn = food_pictures.generate(
        count, seed=seed, split=split, levels=(1,), no_food=NO_FOOD
    )
    rows = food_traces.ask(drawn, seed=seed)
    return [
        row | {"question": images.shaped(row["question"], [row["image"]])}
        for row in rows
    ]


def seen_by(model):
    """What a batch source is told of pictures."""
    vision = model.config.vision
    return {
        "pictures": lambda row: [images.fit_for(row["image"], vision)],
        "vision": vision,
    }


def imitate(model, tokenizer, seed, sft, folder):
    """SFT on twenty conversations, for as long as the Stage `sft` says."""
    traces = ask(TRACES, 1000 + seed)
    see = seen_by(model)
    examples = [
        chat.conversation_tokens(
            tokenizer,
            food_traces.demonstration(row, GRAMMAR),
            tools=TOOLS.schemas,
            vision=see["vision"],
        )
        for row in traces
    ]
    rows = packed_rows(
        examples,
        batch=16,
        length=2 * max(len(tokens) for tokens, _ in examples),
        seed=seed,
        pictures=lambda index: see["pictures"](traces[index]),
        vision=see["vision"],
        slots=3,
    )
    optimizer = optimizers.muon(sft.rate, steps=sft.steps, warmup=4)
    trainer = Trainer(model, objectives.sft(), optimizer, folder=folder)
    return trainer.fit(rows, sft.steps)


def reward(model, tokenizer, seed, folder):
    """GRPO on its own conversations, with the tool in the loop."""
    steps, rate = LAPTOP.rl
    source = prompts(
        ask(LAPTOP.prompts * steps, 2000 + seed),
        tokenizer,
        batch=LAPTOP.prompts,
        buckets=BUCKETS,
        seed=seed,
        tools=TOOLS.schemas,
        **seen_by(model),
    )
    rollouts = Rollouts(
        model,
        source,
        food_rewards.WEIGHTS,
        tokenizer,
        group=LAPTOP.group,
        max_tokens=TURN,
        seed=seed,
        tools=TOOLS,
    )
    optimizer = optimizers.adamw(rate, steps=steps, warmup=2, final=0.2)
    trainer = Trainer(
        model,
        objectives.policy_gradient(),
        optimizer,
        minibatches=4,
        folder=folder,
        save_every=10,
    )
    return trainer.fit(rollouts, steps)


def measured(model, tokenizer, black=False) -> dict:
    """How many of the held-out questions are answered right, and how they go wrong."""
    rows = ask(QUESTIONS, 7, "test")
    report = evaluate_food(
        model,
        tokenizer,
        food_traces.blanked(rows) if black else rows,
        TOOLS,
        max_tokens=TURN,
        pictures=seen_by(model)["pictures"],
        samples=0,
        batch=QUESTIONS // 2,
        buckets=BUCKETS,
        log=False,
    )
    row = {n: f"{getattr(report, n):.4f}" for n in ("greedy", "low", "high")}
    parts = {name: report.share(name) or 0.0 for name in PARTS}
    return row | {name: f"{value:.4f}" for name, value in parts.items()}


def main():
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    asked = parser.parse_args()
    talked = food_corpus.pictures(4000, seed=1, levels=(1, 1, 1, 2))
    tokenizer = make_tokenizer(talked)
    model, table = pretrained(tokenizer)
    graph, base = nnx.split(model)
    base = jax.tree.map(np.asarray, base)
    ask_all = {"model": model, "tokenizer": tokenizer}
    keep(("base", "0", ""), table, **ask_all)
    runs = [(seed, IMITATION) for seed in asked.seeds] + [(0, TOO_BRIEF)]
    for seed, sft in runs:
        nnx.update(model, jax.tree.map(jnp.asarray, base))
        folder, run = WORK / f"{sft.steps}-{seed}", (str(sft.steps), str(seed))
        table = imitate(model, tokenizer, seed, sft, folder / "sft")
        keep(("sft", *run), table, **ask_all)
        table = reward(model, tokenizer, seed, folder / "grpo")
        keep(("grpo", *run), table, **ask_all)
        keep(("black pictures", *run), [], **ask_all, black=True)


def keep(run, table, **asked):
    """Measures a stage and puts its row in the table.

    Args:
      run: (stage, updates of its SFT, seed). table: of the stage's training.
      asked: for `measured`.
    """
    seconds = sum(step["cpu_seconds"] for step in table)
    row = dict(zip(RUN, run, strict=True)) | {"n": QUESTIONS} | measured(**asked)
    row |= {"cpu_seconds": f"{seconds:.0f}"}
    print(row, flush=True)
    kept = {tuple(old[name] for name in RUN): old for old in tables.read(TABLE)}
    tables.write(TABLE, list((kept | {run: row}).values()))


if __name__ == "__main__":
    main()
