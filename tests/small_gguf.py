"""Small models and a tokenizer that llama.cpp could run, for tests of GGUF."""

import functools

import jax.numpy as jnp
import numpy as np
import tiny_models
from tokenizers import Tokenizer, models, pre_tokenizers

from helpers.text import tokenizer

# What llama.cpp builds into Gemma 3.
GEMMA = {"pattern": 6, "rope_local_theta": 1e4, "query_scale": 32.0, "layers": 6}
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


def made(family, **changes):
    gemma = GEMMA if family == "gemma3_text" else {}
    return tiny_models.model(family, **SIZES | gemma | changes)


def logits(model):
    tokens = jnp.arange(2 * 9).reshape(2, 1, 9) % tiny_models.VOCAB
    positions = jnp.broadcast_to(jnp.arange(9), tokens.shape)
    hidden, _ = model(tokens, positions)
    return np.asarray(model.reader()(hidden.reshape(-1, hidden.shape[-1])))
