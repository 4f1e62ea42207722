"""The food recipe on real weights: a Gemma that sees, photos of Food-101.

As `helpers.recipes.maths`, for pictures: on a TPU the last section of the food
notebooks makes its calls with what stands here. The sizes are those of the programs
that were compiled (`scripts/tpu_cases.py`, Gemma4Case and SeeingCase): the tower is
frozen, and Gemma 3's frozen matrices are stored as int8 on one chip.
"""

import dataclasses
import json
import os
import random
from typing import NamedTuple

import jax
from flax import nnx

from helpers import runtime
from helpers.batches import images, prompt_batches
from helpers.evaluation.evaluator import evaluate_food
from helpers.evaluation.report import FoodReport
from helpers.generation.tool_use import ToolUse
from helpers.model import hub, lora, weights
from helpers.recipes import maths
from helpers.rewards import food_rewards
from helpers.runtime.platform import multiply_as_written
from helpers.runtime.sharding import place
from helpers.tasks.food import food101, food_traces
from helpers.text import chat
from helpers.tools import nutrition
from helpers.tools.calls import Grammar
from helpers.tools.grammars import GEMMA3, GEMMA4

RESULT_TOKENS = 64  # of the tokens of an answer, most that tools may take
EACH, HELD_OUT = 24, 6  # photos of a class; every sixth is test
TESTED = 256  # test photos, at most
# The chat template of Gemma 4 tells the model of the tool, Gemma 3's does not.
SPELT = (
    ': write\n```tool_code\nlookup_nutrition(food="pizza", grams=150)\n```\nwith the '
    "right food and grams, and wait for the result. "
)
END = "Then end with a line such as #### 402, the kcal."


def _shown(result, call=None):
    """What the model reads of a result: the kcal, or what went wrong."""
    text = {name: result[name] for name in ("kcal", "error") if name in result}
    return json.dumps(text or result)


class Form(NamedTuple):
    """How a family calls the tool, and what a question says of it."""

    grammar: Grammar
    ask: str


def form_of(config) -> Form:
    """The Form of a model by its ModelConfig."""
    grammar, how = (GEMMA4, ". ") if config.gemma4 else (GEMMA3, SPELT)
    return Form(
        dataclasses.replace(grammar, show=_shown), f"\nFirst look the food up{how}{END}"
    )


class Recipe(maths.Recipe):
    """What a food lesson on real weights needs: a `maths.Recipe` of photos and a tool.

    Its preset is a row of `presets.FOOD`; `completion_tokens` holds two turns and the
    tool's result between them. Rows are those of `food_traces.ask` about photos, which
    are decoded when their batch is made; a question ends by saying how to call the
    tool, unless the chat template does.
    """

    REPORT = FoodReport
    GRADED_BY = (food_rewards.solved,)
    TRAINING = "reward/solved"

    @property
    def turn(self) -> int:
        """Most tokens of one turn of an answer."""
        return (self.preset.completion_tokens - RESULT_TOKENS) // 2

    @property
    def tools(self):
        """The nutrition tool as this model calls it, once."""
        return ToolUse(
            form_of(self.policy.config).grammar,
            [nutrition.TOOL],
            turns=2,
            max_result_tokens=RESULT_TOKENS,
        )

    def pictures(self, row):
        """The photo of a row as the tower takes it, in a list."""
        tower = self.policy.config.vision
        assert tower is not None, "`load` reads the tower too"
        return [images.fit_for(food101.with_image(row, None)["image"], tower)]

    def evaluate(self, n=None):
        """A FoodReport on the first n test photos, greedily; None: on all."""
        return evaluate_food(
            self.policy,
            self.tokenizer,
            self.test[:n],
            self.tools,
            max_tokens=self.turn,
            pictures=self.pictures,
            samples=0,
            batch=max(self.preset.prompts, jax.device_count()),
            buckets=(self.preset.prompt_tokens,),
        )

    def demonstrations(self, seed):
        """Packed rows of right conversations, a batch source for SFT."""
        vision, tools = self.policy.config.vision, self.tools
        examples = [
            chat.conversation_tokens(
                self.tokenizer,
                food_traces.demonstration(row, tools.grammar),
                tools=tools.schemas,
                vision=vision,
            )
            for row in self.train
        ]
        return prompt_batches.packed_rows(
            examples,
            batch=self.preset.prompts,
            length=self.preset.prompt_tokens + self.preset.completion_tokens,
            seed=seed,
            pictures=lambda index: self.pictures(self.train[index]),
            vision=vision,
        )


def load(preset):
    """The preset's model with its tower, over all devices, stored as it says."""
    multiply_as_written(False)
    folder, mesh = hub.fetch(preset.model), runtime.make_mesh()
    if not preset.stored:
        return weights.load(folder, vision=True, mesh=mesh, dtype=preset.dtype)
    # Beside the 8.6 GB of Gemma 3 4B in bfloat16 a chip has no room for their codes.
    host = runtime.make_mesh(jax.local_devices(backend="cpu")[:1])
    large = weights.load(folder, vision=True, mesh=host, dtype=preset.dtype)
    graph, state = nnx.split(lora.quantize(large, preset.stored))
    return nnx.merge(graph, place(state, mesh))


def photos(ask):
    """(train, test) rows of Food-101: some photos of each class, every sixth a test.

    Questions end with `ask` and say the shape of their photo, which Gemma 4 needs. Both
    are of the hub's validation files, a quarter of what passes by for its train files.
    COURSE_FOOD101 may name a folder with them, where there is no network.
    """
    folder = os.environ.get("COURSE_FOOD101")
    rows = food101.load(folder, "validation", per_class=EACH)
    rows = sorted(rows, key=lambda row: row["foods"])  # a folder's may be in any order
    worded = []
    for row in food_traces.ask(rows, seed=0):
        photo = food101.with_image(row, None)["image"]
        question = images.shaped(food_traces.shown(row["text"] + ask), [photo])
        worded.append({**row, "question": question})
    test = worded[::HELD_OUT]
    random.Random(0).shuffle(test)  # sorted by food; looks and evaluations take a part
    return [row for i, row in enumerate(worded) if i % HELD_OUT], test[:TESTED]


def recipe(preset) -> Recipe:
    """Fetches the model and the photos, and says what it has.

    Args:
      preset: a row of `presets.FOOD`; `model` may be a folder.
    Raises:
      helpers.model.hub.ModelUnavailable, ConnectionError: one cannot be had; says what
        to do.
    """
    folder = hub.fetch(preset.model)
    tokenizer = chat.load_tokenizer(folder)
    policy = lora.add(load(preset), preset.lora_rank)
    policy.remat = preset.remat
    train, test = photos(form_of(policy.config).ask)
    print(f"Food-101: {len(train)} photos to learn from, {len(test)} held out")
    print(f"{preset.model}, tower frozen, with adapters of rank {preset.lora_rank}")
    print(preset.disconnect)
    weights_id = weights.fingerprint(folder)
    return Recipe(preset, policy, tokenizer, train, test, weights_id)
