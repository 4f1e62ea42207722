"""Small models and tokenizers that llama.cpp could run, for tests of GGUF."""

import functools
import json

import gemma4_shapes
import numpy as np
import tiny_models
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from helpers.model import weights
from helpers.text import tokenizer
from helpers.text.gguf_tokenizer import SPLITS

# What llama.cpp builds into Gemma 3.
GEMMA = {"pattern": 6, "rope_local_theta": 1e4, "query_scale": 32.0, "layers": 6}
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}<|im_end|>"
    "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}"
)
# What the merges of `byte_pairs` are learned from.
TEXTS = [
    "How many apples has Mia got? 12 or 345!\n\n  She's 7.\r\n",
    "don't\t naïve 三个",
]
BYTES = [f"<0x{i:02X}>" for i in range(256)]
GEMMA4 = {"kinds": "llfllf", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 32}
GEMMA4 |= {"full_head_dim": 64, "ff": 96, "turned": (0.25, 1.0), "softcap": 30.0}
SIZES = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ff": 96}


@functools.cache
def small_tokenizer():
    """Of as many entries as the tiny models."""
    entries = ["<|end|>", "ab", *map(chr, range(97, 97 + tiny_models.VOCAB - 2))]
    vocab = {entry: i for i, entry in enumerate(entries)}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[("a", "b")]))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return tokenizer.tokenizer_class()(
        tokenizer_object=core,
        eos_token="<|end|>",
        chat_template="{{ messages[0]['content'] }}<|end|>",
        clean_up_tokenization_spaces=False,
    )


def byte_pairs(
    cut,
    *,
    special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    tags=("<tool_call>",),
    template=CHATML,
    size=340,
    first=None,
    **named,
):
    """A tokenizer of all bytes, whose text is cut as llama.cpp's `cut` says.

    Args:
      special, tags: control tokens, and added ones that are none.
      first: the control token before every text, as Llama 3 has one.
      named: which of them are its `eos_token` and so on; else those of ChatML.
    """
    core = Tokenizer(models.BPE())
    parts = json.loads(core.to_str())
    parts["model"]["ignore_merges"] = SPLITS[cut].whole
    parts["normalizer"] = SPLITS[cut].normalizer
    parts["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": SPLITS[cut].steps}
    core = Tokenizer.from_str(json.dumps(parts))
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(TEXTS * 3, trainer)
    if first:
        core.post_processor = processors.TemplateProcessing(
            single=[first, "$A"], special_tokens=[(first, core.token_to_id(first))]
        )
    core.add_tokens([AddedToken(tag, normalized=False) for tag in tags])
    named = named or {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    return tokenizer.tokenizer_class()(
        tokenizer_object=core,
        chat_template=template,
        clean_up_tokenization_spaces=False,
        **named,
    )


def gemma_pieces(*, special, template, eos_token, size=420, **named):
    """A tokenizer as Gemma has one: pieces with ▁ for a space, and all bytes.

    Args: as of `byte_pairs`; `special` has <bos> and <unk> among them.
    """
    core = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    core.normalizer = normalizers.Replace(" ", "▁")
    core.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*special, *BYTES], show_progress=False
    )
    lines = [line for text in TEXTS for line in text.split("\n")]
    core.train_from_iterator([*lines * 3, "\n\n\n\n\n"], trainer)
    parts = json.loads(core.to_str())
    # The trainer wants the bytes as special tokens; they are entries like others.
    parts["added_tokens"] = [
        token for token in parts["added_tokens"] if token["content"] in special
    ]
    core = Tokenizer.from_str(json.dumps(parts))
    core.post_processor = processors.TemplateProcessing(
        single=["<bos>", "$A"], special_tokens=[("<bos>", core.token_to_id("<bos>"))]
    )
    return tokenizer.tokenizer_class()(
        tokenizer_object=core,
        chat_template=template,
        eos_token=eos_token,
        clean_up_tokenization_spaces=False,
        **{"bos_token": "<bos>", "pad_token": "<pad>", "unk_token": "<unk>"} | named,
    )


def gemma4(**changes):
    """A small Gemma 4 whose rows are as long as blocks of Q8_0."""
    sharpness, seed = changes.pop("sharpness", 1.0), changes.pop("seed", 0)
    changes["vocab_size"] = changes.pop("vocab", tiny_models.VOCAB)
    config = gemma4_shapes.config(**GEMMA4 | changes)
    return tiny_models.of_config(config, seed, sharpness=sharpness)


def made(family, **changes):
    if family == "gemma4_text":
        return gemma4(**changes)
    gemma = GEMMA if family == "gemma3_text" else {}
    return tiny_models.model(family, **SIZES | gemma | changes)


def assert_computes(model, expected, tolerance=1e-6):
    """A model has the shape, and in a folder the tensors, that another one has."""
    assert model.config == expected.config
    theirs = weights.folder_tensors(expected)
    for name, ours in weights.folder_tensors(model).items():
        np.testing.assert_allclose(
            ours, theirs[name], tolerance, tolerance, err_msg=name
        )
