"""The maths recipe on real weights: the preset's model, and problems it can learn from.

Most of a notebook trains the shipped tiny model. Its last section makes the same calls
with what stands here: on TPUs with GSM8K, on two cores with a model of 135M parameters
and generated problems of one to three steps, for GSM8K is beyond it.
"""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax

from helpers import runtime
from helpers.batches import prompt_batches
from helpers.evaluation.evaluator import evaluate
from helpers.evaluation.report import MathsReport, Report, load_or_run
from helpers.generation.calculator_use import CalculatorUse
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import Dialogue
from helpers.model import hub, lora, peft_folder, weights
from helpers.model.folder import ADAPTERS, WeightsError
from helpers.model.transformer import Transformer
from helpers.plots.live import Live
from helpers.recipes.presets import Preset
from helpers.rewards.answers import extract_lenient, extract_strict
from helpers.runtime import run_identity
from helpers.runtime.platform import multiplies_bfloat16, multiply_as_written
from helpers.tasks.maths import gsm8k, word_problems
from helpers.text import chat

TEACHERS = {  # larger ones of the same vocabulary
    "Qwen/Qwen2.5-0.5B-Instruct": "Qwen/Qwen2.5-1.5B-Instruct"
}
FIRST = 20  # answers that are shown before a whole baseline is measured
GENERATED = {"train": 4000, "test": 240}  # problems, where a preset names levels
ASK = (
    "\nWork it out step by step. End with a line that holds #### and the number, such "
    "as #### 42."
)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a lesson on real weights needs.

    Attributes:
      preset: the sizes of everything.
      policy: the preset's model with fresh adapters on a frozen base, over all devices.
      tokenizer: the model's own. A model that can think first is asked for its answer
        alone, which is what the budgets are for.
      train, test: rows {"question", "answer", "level"} whose question fits the preset's
        budget. GSM8K's questions end by asking for the final line that is graded.
      fingerprint: of the model's weights as they were read, saved with its adapters.
      started: the stage that the policy goes on from, and a fingerprint of its
        adapters; "": none.
    """

    preset: Preset
    policy: Transformer
    tokenizer: Any
    train: list[dict]
    test: list[dict]
    fingerprint: str = ""
    started: str = ""

    REPORT: ClassVar[type[Report]] = MathsReport
    GRADED_BY: ClassVar[tuple] = (extract_strict, extract_lenient)
    TRAINING: ClassVar[str] = "reward/correct"  # the column that is drawn

    @property
    def tools(self) -> Dialogue | None:
        """How answers are produced; None: in one turn, without tools."""
        return None

    @property
    def turn(self) -> int:
        """Most tokens of one turn of an answer."""
        return self.preset.completion_tokens

    pictures: ClassVar[Callable | None] = None  # pictures(row): those of a row, a list

    @property
    def chunk(self) -> int:
        """Tokens whose logits exist at once, on all devices together."""
        return self.preset.chunk * jax.device_count()

    def start(self, stage: str) -> Self:
        """The same recipe with the adapters that a stage ended with, to go on from.

        A stage that was not trained on this machine changes nothing, and says so.

        Args:
          stage: as given to `save_adapters`, such as "sft". The rank is that of its
            adapters.
        Raises:
          WeightsError: they are damaged, or of another model.
        """
        if not trained_here(stage, self.preset):
            print(f"{stage} was not trained here: from {self.preset.model} untrained")
            return self
        folder = adapters_folder(stage, self.preset)
        if peft_folder.fingerprint_of(folder) != self.fingerprint:
            raise WeightsError(
                f"{folder} has adapters of {peft_folder.base_of(folder)}, whose weights"
                f" are not those of {self.preset.model}. Set COURSE_BUILD to another "
                "folder and train the stage with this model."
            )
        print(f"from {stage}, {folder}")
        policy = lora.load(lora.remove(self.policy), folder)
        started = f"{stage} {weights.fingerprint(folder)}"
        return dataclasses.replace(self, policy=policy, started=started)

    def save_adapters(self, stage: str) -> pathlib.Path:
        """Saves the policy's adapters as those of a stage; returns their folder."""
        folder, base = adapters_folder(stage, self.preset), self.preset.model
        lora.save(self.policy, folder, base, self.fingerprint)
        return folder

    def evaluate(self, n=None):
        """Greedy answers to the first n test questions, graded; None: to all."""
        return evaluate(
            self.policy,
            self.tokenizer,
            self.test[:n],
            max_tokens=self.preset.completion_tokens,
            samples=0,
            batch=self.preset.prompts * self.preset.group,  # as many as rollouts have
            buckets=(self.preset.prompt_tokens,),
            environment=self.tools,
        )

    def look(self, policy, n=64):
        """The share of the first n test questions that a policy solves greedily.

        For a trainer's `evaluate`, which is called during training.
        """
        report = dataclasses.replace(self, policy=policy).evaluate(n)
        return {"right": report.greedy, "truncated": report.truncated}

    def live(self, stage, every=1) -> Live:
        """Shows a stage while it trains: its curves, and a current answer.

        Args:
          stage: as given to `save_adapters`.
          every: steps between two pictures.
        """
        shown = {"training": self.TRAINING, "held out": "eval/right"}
        folder = runtime.run_folder(f"{stage}_{self.preset.name}")
        title = f"{stage}, {self.preset.model}: share of right answers"
        return Live(shown, title=title, folder=folder, every=every)

    def before(self, stage, n=None):
        """`evaluate` before a stage, read from a file if nothing has changed.

        A session that was cut off and goes on does not measure its baseline twice.
        Twenty answers come first and are shown, so a wrong template or budget is seen
        before the whole baseline is paid for.

        Args:
          stage: as given to `save_adapters`.
          n: as for `evaluate`.
        """
        path = runtime.build_folder() / "before" / f"{stage}_{self.preset.name}.json"
        budget = {"prompt": self.preset.prompt_tokens, "n": n}
        about = {
            "model": run_identity.describe(self.policy),
            "tokenizer": run_identity.describe(self.tokenizer),
            "questions": run_identity.describe_rows(self.test[:n]),
            "budget": budget | {"completion": self.preset.completion_tokens},
            "tools": self.tools.describe() if self.tools else None,
            "graded by": [run_identity.describe(f) for f in self.GRADED_BY],
        }
        return load_or_run(path, about, lambda: self._measured(n), self.REPORT)

    def _measured(self, n):
        """`evaluate`, after a few answers that are shown."""
        few = self.evaluate(FIRST)
        one = few.answers[0]
        print(f"the first {few.n} answers: {few}\n{one['question']}\n→ {one['text']}")
        return self.evaluate(n)

    def teacher(self) -> Transformer:
        """The model to distil from, frozen: a larger one, or where none fits, GRPO's.

        Raises:
          WeightsError: it would be what GRPO ended with, which was not trained here.
        """
        if larger := TEACHERS.get(self.preset.model):
            return load(self.preset, larger)
        if not trained_here("grpo", self.preset):
            raise WeightsError(
                f"The teacher of {self.preset.model} is the model that GRPO ended with,"
                " not trained here yet: run the last section of notebook 07 first."
            )
        return self.start("grpo").policy  # a merge would round in bfloat16

    def demonstrations(self, seed):
        """Packed rows of the problems' own solutions, a batch source for SFT.

        A few solutions are too long for both budgets together; says how many.
        """
        columns = ([row[name] for row in self.train] for name in ("question", "answer"))
        examples = self.examples_tokens(*columns)
        length = self.preset.prompt_tokens + self.preset.completion_tokens
        fitting = [example for example in examples if len(example[0]) <= length]
        print(
            f"{len(fitting)} demonstrations; {len(examples) - len(fitting)} longer than"
            f" {length} tokens are left out"
        )
        return prompt_batches.packed_rows(
            fitting, batch=self.preset.rows, length=length, seed=seed
        )

    def examples_tokens(self, questions, answers):
        """Worked solutions as tokens, with the mask of those that are learned."""
        return chat.examples_tokens(self.tokenizer, questions, answers)

    def rollouts(self, reward, seed: int, group: int | None = None) -> Rollouts:
        """Groups of the policy's scored answers, a batch source for RL.

        Args:
          reward: as for `Rollouts`; None to distil, also from answers that are cut off.
          group: answers to a question; None takes the preset's.
        """
        p, seeing = self.preset, self.pictures is not None
        prompts = prompt_batches.prompts(
            self.train,
            self.tokenizer,
            batch=p.prompts,
            buckets=(p.prompt_tokens,),
            seed=seed,
            pictures=self.pictures,
            vision=self.policy.config.vision if seeing else None,
            environment=self.tools,
        )
        return Rollouts(
            self.policy,
            prompts,
            reward,
            self.tokenizer,
            group=group or p.group,
            max_tokens=self.turn,
            seed=seed,
            environment=self.tools,
            mask_truncated=reward is not None,
        )


def adapters_folder(stage: str, preset: Preset) -> pathlib.Path:
    """Where a preset's adapters of a stage are saved on this machine."""
    return runtime.model_folder(f"{stage}_{preset.name}")


def trained_here(stage: str, preset: Preset) -> bool:
    """Whether a stage of a preset has been trained on this machine."""
    return (adapters_folder(stage, preset) / ADAPTERS).is_file()


def frozen_dtype(preset) -> str:
    """The dtype of a preset's frozen weights: bfloat16 where the CPU multiplies it.

    The first run in a build folder decides, because its runs go on only with the same
    weights. A free machine may be followed by an older one, which is slower with
    bfloat16 but gives the same result.
    """
    if not preset.lora_rank:
        return preset.dtype  # nothing is frozen
    note = runtime.build_folder() / f"frozen_{preset.name}.txt"
    saved = note.read_text().strip() if note.exists() else ""
    if saved in ("bfloat16", preset.dtype):
        return saved
    dtype = "bfloat16" if multiplies_bfloat16() else preset.dtype
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(dtype)
    return dtype


def load(preset, model):
    """A frozen model of the hub (or a folder) over all devices, in `frozen_dtype`.

    Activations and adapters have the preset's dtype.
    """
    multiply_as_written(False)
    return weights.load(
        hub.fetch(model),
        mesh=runtime.make_mesh(),
        dtype=frozen_dtype(preset),
        activations=preset.dtype,
    )


def problems(preset, split) -> list[dict]:
    """The rows of "train" or "test" that a preset is for, before any is left out."""
    if preset.levels:
        count = GENERATED[split]
        return word_problems.generate(count, seed=1, levels=preset.levels, split=split)
    rows = gsm8k.load(os.environ.get("COURSE_GSM8K"), split)
    return [row | {"question": row["question"] + ASK} for row in rows]


class WithCalculator(Recipe):
    """A `Recipe` with a calculator that finishes the sums of an answer."""

    @property
    def tools(self):
        """GSM8K's `<<48/2=` is the call."""
        return CalculatorUse()

    def examples_tokens(self, questions, answers):
        """As of `Recipe`, but what the calculator writes is masked out of the loss."""
        return self.tools.examples_tokens(self.tokenizer, questions, answers)


def recipe(preset, kind: type[Recipe] = Recipe) -> Recipe:
    """Fetches model and data of a preset, and says what it has.

    Args:
      preset: from `recipes.preset`; COURSE_GSM8K may name a folder with GSM8K's files,
        and `preset.model` a folder with a model, where there is no network.
      kind: `Recipe`, or `WithCalculator`.
    Raises:
      helpers.model.hub.ModelUnavailable, ConnectionError: one cannot be had; says what
        to do.
    """
    folder = hub.fetch(preset.model)
    tokenizer = chat.without_thinking(chat.load_tokenizer(folder))
    splits: dict[str, Any] = {}
    for split in gsm8k.SPLITS:
        rows = problems(preset, split)
        prompts = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
        short = [len(prompt) <= preset.prompt_tokens for prompt in prompts]
        splits[split] = list(itertools.compress(rows, short))
        print(
            f"{split}: {len(splits[split])} questions; {len(rows) - len(splits[split])}"
            f" longer than {preset.prompt_tokens} tokens are left out"
        )
    policy = lora.add(load(preset, preset.model), preset.lora_rank)
    policy.remat = preset.remat
    print(f"{preset.model} with adapters of rank {preset.lora_rank}")
    print(chat.describe_template(tokenizer))
    print(preset.disconnect)
    splits["fingerprint"] = weights.fingerprint(folder)
    return kind(preset, policy, tokenizer, **splits)
