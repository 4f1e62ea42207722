"""This course's side of `real_peers.py`: `Trainer` and `Rollouts` on a real model.

    python tests/bench/real_ours.py WORK STAGE SEED

The calls are those of the last sections of notebooks 04 and 07, in the pieces of the
preset laptop-real, of which the backward pass keeps all it needs (`remat = "none"`).
"""

import os
import random
import sys

import real_case

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")
TRAIN = 4000  # generated problems that the rows of all stages are drawn from
CHUNK = 1024  # tokens whose logits exist at once, as in the preset laptop-real
CHECKED = 4  # questions of `check`


class Steps:
    """A batch source that gives one batch after the other, as they stand in a file.

    Args:
      batches: an iterable of batches.
    """

    def __init__(self, batches):
        self.batches, self.metrics, self.samples = iter(batches), {}, []

    def __next__(self):
        return next(self.batches)


def prepare(place, seed):
    """Writes what both libraries read, and the adapters that both begin SFT with.

    The file holds the folder of the model, its longest example and prompt, the learning
    rate of every step, and for each step of a stage its rows: question, answer, the
    prompt's ids and, for SFT, the ids of the whole example and which are learned.
    """
    from helpers.model import hub, lora
    from helpers.tasks.maths import word_problems
    from helpers.text import chat
    from helpers.training import optimizers

    case = place.case()
    folder = hub.fetch(case.model)
    tokenizer = chat.load_tokenizer(folder)
    levels = tuple(map(int, case.levels))
    train = word_problems.generate(TRAIN, seed=1, levels=levels)
    found = {"model": str(folder), "rates": {}}
    for stage, size in (("sft", case.sft_rows), ("grpo", case.prompts)):
        steps = getattr(case, f"{stage}_steps")
        rate, warmup = (getattr(case, f"{stage}_{x}") for x in ("rate", "warmup"))
        curve = optimizers.adamw(rate, steps=steps, warmup=warmup).learning_rate
        found["rates"][stage] = [curve(step) for step in range(steps)]
        drawn = random.Random(f"{stage} {seed}").sample(train, steps * size)
        rows = [row_of(tokenizer, row) for row in drawn]
        found[stage] = [rows[i : i + size] for i in range(0, len(rows), size)]
    every = [row for stage in ("sft", "grpo") for step in found[stage] for row in step]
    for name in ("prompt", "tokens"):
        found[f"longest_{name}"] = max(len(row[name]) for row in every)
    policy = lora.add(base(place, folder), case.rank, seed=seed)
    lora.save(policy, place.fresh(seed), base=case.model)
    real_case.write(place.rows(seed), found)


def row_of(tokenizer, row):
    """A generated problem with its token ids."""
    from helpers.text import chat

    tokens, mask = chat.example_tokens(tokenizer, row["question"], row["answer"])
    prompt = chat.prompt_tokens(tokenizer, row["question"])
    kept = {name: row[name] for name in ("question", "answer")}
    return kept | {"prompt": prompt, "tokens": tokens, "mask": mask}


def base(place, folder):
    """The model, over all devices; what flows between its weights is float32."""
    from helpers import runtime
    from helpers.model import weights

    numbers = {"dtype": place.case().numbers, "activations": "float32"}
    return weights.load(folder, mesh=runtime.make_mesh(), **numbers)


def adapted(place, folder, adapters):
    """The model with the adapters of a PEFT folder."""
    from helpers.model import lora

    policy = lora.load(base(place, folder), adapters)
    policy.remat = place.case().remat
    return policy


def fit(place, stage, policy, objective, source, steps, pieces=None):
    """Trains the adapters; (the metrics of every step, seconds of all).

    Args:
      pieces: of an update; None: those of the recipe.
    """
    from helpers.model import lora
    from helpers.training import Trainer, optimizers

    case = place.case()
    optimizer = optimizers.adamw(
        getattr(case, f"{stage}_rate"),
        steps=getattr(case, f"{stage}_steps"),
        warmup=getattr(case, f"{stage}_warmup"),
    )
    pieces = pieces or getattr(case, f"own_{stage}_pieces")
    trainer = Trainer(policy, objective, optimizer, accumulate=pieces, wrt=lora.Adapter)
    with real_case.Stopwatch() as watch:
        table = trainer.fit(source, steps)
    return table, watch.seconds


def keep(place, stage, seed, policy, fitted):
    """Saves the adapters of a run, and then its figures."""
    from helpers.model import lora

    table, seconds = fitted
    names = ["loss", "grad_norm", "learning_rate", "tokens", "seconds", "cpu_seconds"]
    rows = [{name: row[name] for name in names} for row in table]
    for row, found in zip(rows, table, strict=True):
        if stage == "grpo":
            row |= {"right": found["reward/correct"], "cut": found["truncated"]}
    adapters = place.adapters("ours", stage, seed)
    lora.save(policy, adapters, base=place.case().model)
    real_case.report(place.result("ours", stage, seed), rows, seconds, PACKAGES)


def sft(place, seed):
    """SFT on the rows of the file, each example in a row of its own."""
    from helpers.batches import packed_rows
    from helpers.training import objectives

    case, found = place.case(), real_case.read(place.rows(seed))

    def batch(rows):
        examples = [(row["tokens"], row["mask"]) for row in rows]
        size = {"batch": len(rows), "length": found["longest_tokens"]}
        return next(packed_rows(examples, seed=0, epochs=1, **size))

    policy = adapted(place, found["model"], place.fresh(seed))
    source = Steps(map(batch, found["sft"]))
    objective = objectives.sft(chunk=CHUNK)
    fitted = fit(place, "sft", policy, objective, source, case.sft_steps)
    keep(place, "sft", seed, policy, fitted)


def rollouts(place, seed, policy, found, steps):
    """Scored answers to the questions of the file, step by step."""
    from helpers.batches.prompt_batches import pad_prompts
    from helpers.generation import Rollouts
    from helpers.rewards import RewardSet, correct, format_reward
    from helpers.text import chat

    case = place.case()

    def batch(rows):
        prompts = [row["prompt"] for row in rows]
        prompt, mask = pad_prompts(prompts, (found["longest_prompt"],))
        kept = [{name: row[name] for name in ("question", "answer")} for row in rows]
        return {"prompt": prompt, "prompt_mask": mask, "rows": kept}

    return Rollouts(
        policy,
        Steps(map(batch, steps)),
        RewardSet({correct: 1.0, format_reward: 0.1}),
        chat.load_tokenizer(found["model"]),
        group=case.group,
        max_tokens=case.answer,
        seed=seed,
    )


def grpo(place, seed):
    """GRPO from the common SFT model: one update for each batch of answers."""
    from helpers.training import objectives

    case, found = place.case(), real_case.read(place.rows(seed))
    policy = adapted(place, found["model"], place.start())
    source = rollouts(place, seed, policy, found, found["grpo"])
    objective = objectives.policy_gradient(chunk=CHUNK)
    fitted = fit(place, "grpo", policy, objective, source, case.grpo_steps)
    keep(place, "grpo", seed, policy, fitted)


def check(place, seed):
    """One small GRPO step, with the answers it learned from, for TRL to repeat."""
    from helpers.training import objectives

    found = real_case.read(place.rows(seed))
    policy = adapted(place, found["model"], place.start())
    source = rollouts(place, seed, policy, found, [found["grpo"][0][:CHECKED]])
    batch = next(source)
    objective = objectives.policy_gradient(chunk=CHUNK)
    table, _ = fit(place, "grpo", policy, objective, Steps([batch]), 1, CHECKED)
    ended = batch["loss_mask"].any(axis=-1)
    answers = [
        tokens[kept > 0].tolist() if whole else tokens.tolist()
        for tokens, kept, whole in zip(
            *(
                batch[name].reshape(ended.size, -1)
                for name in ("completion", "loss_mask")
            ),
            ended.flat,
            strict=True,
        )
    ]
    names = ("loss", "grad_norm", "tokens")
    figures = {name: table[0][name] for name in names}
    figures |= {"answers": answers, "rewards": batch["rewards"].flatten().tolist()}
    real_case.write(place.result("ours", "check", seed), figures)


def grade(place, seed, library, stage):
    """Greedy answers of a trained model to held-out problems, whoever trained it."""
    from helpers.evaluation import evaluate
    from helpers.tasks.maths import word_problems
    from helpers.text import chat

    case, found = place.case(), real_case.read(place.rows(seed))
    levels = tuple(map(int, case.levels))
    rows = word_problems.generate(case.held_out, seed=99, levels=levels, split="test")
    graded = evaluate(
        adapted(place, found["model"], place.adapters(library, stage, seed)),
        chat.load_tokenizer(found["model"]),
        rows,
        max_tokens=case.answer,
        samples=0,
        batch=case.prompts * case.group,
        buckets=(64, 128, 256),
    )
    names = ("n", "greedy", "low", "high", "truncated")
    figures = {name: getattr(graded, name) for name in names}
    real_case.write(place.result(library, f"{stage}-graded", seed), figures)


STAGES = {f.__name__: f for f in (prepare, sft, grpo, check, grade)}

if __name__ == "__main__":
    place, stage, seed, more = real_case.asked(STAGES)
    STAGES[stage](place, seed, *more)
