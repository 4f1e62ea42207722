"""Makes the reference logits that tests/model/test_parity.py holds the decoder to.

In an environment with torch 2.13 and transformers 5.23, then in the course's own, then
in the first again (and in one with transformers 4, which reads the same files):

    python tests/golden/make_golden.py write    # random models, saved and run
    python tests/golden/make_golden.py resave   # config.json as this course writes it
    python tests/golden/make_golden.py check    # transformers reads that just the same

Each family's folder then holds config.json and model.safetensors as transformers saved
them, tokens and logits in reference.npz, and our config in resaved_config.json.
"""

import contextlib
import pathlib
import shutil
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).parent
SIZES = {
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 24,
    "max_position_embeddings": 128,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
LINEAR = {"rope_type": "linear", "factor": 8.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 48,
}
GEMMA4 = {
    "sliding_window": 6,
    "global_head_dim": 16,
    "vocab_size_per_layer_input": SIZES["vocab_size"],
    "final_logit_softcapping": 3.0,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
            "rope_theta": 100.0,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    },
}
PROMPT, NEW = 5, 64
ROWS, LENGTH = 2, 21  # longer than Gemma's window of 6


# Another processor adds up in another order. Weights moved by one rounding, 6e-8 of
# themselves, move logits by up to 4e-5.
ROUNDING = 5e-5
# Gemma 4 does not divide scores by the root of their width. With norms of queries and
# keys around 1 one rounding then moves the logits of gemma4_e2b by 7e-5, with these by
# 2e-5.
CALMER = 0.4


def families():
    """The configuration of each family, as its users would write it."""
    from transformers import (
        Gemma3TextConfig,
        Gemma4TextConfig,
        LlamaConfig,
        Qwen2Config,
        Qwen3Config,
    )

    rope = {"rope_type": "default", "rope_theta": 1e5}
    both = {
        "full_attention": rope,
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    }
    return {
        "gemma3_text": Gemma3TextConfig(
            **SIZES,
            sliding_window=6,
            query_pre_attn_scalar=12,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"]
            + ["sliding_attention"],
            rope_parameters=both,
        ),
        "qwen2": Qwen2Config(**SIZES, rope_parameters=rope),
        "qwen3": Qwen3Config(**SIZES, rope_parameters=rope, tie_word_embeddings=True),
        "llama": LlamaConfig(**SIZES, rope_parameters=rope, rms_norm_eps=1e-5),
        "gemma3_stretched": Gemma3TextConfig(  # as 4B: global layers stretched
            **SIZES,
            sliding_window=6,
            query_pre_attn_scalar=12,
            layer_types=["sliding_attention", "full_attention"] * 2,
            rope_parameters=both | {"full_attention": rope | LINEAR},
        ),
        "llama_stretched": LlamaConfig(  # as 3.1 and 3.2: some waves kept, some not
            **SIZES,
            rope_parameters=rope | LLAMA3 | {"rope_theta": 20.0},
            tie_word_embeddings=True,
        ),
        "gemma4_e2b": Gemma4TextConfig(  # its habits: each two groups of layers
            **SIZES | {"num_hidden_layers": 8},
            **GEMMA4,
            layer_types=["sliding_attention", "full_attention"] * 4,
            num_kv_shared_layers=4,
            use_double_wide_mlp=True,
            hidden_size_per_layer_input=8,
        ),
        "gemma4_31b": Gemma4TextConfig(
            **SIZES | {"num_hidden_layers": 6},
            **GEMMA4,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"]
            * 2,
            attention_k_eq_v=True,
            num_global_key_value_heads=1,
            hidden_size_per_layer_input=0,
        ),
    }


def load(folder, kind="AutoModelForCausalLM", dtype="float32"):
    """A whole model, as transformers reads it with one of its classes."""
    import torch
    import transformers

    model, report = getattr(transformers, kind).from_pretrained(
        folder,
        dtype=getattr(torch, dtype),
        attn_implementation="eager",
        output_loading_info=True,
    )
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    return model.eval()


def logits_of(model, **inputs):
    """What transformers computes."""
    import torch

    with torch.no_grad():
        return model(**inputs).logits.numpy()


def greedy_of(model, count, **inputs):
    """The tokens that transformers generates after prompts, likeliest first."""
    options = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False}
    longer = model.generate(**inputs, **options, eos_token_id=[])
    return longer[:, inputs["input_ids"].shape[1] :].numpy()


def write(folder=HERE):
    """Random weights everywhere, norms and biases too, saved by transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    for family, config in families().items():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name and "gemma3" not in family else 0.0
            torch.nn.init.normal_(parameter.data, centre, 0.3)
            if "gemma4" in family and name.endswith(("q_norm.weight", "k_norm.weight")):
                parameter.data.mul_(CALMER)
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                torch.nn.init.normal_(buffer, 1.0, 0.3)
        place = pathlib.Path(folder) / family
        model.save_pretrained(place)
        (place / "generation_config.json").unlink(missing_ok=True)
        rng = np.random.default_rng(0)
        tokens = rng.integers(0, SIZES["vocab_size"], (ROWS, LENGTH))
        prompts, model = torch.tensor(tokens[:, :PROMPT]), load(place)
        mask = torch.ones(prompts.shape, dtype=int)
        logits = logits_of(model, input_ids=torch.tensor(tokens))
        greedy = greedy_of(model, NEW, input_ids=prompts, attention_mask=mask)
        np.savez(place / "reference.npz", tokens=tokens, logits=logits, greedy=greedy)
        print(family, "logits of standard deviation", logits.std())


def resave(folders=None, names=("config.json",), vision=False):
    """Our config files of the same models, beside theirs."""
    from helpers.model import weights

    for folder in folders or [path.parent for path in HERE.glob("*/reference.npz")]:
        with tempfile.TemporaryDirectory() as scratch:
            weights.save(weights.load(folder, vision=vision), scratch)
            for name in names:
                shutil.copy(f"{scratch}/{name}", folder / f"resaved_{name}")


@contextlib.contextmanager
def resaved(folder, names=("config.json",)):
    """A folder with their weights and our config files."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            shutil.copy(folder / f"resaved_{name}", f"{scratch}/{name}")
        shutil.copy(folder / "model.safetensors", scratch)
        yield scratch


def check():
    """The logits of transformers under our config.json are the stored ones."""
    import torch
    import transformers

    for folder in sorted(path.parent for path in HERE.glob("*/reference.npz")):
        reference = np.load(folder / "reference.npz")
        with resaved(folder) as scratch:
            tokens = torch.tensor(reference["tokens"])
            logits = logits_of(load(scratch), input_ids=tokens)
        gap = np.abs(logits - reference["logits"]).max()
        print(f"transformers {transformers.__version__} {folder.name}: {gap:.1e}")
        assert gap < ROUNDING


if __name__ == "__main__":
    {"write": write, "resave": resave, "check": check}[sys.argv[1]](*sys.argv[2:])
