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
import sys
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
    """A randomly initialised Qwen3 of the case's dimensions."""
    from flax import nnx

    from helpers.model.config import ModelConfig
    from helpers.model.transformer import Transformer

    config = ModelConfig(
        family="qwen3",
        vocab_size=case.vocab,
        width=case.width,
        layers=case.layers,
        heads=case.heads,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        ff=case.ff,
    )
    policy = Transformer(config, rngs=nnx.Rngs(0))
    policy.remat = "cheap"
    return policy


def fit(case, actor, objective, source):
    """Train for the case's steps; returns the source with its clocks stamped."""
    import jax
    from flax import nnx

    from helpers.training.optimizers import adamw
    from helpers.training.trainer import Trainer

    trainer = Trainer(actor, objective, adamw(case.learning_rate))
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
        timed = fit(case, actor, objectives.policy_gradient(), source)
    assert source.metrics["length"] == case.answer, source.metrics
    return bench.grpo_figures(case, timed.steps, timed.batches)


def sft(case):
    """Train on random rows; returns the figures."""
    from helpers.batches import prompt_batches
    from helpers.training import objectives

    texts = bench.words(case, 1, case.rows * case.total, case.length)
    examples = [(bench.ids(text), [1] * case.length) for text in texts]
    source = prompt_batches.packed_rows(
        examples, batch=case.rows, length=case.length, seed=0
    )
    return bench.sft_figures(
        case, fit(case, model(case), objectives.sft(), source).steps
    )


if __name__ == "__main__":
    bench.run("ours", PACKAGES, grpo, sft)
