"""The challenges of the food notebooks."""

from helpers.course.stages import stage_folder
from helpers.evaluation import tool_evaluate
from helpers.exercises import challenge
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import nutrition

PICTURES = 360  # held out, of the checker's own


def food_sft(attempt, seed: int = 0, *, to_beat=0.55, budget=20) -> challenge.Outcome:
    """Notebook 09: `attempt(model, tokenizer, traces)` returns a model.

    `traces.take(n)` gives rows of `food_traces.ask`, each a demonstration.
    """
    meter = challenge.Meter(budget, "demonstrations")
    folder = stage_folder("food_base")
    tokenizer = chat.load_tokenizer(folder)
    traces = challenge.Rows(_pictures(budget, 1000 + seed), meter)
    tools = ToolUse(nutrition.TINY, [nutrition.TOOL], turns=3, max_result_tokens=20)

    def score(model):
        test = _pictures(PICTURES, challenge.HELD_OUT, "test")
        look = {"max_tokens": 16, "pictures": food_traces.pictures, "buckets": (40,)}
        ask = tool_evaluate.evaluate
        return ask(model, tokenizer, test, tools, samples=0, **look).greedy

    def start():
        model = weights.load(folder, vision=True)
        model.remat = "none"
        return model

    return challenge.judged(
        lambda model: attempt(model, tokenizer, traces),
        start,
        score,
        meter,
        to_beat,
        copies=("food_grpo",),
    )


def _pictures(count, seed, split="train"):
    """Questions about drawn food as those of notebook 09: one in seven without any."""
    drawn = food_pictures.generate(
        count, seed=seed, split=split, levels=(1,), no_food=0.15
    )
    return food_traces.ask(drawn, seed=seed)
