"""One step of Tunix's GRPOLearner with our model and our rewards; see handover.py."""

import importlib.metadata
import json
import pathlib
import sys
import warnings

import heard
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from transformers import AutoTokenizer
from tunix.models.qwen3 import model as qwen3
from tunix.models.qwen3 import params
from tunix.rl import rl_cluster
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner
from tunix.rl.rollout.base_rollout import RolloutConfig

warnings.filterwarnings("ignore", category=DeprecationWarning)
NEVER = 10**9
PROMPT = 96  # tokens


def load(folder, mesh):
    """Our folder, by Tunix's loader of safetensors."""
    told = json.loads((pathlib.Path(folder) / "config.json").read_text())
    config = qwen3.ModelConfig(
        num_layers=told["num_hidden_layers"],
        vocab_size=told["vocab_size"],
        embed_dim=told["hidden_size"],
        hidden_dim=told["intermediate_size"],
        num_heads=told["num_attention_heads"],
        head_dim=told["head_dim"],
        num_kv_heads=told["num_key_value_heads"],
        rope_theta=int(told["rope_theta"]),
        norm_eps=told["rms_norm_eps"],
        use_tied_embedding=True,
        dtype=jnp.float32,
        param_dtype=jnp.float32,
    )
    return params.create_model_from_safe_tensors(
        str(folder), config, mesh, dtype=jnp.float32
    )


def gap(model, folder):
    """The largest difference between its logits and ours."""
    ours = np.load(pathlib.Path(folder) / "logits.npy")
    tokens = jnp.arange(3, 43, dtype=jnp.int32).reshape(2, 20)
    places = jnp.broadcast_to(jnp.arange(20), tokens.shape)
    seen = jnp.broadcast_to(jnp.tril(jnp.ones((20, 20), bool)), (2, 20, 20))
    logits, _ = model(tokens, places, None, seen)
    return float(np.abs(np.asarray(logits) - ours).max())


def cluster(actor, tokenizer, asked, mesh):
    """The actor and its sampler on one device."""
    roles = (rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT)
    return rl_cluster.RLCluster(
        actor=actor,
        reference=None,
        tokenizer=tokenizer,
        cluster_config=rl_cluster.ClusterConfig(
            role_to_mesh=dict.fromkeys(roles, mesh),
            rollout_engine="vanilla",
            offload_to_cpu=False,
            training_config=rl_cluster.RLTrainingConfig(
                actor_optimizer=optax.adamw(1e-4),
                eval_every_n_steps=NEVER,
                max_steps=1,
                mini_batch_size=len(asked["rows"]),
                train_micro_batch_size=len(asked["rows"]),
            ),
            rollout_config=RolloutConfig(
                max_tokens_to_generate=asked["max_tokens"],
                max_prompt_length=PROMPT,
                kv_cache_size=PROMPT + asked["max_tokens"],
                temperature=1.0,
                top_p=1.0,
                top_k=None,
            ),
        ),
    )


def main():
    """Takes the step that the file of the command line asks for."""
    asked = json.loads(pathlib.Path(sys.argv[1]).read_text())
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(auto, auto))
    tokenizer = AutoTokenizer.from_pretrained(asked["model"])
    with mesh:
        actor = load(asked["model"], mesh)
        apart = gap(actor, asked["model"])
    before = [np.array(x) for x in jax.tree.leaves(nnx.state(actor, nnx.Param))]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": row["question"]}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for row in asked["rows"]
    ]
    batch = {
        "prompts": np.array(prompts, dtype=object),
        "answer": np.array([row["answer"] for row in asked["rows"]], dtype=object),
    }
    notes: dict = {}
    actors = cluster(actor, tokenizer, asked, mesh)
    learner = GRPOLearner(
        rl_cluster=actors,
        reward_fns=heard.noted(notes),
        algo_config=GRPOConfig(
            num_generations=asked["group"], num_iterations=1, beta=0.0
        ),
    )
    learner.train([batch])
    model = actors.actor_trainer.model
    after = [np.array(x) for x in jax.tree.leaves(nnx.state(model, nnx.Param))]
    pairs = zip(before, after, strict=True)
    found = {
        "version": importlib.metadata.version("google-tunix"),
        "rewards": notes,
        "moved": max(float(np.abs(a - b).max()) for a, b in pairs),
        "gap": apart,
    }
    pathlib.Path(asked["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
