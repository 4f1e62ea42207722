"""The challenges of the food notebooks."""

from helpers.course.stages import stage_folder
from helpers.evaluation import tool_evaluate
from helpers.exercises import challenge
from helpers.generation.tool_use import ToolUse
from helpers.model import weights
from helpers.rewards import RewardSet, food_rewards
from helpers.tasks.food import food_pictures, food_traces
from helpers.text import chat
from helpers.tools import nutrition

PICTURES = 360  # held out, of the checker's own
QUESTIONS = 1_024  # to learn from, without answers


def food_sft(attempt, seed: int = 0, *, to_beat=0.55, budget=20) -> challenge.Outcome:
    """Notebook 09: `attempt(model, tokenizer, traces)` returns a model.

    `traces.take(n)` gives rows of `food_traces.ask`, each a demonstration.
    """
    meter = challenge.Meter(budget, "demonstrations")
    traces = challenge.Rows(_pictures(budget, 1000 + seed), meter)
    folder = stage_folder("food_base")
    tokenizer = chat.load_tokenizer(folder)
    return challenge.judged(
        lambda model: attempt(model, tokenizer, traces),
        _start(folder),
        _food(tokenizer),
        meter,
        to_beat,
        copies=("food_grpo",),
    )


def food_grpo(
    attempt, seed: int = 0, *, to_beat=0.77, budget=2_048
) -> challenge.Outcome:
    """Notebook 10: `attempt(model, tokenizer, questions, reward)` returns a model.

    The questions come with their picture and its number, and without what it shows. The
    reward knows that by the number, pays the sum of the lesson's nine parts, and counts
    each conversation that it scores.
    """
    meter = challenge.Meter(budget, "scored conversations")
    rows = _pictures(QUESTIONS, 3000 + 100 * seed)
    parts = RewardSet(food_rewards.WEIGHTS)

    def reward(prompts, completions, number, **columns):
        """The weighted sum of the nine parts; counts what it scores."""
        meter.spend(len(completions))
        portions = [rows[each]["portions"] for each in number]
        return parts(prompts, completions, portions=portions)[0]

    shown = ("question", "text", "image")
    questions = [
        {"number": number} | {name: row[name] for name in shown}
        for number, row in enumerate(rows)
    ]
    folder = stage_folder("food_sft")
    tokenizer = chat.load_tokenizer(folder)
    return challenge.judged(
        lambda model: attempt(model, tokenizer, questions, reward),
        _start(folder),
        _food(tokenizer),
        meter,
        to_beat,
        copies=("food_grpo",),
    )


def _start(folder):
    """Makes fresh copies of a model that sees."""

    def start():
        model = weights.load(folder, vision=True)
        model.remat = "none"  # so small that keeping everything is faster
        return model

    return start


def _food(tokenizer):
    """The share of the held-out pictures about which all of a conversation is right."""
    tools = ToolUse(nutrition.TINY, [nutrition.TOOL], turns=3, max_result_tokens=20)

    def score(model):
        test = _pictures(PICTURES, challenge.HELD_OUT, "test")
        look = {"max_tokens": 16, "pictures": food_traces.pictures, "buckets": (40,)}
        ask = tool_evaluate.evaluate
        return ask(model, tokenizer, test, tools, samples=0, **look).greedy

    return score


def _pictures(count, seed, split="train"):
    """Questions about drawn food as those of notebook 09: one in seven without any."""
    drawn = food_pictures.generate(
        count, seed=seed, split=split, levels=(1,), no_food=0.15
    )
    return food_traces.ask(drawn, seed=seed)
