"""Tiny models of every family, with no weight left at a special value, for tests."""

import functools
import pathlib
import tempfile

import gemma4_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file

from helpers.batches import BatchSource
from helpers.generation import sampling
from helpers.model import lora, ops, weights
from helpers.model.config import ModelConfig
from helpers.model.transformer import Transformer

FAMILIES = ("gemma3_text", "qwen2", "qwen3", "llama")
VOCAB, WINDOW = 19, 4
# Two shapes of matrices, where other sizes give five: what is quantized or drawn matrix
# by matrix then compiles fewer small programs, and tests share them.
FEW_SHAPES = {"head_dim": 4, "ff": 16}


def config(family="gemma3_text", vocab=VOCAB, **changes):
    """Three layers: Gemma's are local, global, local; heads share keys in groups.

    Gemma 4 has six, of which the last two share the keys of those before, or keys are
    values, as in 31B.
    """
    if family in gemma4_shapes.NAMED:
        return gemma4_shapes.config(**gemma4_shapes.NAMED[family] | changes)
    sizes = {
        "width": 16,
        "layers": 3,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 6,
        "ff": 20,
    }
    if family == "gemma3_text":
        sizes |= {"window": WINDOW, "pattern": 2, "query_scale": 9.0}
        sizes |= {"rope_theta": 500.0, "rope_local_theta": 20.0}
    else:
        sizes |= {"rope_theta": 300.0, "tied": family == "qwen3"}
    return ModelConfig(family, vocab, **sizes | {"norm_eps": 1e-5} | changes)


def model(family="gemma3_text", seed=0, *, dtype=jnp.float32, sharpness=1.0, **changes):
    """A model whose every weight is random, norms and biases too; nothing compiles.

    Args:
      sharpness: how far apart its logits lie.
    """
    return of_config(config(family, **changes), seed, dtype, sharpness)


def of_config(config, seed=0, dtype=jnp.float32, sharpness=1.0):
    """`model`, of any config."""

    def random(name, noise, x):
        if "norm" in name or "scale" in name:
            scale = (1 + 0.3 * noise) * (sharpness if "final" in name else 1)
            if config.gemma4 and ("q_norm" in name or "k_norm" in name):
                scale *= 0.6  # nothing else keeps its scores small
            noise = scale - 1 if config.norm_plus_one else scale
        else:
            noise *= 0.5 if "bias" in name else x.shape[1] ** -0.5
        return noise

    return randomised(config, random, seed, dtype)


def randomised(config, random, seed=0, dtype=jnp.float32):
    """A model whose every weight is `random(its name, noise, its shape)`."""
    shapes = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0), dtype))
    graph, state = nnx.split(shapes)
    rng = np.random.default_rng(seed)

    def made(path, x):
        name, noise = jax.tree_util.keystr(path), rng.normal(size=x.shape)
        return jnp.asarray(random(name, noise, x), dtype)

    return nnx.merge(graph, jax.tree_util.tree_map_with_path(made, state))


def adapted(model, noise=0.3, **settings):
    """The model with adapters that are random, not zero; settings of `lora.add`."""
    model = lora.add(model, 3, **settings)
    graph, adapters, rest = nnx.split(model, lora.Adapter, ...)
    keys = iter(jax.random.split(jax.random.key(1), 99))
    noisy = jax.tree.map(
        lambda x: noise * jax.random.normal(next(keys), x.shape), adapters
    )
    return nnx.merge(graph, noisy, rest)


def tensors(made):
    """({Hugging Face name: array}, config.json) of a model, by way of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        weights.save(made, folder)
        read = load_file(pathlib.Path(folder) / "model.safetensors")
        return {k: v.astype(np.float64) for k, v in read.items()}, weights.read_config(
            folder
        )


@functools.cache
def cached_model(family="gemma3_text", seed=0, **changes):
    """The same model object for tests that only read it."""
    return model(family, seed, **changes)


@functools.cache
def cached_tensors(family="gemma3_text", seed=0, **changes):
    """`tensors` of `cached_model`."""
    return tensors(cached_model(family, seed, **changes))


def needs_bfloat16():
    """Skips a test where CPUs have no BF16 x BF16 = F32: jaxlib 0.7 raises."""
    if jax.__version_info__ < (0, 8):
        pytest.skip("this jaxlib multiplies no bfloat16 into float32 on a CPU")


def greedy(model, tokens, mask, length, images=None):
    """The likeliest answers (P, length) to prompts, none of which ends."""
    keys = sampling.row_keys(jax.random.key(0), 0, len(tokens), 1)
    settings = dict(max_tokens=length, eos_ids=(), temperature=0, images=images)
    out = sampling.generate(model, tokens, mask, keys, **settings)
    return np.asarray(out.tokens[:, 0])


def texts(count, length, seed=0, vocab=VOCAB):
    """Random token ids (count, length), int32, none of them 0 or 1."""
    rng = np.random.default_rng(seed)
    return rng.integers(2, vocab, (count, length)).astype(np.int32)


def flat_batch(rows, length=None):
    """Texts as packed rows of one example each, padded on the right with garbage."""
    length = length or max(map(len, rows))
    shape = len(rows), length
    batch = {
        "tokens": np.full(shape, 7, np.int32),
        "positions": np.tile(np.arange(length, dtype=np.int32), (len(rows), 1)),
        "segment_ids": np.zeros(shape, np.int32),
        "loss_mask": np.zeros(shape, np.float32),
    }
    for i, row in enumerate(rows):
        batch["tokens"][i, : len(row)] = row
        batch["segment_ids"][i, : len(row)] = 1
        batch["loss_mask"][i, 1 : len(row)] = 1
    return jax.tree.map(jnp.asarray, batch)


def group_batch(prompts, completions, bucket=None, budget=None, garbage=5):
    """A group batch from lists: prompts[p] and completions[p][g] are lists of ids."""
    P, G = len(prompts), len(completions[0])
    bucket = bucket or max(map(len, prompts))
    budget = budget or max(len(c) for group in completions for c in group)
    batch = {
        "prompt": np.full((P, bucket), garbage, np.int32),
        "prompt_mask": np.zeros((P, bucket), np.int32),
        "completion": np.full((P, G, budget), garbage, np.int32),
        "loss_mask": np.zeros((P, G, budget), np.float32),
    }
    for p, prompt in enumerate(prompts):
        batch["prompt"][p, : len(prompt)] = prompt
        batch["prompt_mask"][p, : len(prompt)] = 1
        for g, completion in enumerate(completions[p]):
            batch["completion"][p, g, : len(completion)] = completion
            batch["loss_mask"][p, g, : len(completion)] = 1
    return jax.tree.map(jnp.asarray, batch)


def random_groups(P=3, G=2, longest_prompt=9, longest_answer=7, seed=0):
    """(prompts, completions) of unequal lengths, as lists of ids."""
    rng = np.random.default_rng(seed)

    def text(longest):
        return rng.integers(2, VOCAB, rng.integers(1, longest + 1)).tolist()

    prompts = [text(longest_prompt) for _ in range(P)]
    completions = [[text(longest_answer) for _ in range(G)] for _ in range(P)]
    prompts[0] = rng.integers(2, VOCAB, longest_prompt).tolist()
    completions[0][0] = rng.integers(2, VOCAB, longest_answer).tolist()
    return prompts, completions


def walked_both_ways(model, token, place, prefix, monkeypatch):
    """What a model makes of single tokens, layer by layer and then by its scan.

    Args:
      token: (P, G, 1), each at this place behind the prefix, a KV.
    """
    results, calls, places = [], [], np.full(token.shape, place)
    for decodes in True, False:
        monkeypatch.setattr(
            ops, "decodes", lambda x, decodes=decodes: calls.append(x) or decodes
        )
        step = nnx.jit(lambda model: model(token, places, earlier=(prefix,)))
        results.append(step(model))
    assert len(calls) == 2
    return results


class Same(BatchSource):
    """A batch source of one batch."""

    metrics, samples = {}, []

    def __init__(self, batch):
        self.batch = batch

    def __next__(self):
        return dict(self.batch)

    def get_state(self):
        return {}
