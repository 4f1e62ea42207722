"""Small models and tokenizers that llama.cpp could run, for tests of GGUF."""

import functools
import json

import jax.numpy as jnp
import numpy as np
import tiny_models
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)

from helpers.text import tokenizer
from helpers.text.gguf_cuts import CUTS

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
    parts["model"]["ignore_merges"] = CUTS[cut].whole
    parts["normalizer"] = CUTS[cut].normalizer
    parts["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": CUTS[cut].steps}
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


def made(family, **changes):
    gemma = GEMMA if family == "gemma3_text" else {}
    return tiny_models.model(family, **SIZES | gemma | changes)


def logits(model):
    tokens = jnp.arange(2 * 9).reshape(2, 1, 9) % tiny_models.VOCAB
    positions = jnp.broadcast_to(jnp.arange(9), tokens.shape)
    hidden, _ = model(tokens, positions)
    return np.asarray(model.reader()(hidden.reshape(-1, hidden.shape[-1])))
