"""One step of TRL's GRPOTrainer with our model and our rewards; see handover.py."""

import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import conversations  # noqa: E402
import recorded_rewards  # noqa: E402
import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402


def scored(trainer):
    """What the trainer's own call of rewards says of hand-written conversations.

    TRL gives rewards the messages, tool results included.
    """
    given = conversations.in_messages()
    trainer.reward_funcs = conversations.rewards()
    trainer.reward_func_names = [f.__name__ for f in trainer.reward_funcs]
    trainer.reward_processing_classes = [None] * len(trainer.reward_funcs)
    prompt = [{"role": "user", "content": "How much is it?"}]
    scores = trainer._calculate_rewards(
        [{"prompt": prompt, "portions": portions} for _, portions, _ in given],
        [prompt] * len(given),
        [messages for messages, _, _ in given],
        [[0]] * len(given),
    )
    return scores.tolist()


def main():
    """Takes the step that the file of the command line asks for."""
    inputs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(inputs["model"], dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(inputs["model"], padding_side="left")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    rows = [
        {
            "prompt": [{"role": "user", "content": row["question"]}],
            "answer": row["answer"],
        }
        for row in inputs["rows"]
    ]
    notes: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=recorded_rewards.recording(notes),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=1,
                learning_rate=1e-4,
                per_device_train_batch_size=len(rows) * inputs["group"],
                num_generations=inputs["group"],
                max_completion_length=inputs["max_tokens"],
                temperature=1.0,
                beta=0.0,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        trainer.train()
    moved = max(
        float((p.detach() - before[name]).abs().max())
        for name, p in model.named_parameters()
    )
    version = importlib.metadata.version("trl")
    results = {"version": version, "rewards": notes, "moved": moved}
    conversations.require(
        scored(trainer), [scores for *_, scores in conversations.in_messages()], "trl"
    )
    results["conversations"] = len(conversations.in_messages())
    pathlib.Path(inputs["out"]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
