"""Compile google-tunix's own GRPO loss and gradient for one v5e chip (`tpu_peers.py`).

Runs in Tunix's environment. Its defaults, except: no KL (beta 0) and layers recomputed
in the backward pass (`RematConfig.BLOCK`), without which far less fits.
"""

import json
import sys

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import SingleDeviceSharding
from tunix.models.gemma3 import model as gemma3
from tunix.rl import algo_core, common
from tunix.rl.grpo.grpo_learner import GRPOConfig

from helpers.tpu import compiler


def main(rows, prompt_tokens, completion_tokens):
    """Print the report of one batch as JSON."""
    config = gemma3.ModelConfig.gemma3_270m()
    config.remat_config = gemma3.RematConfig.BLOCK
    model = nnx.eval_shape(lambda: gemma3.Gemma3(config, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(model)
    chip = SingleDeviceSharding(compiler.devices("v5e-1")[0])

    def there(shape, dtype):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=chip)

    completion = (rows, completion_tokens)
    example = common.TrainExample(
        prompt_ids=there((rows, prompt_tokens), jnp.int32),
        prompt_mask=there((rows, prompt_tokens), jnp.int32),
        completion_ids=there(completion, jnp.int32),
        completion_mask=there(completion, jnp.int32),
        advantages=there((rows,), jnp.float32),
        ref_per_token_logps=None,
        old_per_token_logps=there(completion, jnp.float32),
    )

    settings = GRPOConfig(beta=0.0)
    settings.temperature = 1.0  # the learner copies it there from the rollouts

    def loss(state, example):
        return algo_core.grpo_loss_fn(
            nnx.merge(graph, state), example, settings, pad_id=0, eos_id=1
        )[0]

    state = jax.tree.map(lambda x: there(x.shape, x.dtype), state)
    report = compiler.compile_for(
        "v5e-1", jax.jit(jax.value_and_grad(loss)), state, example
    )
    print(json.dumps({"hbm_gb": report.hbm_gb, **vars(report)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
