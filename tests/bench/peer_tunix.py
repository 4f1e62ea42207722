"""Run one case with google-tunix's GRPOLearner (vanilla sampler) and PeftTrainer.

Tunix's defaults, except: EOS is a token the model cannot sample, so every answer has
full length; the KV cache has exactly the tokens needed (its notebooks add 256); one
micro-batch. beta is 0 and there is no reference model; one optimizer step per rollout.
"""

import logging
import os
import warnings

import case as bench

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# Tunix 0.1.7 reads its mesh from the `with mesh:` context, which JAX deprecates.
warnings.filterwarnings("ignore", category=DeprecationWarning)

PACKAGES = ("google-tunix", "jax", "jaxlib", "flax", "optax", "numpy")
NEVER = 10**9


class Words:
    """The tokenizer Tunix wants, for texts of `case.words`."""

    def encode(self, text, **_):
        """Token ids of a text."""
        return bench.ids(text)

    def decode(self, tokens, **_):
        """The text of token ids."""
        return " ".join(f"w{int(t)}" for t in tokens)

    def bos_id(self):
        """No beginning-of-text token: Tunix adds none for a false value."""
        return 0

    def eos_id(self):
        """The end-of-text token."""
        return bench.EOS

    def pad_id(self):
        """The padding token."""
        return bench.PAD


def one_device_mesh():
    """The mesh Tunix wants, of the one CPU device."""
    import jax

    auto = jax.sharding.AxisType.Auto
    return jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(auto, auto))


def model(case):
    """A randomly initialised Qwen3 of the case's dimensions."""
    import jax.numpy as jnp
    from flax import nnx
    from tunix.models.qwen3 import model as qwen3

    config = qwen3.ModelConfig(
        num_layers=case.layers,
        vocab_size=case.vocab,
        embed_dim=case.width,
        hidden_dim=case.ff,
        num_heads=case.heads,
        head_dim=case.head_dim,
        num_kv_heads=case.kv_heads,
        rope_theta=10_000,
        norm_eps=1e-6,
        use_tied_embedding=True,
        dtype=jnp.float32,
        param_dtype=jnp.float32,
    )
    return qwen3.Qwen3(config, rngs=nnx.Rngs(0))


def cluster(case, mesh):
    """The actor and its sampler on one device, with the AdamW that trains it."""
    import optax
    from tunix.rl import rl_cluster
    from tunix.rl.rollout.base_rollout import RolloutConfig

    with mesh:
        actor = model(case)
    roles = (rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT)
    return rl_cluster.RLCluster(
        actor=actor,
        reference=None,
        tokenizer=Words(),
        cluster_config=rl_cluster.ClusterConfig(
            role_to_mesh=dict.fromkeys(roles, mesh),
            rollout_engine="vanilla",
            offload_to_cpu=False,
            training_config=rl_cluster.RLTrainingConfig(
                actor_optimizer=optax.adamw(case.learning_rate),
                eval_every_n_steps=NEVER,
                max_steps=case.total,
                mini_batch_size=case.prompts,
                train_micro_batch_size=case.prompts,
            ),
            rollout_config=RolloutConfig(
                max_tokens_to_generate=case.answer,
                max_prompt_length=case.prompt,
                kv_cache_size=case.length,
                temperature=1.0,
                top_p=1.0,
                top_k=None,
                eos_tokens=[case.vocab],
            ),
        ),
    )


def grpo(case):
    """Train with GRPO; returns the figures."""
    import jax
    import numpy as np
    from flax import nnx
    from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner

    actors = cluster(case, one_device_mesh())
    clock, rollouts = bench.Clock(), bench.Clock()
    generate, update = actors.generate, actors.update_actor

    def checked(*args, **kwargs):
        result = generate(*args, **kwargs)
        lengths = {len(tokens) for tokens in result.tokens}
        assert lengths == {case.answer}, f"Tunix sampled answers of {lengths} tokens"
        return result

    def finished(*args, **kwargs):
        result = update(*args, **kwargs)
        jax.block_until_ready(nnx.state(actors.actor_trainer.model))
        clock.stamp()
        return result

    actors.generate = bench.timed(rollouts, checked)
    actors.update_actor = finished
    learner = GRPOLearner(
        rl_cluster=actors,
        reward_fns=bench.low_words,
        algo_config=GRPOConfig(num_generations=case.group, num_iterations=1, beta=0.0),
    )
    half = np.full(case.prompts, case.vocab // 2)
    batches = []
    for step in range(case.total):
        texts = bench.words(case, step, case.prompts, case.prompt)
        batches.append({"prompts": np.array(texts, dtype=object), "half": half})
    clock.stamp()
    learner.train(batches)
    return bench.grpo_figures(case, clock, rollouts)


def sft(case):
    """Train on random rows; returns the figures."""
    import jax
    import numpy as np
    import optax
    from flax import nnx
    from tunix.sft import peft_trainer, utils

    def inputs(example):
        real = example.input_tokens != bench.PAD
        return {
            "input_tokens": example.input_tokens,
            "input_mask": example.input_mask,
            "positions": utils.build_positions_from_mask(real),
            "attention_mask": utils.make_causal_attn_mask(real),
        }

    mesh, clock = one_device_mesh(), bench.Clock()
    with mesh:
        actor = model(case)
    config = peft_trainer.TrainingConfig(eval_every_n_steps=NEVER, max_steps=case.total)
    trainer = peft_trainer.PeftTrainer(actor, optax.adamw(case.learning_rate), config)

    def stream():
        for step in range(case.total):
            if step == case.warmup:  # Tunix schedules steps ahead: let it catch up
                jax.block_until_ready(nnx.state(trainer.model))
            clock.stamp()
            texts = bench.words(case, step, case.rows, case.length)
            tokens = np.array([bench.ids(t) for t in texts], np.int32)
            yield peft_trainer.TrainingInput(
                input_tokens=tokens, input_mask=np.ones_like(tokens)
            )

    with mesh:
        trainer.with_gen_model_input_fn(inputs).train(stream())
    jax.block_until_ready(nnx.state(trainer.model))
    clock.stamp()
    return bench.sft_figures(case, clock)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    bench.run("tunix", PACKAGES, grpo, sft)
