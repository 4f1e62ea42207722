"""Run one case with this course's Trainer, as the notebooks do.

The public path from end to end: `Rollouts` over `prompt_batches.prompts` (its clock
includes decoding the answers and the rewards, which the peers' clocks leave out), the
`policy_gradient` and `sft` objectives, AdamW. No id ends an answer, so every answer
has full length. One optimizer step per rollout, beta 0, no reference.

The model keeps what its products with weights gave (`remat = "cheap"`), as it would
wherever memory is not scarce; the peers compute nothing twice.

The trainer cuts a batch into pieces that a CPU's caches hold (`accumulate=None`, its
default). The peers get the whole batch at once, as is their default; told by hand to
take it in four micro-batches (width 128, CPU-seconds a GRPO step at 64+64 / 256+64),
Tunix goes from 2.1 / 7.7 to 1.4 / 4.8, TRL from 2.0 / 4.4 to 1.7 / 5.0.

Updates and sampling are compiled with LLVM's level 1 (`helpers.runtime.platform`).
Given the same by XLA_FLAGS, Tunix's first step goes from 17.6 to 14.6 s and its GRPO
step from 5.8 to 6.2 CPU-seconds (width 256, 64+64, one run each on a machine with other
tenants).
"""

import os
import statistics
import sys
import time
from unittest import mock

import case as bench

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "transformers")
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %} <eos>{% endif %}{% endfor %}"
)


class Timed:
    """A batch source that stamps its clocks whenever the trainer asks for a batch.

    Args:
      source: the batch source that does the work.
      model: being trained; a step has ended when its weights are there.
    """

    longest = limit = 0

    def __init__(self, source, model):
        self.source, self.model = source, model
        self.steps, self.batches = bench.Clock(), bench.Clock()

    def send(self, wrt):
        """Nobody samples elsewhere."""

    @property
    def metrics(self):
        """The source's numbers about its last batch."""
        return self.source.metrics

    @property
    def samples(self):
        """The source's sampled answers of its last batch."""
        return self.source.samples

    def __next__(self):
        import jax
        from flax import nnx

        if self.batches.stamps:
            jax.block_until_ready(nnx.state(self.model))
            self.steps.stamp()
        return bench.timed(self.batches, lambda: next(self.source))()


def model(case):
    """A randomly initialised model of the case's dimensions."""
    import jax.numpy as jnp
    from flax import nnx

    from helpers.model import lora
    from helpers.model.config import ModelConfig
    from helpers.model.transformer import Transformer

    config = ModelConfig(
        family=case.family,
        vocab_size=case.vocab,
        width=case.width,
        layers=case.layers,
        heads=case.heads,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        ff=case.ff,
    )
    policy = Transformer(config, rngs=nnx.Rngs(0), dtype=jnp.dtype(case.dtype))
    if case.lora_rank:
        policy = lora.add(policy, case.lora_rank)
    policy.remat = case.remat
    return policy


def device_gb():
    """The most memory of a device that was in use so far; 0 where nobody counts."""
    import jax

    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    return max(stat.get("peak_bytes_in_use", 0) for stat in stats) / 1e9


def fit(case, actor, objective, source):
    """Train for the case's steps; returns the source with its clocks stamped."""
    import jax
    from flax import nnx

    from helpers.training.optimizers import adamw
    from helpers.training.trainer import Trainer

    trainer = Trainer(
        actor,
        objective,
        adamw(case.learning_rate),
        minibatches=case.minibatches,
        accumulate=case.pieces // case.minibatches or None,
    )
    source = Timed(source, actor)
    source.steps.stamp()
    trainer.fit(source, case.total)
    jax.block_until_ready(nnx.state(actor))
    source.steps.stamp()
    return source


def grpo(case):
    """Train with GRPO; returns the figures."""
    from helpers.batches import prompt_batches
    from helpers.generation.rollouts import Rollouts
    from helpers.rewards.functions import RewardSet
    from helpers.text import chat
    from helpers.training import objectives

    tokenizer = bench.word_tokenizer(case, eos=case.vocab, chat_template=TEMPLATE)
    texts = bench.words(case, 0, case.prompts * case.total, case.prompt)
    rows = [{"question": text, "half": case.vocab // 2} for text in texts]
    actor = model(case)
    source = Rollouts(
        actor,
        prompt_batches.prompts(
            rows, tokenizer, batch=case.prompts, buckets=(case.prompt,), seed=0
        ),
        RewardSet([(bench.low_words, 1.0)]),
        tokenizer,
        group=case.group,
        max_tokens=case.answer,
        mask_truncated=False,
    )
    # As in the peers, every answer is full; the patch ends with the run.
    with mock.patch.object(chat, "eos_ids", return_value=()):
        objective = objectives.policy_gradient(chunk=case.chunk)
        timed = fit(case, actor, objective, source)
    assert source.metrics["length"] == case.answer, source.metrics
    figures = bench.grpo_figures(case, timed.steps, timed.batches)
    return figures | {"device_gb": device_gb()}


def sft(case):
    """Train on random rows; returns the figures."""
    from helpers.batches import prompt_batches
    from helpers.training import objectives

    texts = bench.words(case, 1, case.rows * case.total, case.length)
    examples = [(bench.ids(text), [1] * case.length) for text in texts]
    source = prompt_batches.packed_rows(
        examples, batch=case.rows, length=case.length, seed=0
    )
    timed = fit(case, model(case), objectives.sft(case.chunk), source)
    return bench.sft_figures(case, timed.steps) | {"device_gb": device_gb()}


def decode(case):
    """Sample answers and nothing else; returns the figures, with what limits them."""
    import jax
    import numpy as np
    from flax import nnx

    from helpers.generation import sampling
    from helpers.model import lora

    actor, clock = model(case), bench.Clock()
    texts = bench.words(case, 0, case.prompts, case.prompt)
    prompts = np.array([bench.ids(text) for text in texts], np.int32)
    clock.stamp()
    for step in range(case.total):
        keys = sampling.row_keys(jax.random.key(0), step, case.prompts, case.group)
        answers = sampling.generate(
            actor,
            prompts,
            np.ones_like(prompts),
            keys,
            max_tokens=case.answer,
            eos_ids=(),
        )
        jax.block_until_ready(answers)
        clock.stamp()
    seconds = statistics.median(clock.spans(0)[case.warmup :])
    peak = device_gb()  # before the copies below
    # Every pass reads the weights (adapters are merged), each prompt's keys and values
    # once for its group, and those of the answers so far.
    weights = jax.tree.leaves(nnx.state(lora.remove(actor), nnx.Param))
    kept = 2 * case.layers * case.kv_heads * case.head_dim * weights[0].dtype.itemsize
    so_far = case.rows * (case.answer + 1) / 2
    read = sum(x.nbytes for x in weights) + kept * (case.prompts * case.prompt + so_far)
    return {
        "decode_wall_s": seconds,
        "rollout_tok_s": case.rows * case.answer / seconds,
        "limit_tok_s": case.rows * bandwidth(2**26 if case.gpu else 2**20) / read,
        "device_gb": peak,
    }


def bandwidth(numbers, turns=20):
    """Bytes a second that a device reads and writes when it copies float32 numbers."""
    import jax
    import jax.numpy as jnp

    add = jax.jit(lambda x: x + 1)
    x = jax.block_until_ready(add(jnp.zeros(numbers)))
    begin = time.perf_counter()
    for _ in range(turns):
        x = add(x)
    jax.block_until_ready(x)
    return turns * 2 * x.nbytes / (time.perf_counter() - begin)


if __name__ == "__main__":
    bench.run("ours", PACKAGES, grpo, sft, decode)
