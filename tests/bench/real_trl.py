"""Hugging Face TRL's side of `real_peers.py`: SFTTrainer and GRPOTrainer with peft.

    python tests/bench/real_trl.py WORK STAGE SEED [PYTHON of the course]

TRL is set to compute what the course computes: the rows in the order of the file,
adapters that begin as ours do, the same AdamW and learning rates, no scaling of
advantages by their spread, cut answers out of the loss, one mean over all answer tokens
(`dapo`), one update for each batch of answers. Rewards are ours, by `real_judge.py`.

It is set to be quick, too: gradient checkpointing, on by default, is off, and steps are
computed in micro-batches of four rows. On one core a GRPO step of 32 answers took, at
32, 16, 8, 4, 2 rows at once, 73, 55, 53, 48, 48 CPU-seconds and 10.3, 6.2, 3.5, 2.3,
1.7 GB; an SFT step 15 CPU-seconds and, at 16, 8, 4 rows, 5.3, 3.2, 2.2 GB.

What differs: which random numbers sample the answers; clipping divides by the norm plus
1e-6. A prompt is padded on the left to the longest of its batch, ours on the right to
the longest of the run.
"""

import json
import os
import pathlib
import subprocess
import warnings

import real_case
from case import Clock

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
warnings.filterwarnings("ignore")

PACKAGES = ("trl", "torch", "transformers", "peft", "accelerate")
JUDGE = pathlib.Path(__file__).with_name("real_judge.py")


def adapted(folder, adapters):
    """The model in float32 with the adapters of a PEFT folder, to be trained."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    )
    return PeftModel.from_pretrained(base, adapters, is_trainable=True)


def tokenizer_of(found):
    """The model's tokenizer, after a look whether it agrees with ours on every row.

    Raises:
      AssertionError: it encodes a prompt or an example otherwise.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(found["model"])

    def encoded(messages, **more):
        return tokenizer.apply_chat_template(messages, **more)["input_ids"]

    for row in (row for x in ("sft", "grpo") for step in found[x] for row in step):
        answer = {"role": "assistant", "content": row["answer"]}
        assert encoded(asked(row), add_generation_prompt=True) == row["prompt"], row
        assert encoded([*asked(row), answer]) == row["tokens"], row
    return tokenizer


def asked(row):
    """A row's question as messages."""
    return [{"role": "user", "content": row["question"]}]


def optimizers(model, rates):
    """AdamW as `helpers.training.optimizers.adamw` has it, and the file's rates."""
    import torch

    trained = [p for p in model.parameters() if p.requires_grad]
    settings = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.0, "fused": True}
    adamw = torch.optim.AdamW(trained, lr=1.0, **settings)

    def rate(step):  # asked for one step more than there are
        return rates[min(step, len(rates) - 1)]

    return adamw, torch.optim.lr_scheduler.LambdaLR(adamw, rate)


def settings(place, seed, steps):
    """The training arguments both trainers share."""
    return {
        "output_dir": str(place.work / "trl-output"),
        "max_steps": steps,
        "max_grad_norm": 1.0,
        "seed": seed,
        "use_cpu": True,
        "bf16": place.case().numbers == "bfloat16",
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
    }


def watcher():
    """A trainer callback that keeps the seconds, rates and logs of every step."""
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def __init__(self):
            self.clock, self.rates, self.logs = Clock(), [], []

        def on_train_begin(self, *args, **kwargs):
            self.clock.stamp()

        def on_pre_optimizer_step(self, *args, optimizer, **kwargs):
            self.rates.append(optimizer.param_groups[0]["lr"])

        def on_step_end(self, *args, **kwargs):
            self.clock.stamp()

        def on_log(self, args, state, control, logs, **kwargs):
            if "loss" in logs:
                self.logs.append(dict(logs))

    return Watch()


def train(trainer, watch):
    """Trains; (one dict per step as `real_case.report` wants it, seconds of all)."""
    with real_case.Stopwatch() as stopwatch:
        trainer.train()
    spans = watch.clock.spans(0), watch.clock.spans(1)
    rows = [
        {
            "loss": log["loss"],
            "grad_norm": log["grad_norm"],
            "learning_rate": rate,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
        }
        for log, rate, seconds, cpu_seconds in zip(
            watch.logs, watch.rates, *spans, strict=True
        )
    ]
    for row, log in zip(rows, watch.logs, strict=True):
        if "rewards/correct/mean" in log:
            row["right"] = log["rewards/correct/mean"]
            row["cut"] = log["completions/clipped_ratio"]
    return rows, stopwatch.seconds


def keep(place, stage, seed, model, trained):
    """Saves the adapters of a run, and then its figures."""
    model.save_pretrained(place.adapters("trl", stage, seed))
    real_case.report(place.result("trl", stage, seed), *trained, PACKAGES)


def sft(place, seed, python):
    """SFT on the rows of the file, in their order; only answers are learned."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    case, found = place.case(), real_case.read(place.rows(seed))
    model, watch = adapted(found["model"], place.fresh(seed)), watcher()
    rows = [row for step in found["sft"] for row in step]
    examples = [
        {"input_ids": row["tokens"], "completion_mask": row["mask"]} for row in rows
    ]
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            **settings(place, seed, case.sft_steps),
            per_device_train_batch_size=case.sft_rows // case.sft_pieces,
            gradient_accumulation_steps=case.sft_pieces,
            train_sampling_strategy="sequential",
            max_length=None,
            packing=False,
            completion_only_loss=True,
        ),
        train_dataset=Dataset.from_list(examples),
        processing_class=tokenizer_of(found),
        optimizers=optimizers(model, found["rates"]["sft"]),
        callbacks=[watch],
    )
    keep(place, "sft", seed, model, train(trainer, watch))


def judged(python):
    """Our two rewards as TRL's reward functions, in the order of their weights."""
    judge = subprocess.Popen(
        [python, str(JUDGE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def scores(name, completions, answer):
        texts = [messages[-1]["content"] for messages in completions]
        judge.stdin.write(json.dumps([name, texts, answer]) + "\n")
        judge.stdin.flush()
        return json.loads(judge.stdout.readline())

    def correct(completions, answer, **_):
        return scores("correct", completions, answer)

    def format_reward(completions, answer, **_):
        return scores("format_reward", completions, answer)

    assert correct([[{"content": "#### 4"}]], ["#### 4"]) == [1.0]  # it is there
    return [correct, format_reward]


def grpo_trainer(place, seed, found, steps, pieces, rewards, watch, **more):
    """TRL's trainer for GRPO as the course has it, from the common SFT model.

    Args:
      steps: rows of each step.
      pieces: micro-batches of a step.
      rewards: {reward function: weight}.
      more: further arguments of GRPOTrainer.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    case, model = place.case(), adapted(found["model"], place.start())
    rows = [{"prompt": asked(row), "answer": row["answer"]} for x in steps for row in x]
    return GRPOTrainer(
        model=model,
        reward_funcs=list(rewards),
        args=GRPOConfig(
            **settings(place, seed, len(steps)),
            per_device_train_batch_size=len(steps[0]) * case.group // pieces,
            gradient_accumulation_steps=pieces,
            shuffle_dataset=False,
            num_generations=case.group,
            max_completion_length=case.answer,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            beta=0.0,
            epsilon=0.2,
            epsilon_high=0.28,
            loss_type="dapo",
            scale_rewards="none",
            mask_truncated_completions=True,
            reward_weights=list(rewards.values()),
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer_of(found),
        optimizers=optimizers(model, found["rates"]["grpo"]),
        callbacks=[watch],
        **more,
    )


def grpo(place, seed, python):
    """GRPO from the common SFT model, on the questions of the file in their order."""
    case, found, watch = place.case(), real_case.read(place.rows(seed)), watcher()
    rewards = dict(zip(judged(python), (1.0, 0.1), strict=True))
    trainer = grpo_trainer(
        place, seed, found, found["grpo"], case.grpo_pieces, rewards, watch
    )
    trained = train(trainer, watch)
    keep(place, "grpo", seed, trainer.model, trained)


def check(place, seed, python):
    """The small GRPO step of `real_ours.check` from the very same answers."""
    case, found, watch = place.case(), real_case.read(place.rows(seed)), watcher()
    ours = real_case.read(place.result("ours", "check", seed))
    rows = found["grpo"][0][: len(ours["answers"]) // case.group]

    def answers(prompts, trainer):
        ids = [row["prompt"] for row in rows for _ in range(case.group)]
        return {"prompt_ids": ids, "completion_ids": ours["answers"], "logprobs": None}

    def as_ours(completions, **_):
        return ours["rewards"]

    trainer = grpo_trainer(
        place,
        seed,
        found,
        [rows],
        2,  # so that adding up pieces is checked, too
        {as_ours: 1.0},
        watch,
        rollout_func=answers,
    )
    (row,), _ = train(trainer, watch)
    real_case.write(place.result("trl", "check", seed), row)


STAGES = {f.__name__: f for f in (sft, grpo, check)}

if __name__ == "__main__":
    place, stage, seed, more = real_case.asked(STAGES)
    STAGES[stage](place, seed, *more)
