"""A real model learns a rule without a demonstration: `make rules`.

    python -m scripts.rules [METHOD ...] [--seeds 0 1 2]

Trains SmolLM2-135M-Instruct by GRPO to follow instructions that a program can check,
and writes data/results/rules.csv: how many of the held-out prompts it follows, and how
unlikely the base model finds what it answers (`base_nll`, nats per token). `kl` is the
weight of the KL term to the frozen base. rules_answers.csv has its first answers.

Methods: `rule` has the rule as its only reward, `rule_kl` a KL term, `rule_says` a
second reward for saying something, and `six_rules` six rules, of which a prompt has one
or two. Three pairs of them are never trained together (rule "pairs").
"""

import argparse
import dataclasses
import os
import pathlib
import random
import time

from helpers import batches, recipes, runtime
from helpers.evaluation import score, wilson
from helpers.generation import Rollouts
from helpers.model import hub, lora, weights
from helpers.rewards import RewardSet
from helpers.tasks import instructions
from helpers.tasks.instructions import RULES, ask, split_words
from helpers.text import chat
from helpers.training import Trainer, objectives, optimizers
from scripts import tables

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "results"
TABLE, ANSWERS = RESULTS / "rules.csv", RESULTS / "rules_answers.csv"
KEY = ("method", "seed", "step", "rule")
STEPS, LOOK_EVERY, SHOWN, READ = 24, 8, 12, 64
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
HELD_PAIRS = (("short", "color"), ("today", "shout"), ("lowercase", "question"))
CLASHES = ({"shout", "question"}, {"lowercase", "today"})  # nothing follows both


@dataclasses.dataclass
class Method:
    """How a run differs from the plain one."""

    rate: float = 4e-4
    kl: float = 0.0
    says: float = 0.0
    six: bool = False

    @property
    def prompts(self) -> int:
        """Prompts per step."""
        return 16 if self.six else 8

    def reward(self) -> RewardSet:
        """The rule, and a slope towards it."""
        parts = {instructions.follows: 1.0, instructions.partly: 0.3}
        if self.says:
            parts[instructions.says_something] = self.says
        return RewardSet(parts)

    def train(self) -> list[dict]:
        """The prompts to learn from."""
        words = split_words("train")
        if not self.six:
            return ask(words)
        dice = random.Random(1)
        names = list(RULES)
        pairs = [
            (a, b)
            for i, a in enumerate(names)
            for b in names[i + 1 :]
            if {a, b} not in CLASHES and (a, b) not in HELD_PAIRS
        ]
        pairs = [p for p in pairs if p[::-1] not in HELD_PAIRS]
        rows = [row for name in names for row in ask(words, (name,))]
        rows += [ask([w], dice.choice(pairs))[0] for w in words for _ in range(3)]
        dice.shuffle(rows)
        return rows

    def tests(self) -> dict[str, list[dict]]:
        """The held-out prompts by rule."""
        words = split_words("test")
        if not self.six:
            return {"short": ask(words)}
        names = list(RULES)
        single = {n: ask(words[i :: len(names)], (n,)) for i, n in enumerate(names)}
        pairs = [ask([w], HELD_PAIRS[i % 3])[0] for i, w in enumerate(words)]
        return single | {"pairs": pairs}


METHODS = {
    "rule": Method(),
    "rule_kl": Method(kl=0.1),
    "rule_says": Method(says=0.5),
    "six_rules": Method(rate=3e-4, kl=0.05, six=True),
}
SHAPE = {"max_tokens": 32, "buckets": (72,)}


class Run:
    """A model, its base, and what is measured of them."""

    def __init__(self, name: str, seed: int):
        self.name, self.seed, self.method = name, seed, METHODS[name]
        folder, sizes = hub.fetch(MODEL), recipes.CUSTOM["laptop"]
        self.tokenizer = chat.load_tokenizer(folder)
        self.base = weights.load(folder, mesh=runtime.make_mesh(), dtype=sizes.dtype)
        self.policy = lora.add(
            weights.load(folder, mesh=runtime.make_mesh(), dtype=sizes.dtype),
            sizes.lora_rank,
        )
        self.policy.remat = sizes.remat
        self.unlikely = objectives.sft()
        self.spent = 0.0

    def train(self):
        """Trains, and measures every eighth step."""
        method = self.method
        prompts = batches.prompts(
            method.train(),
            self.tokenizer,
            batch=method.prompts,
            buckets=SHAPE["buckets"],
            seed=self.seed,
        )
        rollouts = Rollouts(
            self.policy,
            prompts,
            method.reward(),
            self.tokenizer,
            group=8,
            max_tokens=SHAPE["max_tokens"],
            seed=self.seed,
            patience=STEPS,
        )
        trainer = Trainer(
            self.policy,
            objectives.policy_gradient(beta=method.kl),
            optimizers.adamw(method.rate, steps=STEPS, warmup=3, final=0.3),
            wrt=lora.Adapter,
            minibatches=2,
            accumulate=method.prompts // 2,
            frozen=(self.base,) if method.kl else (),
            log=False,
        )
        self.look(0)
        for step in range(LOOK_EVERY, STEPS + 1, LOOK_EVERY):
            began = time.process_time()
            trainer.fit(rollouts, step)
            self.spent += time.process_time() - began
            self.look(step)

    def look(self, step: int):
        """Writes what the held-out prompts say of the model at this step."""
        rows, shown = [], []
        for rule, test in self.method.tests().items():
            scores = score(
                self.policy,
                self.tokenizer,
                test,
                self.method.reward(),
                log=False,
                **SHAPE,
            )
            answers = [row["completion"] for row in scores.answers]
            marks = [row["reward/follows"] for row in scores.answers]
            low, high = wilson(int(sum(marks)), len(marks))
            key = {"method": self.name, "seed": self.seed, "step": step, "rule": rule}
            rows.append(
                key
                | {
                    "follows": round(sum(marks) / len(marks), 4),
                    "low": round(low, 4),
                    "high": round(high, 4),
                    "n": len(marks),
                    "kl": self.method.kl,
                    "base_nll": round(self.base_nll(test[:READ], answers[:READ]), 3),
                    "cpu_seconds": round(self.spent, 1),
                }
            )
            print(rows[-1], answers[:3], flush=True)
            shown += [
                key | {"word": row["word"], "answer": answer}
                for row, answer in list(zip(test, answers, strict=True))[:SHOWN]
            ]
        tables.put(TABLE, rows, KEY)
        tables.put(ANSWERS, shown, (*KEY, "word"))

    def base_nll(self, rows, answers) -> float:
        """Nats per token that the base model gives the answers."""
        examples = chat.examples_tokens(
            self.tokenizer, [row["question"] for row in rows], answers
        )
        count = -(-sum(len(tokens) for tokens, _ in examples) // 256) + 1
        batch = next(batches.packed_rows(examples, batch=count, length=256, seed=0))
        return float(self.unlikely(self.base, batch)[0])


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=[*METHODS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args()
    os.nice(19)
    for seed in arguments.seeds:
        for name in arguments.methods:
            done = {"method": name, "seed": seed, "step": STEPS}
            if not tables.has(TABLE, **done):
                Run(name, seed).train()


if __name__ == "__main__":
    main()
