"""The food lessons end to end, with a seed: SFT on traces, GRPO with the tool, figures.

    python -m scripts.food_walk --seed 0
    python -m scripts.food_walk --seed 0 --careless

Notebooks 09 and 10 do the same, step by step. With `--careless` GRPO is paid for tidy
calls and tidy answers, and for nothing that asks whether they are right.
"""

import argparse
import time

from helpers import (
    chat,
    food_rewards,
    food_traces,
    lessons,
    optimizers,
    pipeline,
    results,
    runtime,
    tool_evaluate,
)
from helpers.model import weights
from helpers.model.transformer import count_params
from helpers.rollouts import Rollouts
from helpers.tasks import food_pictures, nutrition
from helpers.tool_calls import TINY
from helpers.tool_use import ToolUse
from helpers.trainer import Trainer

TRACES, SFT_STEPS = 20, 24
PROMPTS, GROUP, GRPO_STEPS, RATE = 32, 8, 80, 5e-4
BUDGET, BUCKETS, NO_FOOD = 16, (40,), 0.15

# Plausible: calls that can be run, numbers that are not invented, the right form.
CARELESS = {
    food_rewards.well_formed: 1.0,
    food_rewards.tools_numbers: 0.5,
    food_rewards.final_format: 0.5,
}


def tools():
    """The nutrition tool, in two calls at most."""
    return ToolUse(TINY, nutrition.run_tool, turns=3, heard=20)


def rows(count, *, seed, split="train", levels=(1,)):
    """Questions about `count` drawn pictures, one in seven without food."""
    drawn = food_pictures.generate(
        count, seed=seed, split=split, levels=levels, no_food=NO_FOOD
    )
    return food_traces.ask(drawn, seed=seed)


def sft(model, tokenizer, seed, steps=SFT_STEPS):
    """Imitates a few right conversations; returns the training table."""
    shown = rows(TRACES, seed=1000 + seed)
    vision = model.config.vision
    examples = [
        chat.conversation_tokens(
            tokenizer, food_traces.demonstration(row), vision=vision
        )
        for row in shown
    ]
    batches = pipeline.packed_rows(
        examples,
        batch=16,
        length=144,
        seed=seed,
        pictures=lambda index: food_traces.pictures(shown[index]),
        vision=vision,
        slots=3,
    )
    optimizer = optimizers.muon(2e-2, steps=steps, warmup=4)
    return Trainer(model, lessons.sft(), optimizer).fit(batches, steps)


def grpo(model, tokenizer, seed, steps=GRPO_STEPS, rewards=food_rewards.WEIGHTS):
    """Learns from its own conversations with the tool; returns the table."""
    prompts = pipeline.prompts(
        rows(4000, seed=2000 + seed),
        tokenizer,
        batch=PROMPTS,
        buckets=BUCKETS,
        seed=seed,
        pictures=food_traces.pictures,
        vision=model.config.vision,
    )
    rollouts = Rollouts(
        model,
        prompts,
        rewards,
        tokenizer,
        group=GROUP,
        max_tokens=BUDGET,
        seed=seed,
        tools=tools(),
    )
    optimizer = optimizers.adamw(RATE, steps=steps, warmup=2, final=0.2)
    objective = lessons.policy_gradient()
    return Trainer(model, objective, optimizer, minibatches=4).fit(rollouts, steps)


def measure(model, tokenizer, test, samples=8):
    """A ToolReport on held-out pictures."""
    return tool_evaluate.evaluate(
        model,
        tokenizer,
        test,
        tools(),
        max_tokens=BUDGET,
        pictures=food_traces.pictures,
        samples=samples,
        buckets=BUCKETS,
    )


def record(stage, seed, seconds, model, tokenizer, test):
    """Prints and records the figures of a stage."""
    report = measure(model, tokenizer, test)
    print(f"{stage}: {report}, {seconds:.0f} s", flush=True)
    sizes = {"params": count_params(model), "seed": seed, "seconds": seconds}
    results.record(report.row(stage, **sizes))


def main():
    """Runs both stages and records their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, default=360, help="held-out pictures")
    parser.add_argument("--careless", action="store_true", help="pay for form only")
    arguments = parser.parse_args()
    seed, careless = arguments.seed, arguments.careless
    folder = runtime.ROOT / "data" / "tiny" / "food_base"
    tokenizer = chat.load_tokenizer(folder)
    model = weights.load(folder, vision=True)
    model.remat = "none"
    test = rows(arguments.n, seed=7, split="test")
    paid = {"rewards": CARELESS} if careless else {}
    last = "food_careless" if careless else "food_grpo"
    for stage, train, more in (("food_sft", sft, {}), (last, grpo, paid)):
        start = time.monotonic()
        train(model, tokenizer, seed, **more)
        seconds = time.monotonic() - start
        record(stage, seed, seconds, model, tokenizer, test)
        weights.save(model, runtime.model_folder(stage), tokenizer)
    if not careless:
        blank = food_traces.blanked(test)
        record("food_blank", seed, 0.0, model, tokenizer, blank)


if __name__ == "__main__":
    main()
