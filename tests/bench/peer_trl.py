"""Run one case with Hugging Face TRL's GRPOTrainer and SFTTrainer.

TRL's defaults, except: full-length answers are forced with `min_new_tokens` (its way
of forbidding EOS), the device is the CPU unless the case says a GPU, gradient
checkpointing is off (at this size it would only cost TRL time), nothing is saved. beta
is 0, so there is no reference model; one optimizer step per rollout; the loss is TRL's
default, `dapo`. Generation is transformers', attention PyTorch's (SDPA).
"""

import importlib.util
import os
import tempfile
import warnings

import case as bench

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
warnings.filterwarnings("ignore")

PACKAGES = ("trl", "torch", "transformers", "accelerate")
PACKAGES += ("peft",) if importlib.util.find_spec("peft") else ()  # with adapters alone
MATRICES = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"


def model(case):
    """A randomly initialised model of the case's dimensions."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        case.family,
        vocab_size=case.vocab,
        hidden_size=case.width,
        intermediate_size=case.ff,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.kv_heads,
        head_dim=case.head_dim,
        max_position_embeddings=2048,
        pad_token_id=bench.PAD,
        eos_token_id=bench.EOS,
        bos_token_id=None,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    return AutoModelForCausalLM.from_config(config).to(getattr(torch, case.dtype))


def adapters(case):
    """The adapters that peft adds, as ours are; None where all weights are trained."""
    if not case.lora_rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=case.lora_rank,
        lora_alpha=2 * case.lora_rank,
        target_modules=MATRICES.split(),
    )


def device_gb():
    """The most memory of the GPU that was in use so far; 0 without one."""
    import torch

    return torch.cuda.max_memory_allocated() / 1e9


def settings(case):
    """The training arguments both trainers share."""
    pieces = case.pieces or 1
    return {
        "output_dir": tempfile.mkdtemp(),
        "max_steps": case.total,
        "learning_rate": case.learning_rate,
        "lr_scheduler_type": "constant",
        "optim": "adamw_torch",
        "per_device_train_batch_size": case.rows // pieces,
        "gradient_accumulation_steps": pieces,
        "use_cpu": not case.gpu,
        "bf16": case.dtype == "bfloat16",
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
    }


def step_clock():
    """A clock, and the trainer callback that stamps it after every step."""
    import torch
    from transformers import TrainerCallback

    clock = bench.Clock()

    class Stamp(TrainerCallback):
        def on_train_begin(self, *args, **kwargs):
            clock.stamp()

        def on_step_end(self, *args, **kwargs):
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()  # a GPU is still at work when PyTorch returns
            clock.stamp()

    return clock, Stamp()


def grpo(case):
    """Train with GRPO; returns the figures."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    texts = bench.words(case, 0, case.prompts * case.total, case.prompt)
    rows = [{"prompt": text, "half": case.vocab // 2} for text in texts]
    clock, stamp = step_clock()
    trainer = GRPOTrainer(
        model=model(case),
        reward_funcs=bench.low_words,
        args=GRPOConfig(
            **settings(case),
            num_generations=case.group,
            max_completion_length=case.answer,
            temperature=1.0,
            beta=0.0,
            generation_kwargs={"min_new_tokens": case.answer},
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=bench.word_tokenizer(case, side="left"),
        callbacks=[stamp],
        peft_config=adapters(case),
    )
    rollouts, generate = bench.Clock(), trainer._generate

    def checked(prompts):
        result = generate(prompts)
        lengths = {len(tokens) for tokens in result[1]}
        assert lengths == {case.answer}, f"TRL sampled answers of {lengths} tokens"
        return result

    trainer._generate = bench.timed(rollouts, checked)
    trainer.train()
    return bench.grpo_figures(case, clock, rollouts) | {"device_gb": device_gb()}


def sft(case):
    """Train on random rows; returns the figures."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    texts = bench.words(case, 1, case.rows * case.total, case.length)
    clock, stamp = step_clock()
    trainer = SFTTrainer(
        model=model(case),
        args=SFTConfig(**settings(case), max_length=case.length, packing=False),
        train_dataset=Dataset.from_list([{"input_ids": bench.ids(t)} for t in texts]),
        processing_class=bench.word_tokenizer(case),
        callbacks=[stamp],
        peft_config=adapters(case),
    )
    trainer.train()
    return bench.sft_figures(case, clock) | {"device_gb": device_gb()}


if __name__ == "__main__":
    bench.run("trl", PACKAGES, grpo, sft)
