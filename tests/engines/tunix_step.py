"""One step of Tunix's GRPOLearner with our model and our rewards; see handover.py."""

import importlib.metadata
import json
import pathlib
import sys
import warnings

import conversations
import jax
import numpy as np
import optax
import recorded_rewards
import tunix_weights
from flax import nnx
from transformers import AutoTokenizer
from tunix.rl import rl_cluster
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner
from tunix.rl.rollout.base_rollout import RolloutConfig

warnings.filterwarnings("ignore", category=DeprecationWarning)
NEVER = 10**9
PROMPT = 96  # tokens


def cluster(actor, tokenizer, inputs, mesh):
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
                mini_batch_size=len(inputs["rows"]),
                train_micro_batch_size=len(inputs["rows"]),
            ),
            rollout_config=RolloutConfig(
                max_tokens_to_generate=inputs["max_tokens"],
                max_prompt_length=PROMPT,
                kv_cache_size=PROMPT + inputs["max_tokens"],
                temperature=1.0,
                top_p=1.0,
                top_k=None,
            ),
        ),
    )


def scored(learner):
    """What the learner's own call of rewards says of hand-written turns.

    Tunix tells rewards texts, and adds up their scores: they are called one by one.
    """
    texts, portions, _ = zip(*conversations.in_one_turn(), strict=True)
    columns = []
    for reward in conversations.rewards():
        learner.reward_manager.reward_fns = [reward]
        columns.append(
            learner.reward_manager(
                prompts=["How much is it?"] * len(texts),
                completions=list(texts),
                portions=list(portions),
            )["rewards"].tolist()
        )
    return list(zip(*columns, strict=True))


def main():
    """Takes the step that the file of the command line asks for."""
    inputs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(auto, auto))
    tokenizer = AutoTokenizer.from_pretrained(inputs["model"])
    with mesh:
        actor, _ = tunix_weights.load(pathlib.Path(inputs["model"]), mesh)
    before = [np.array(x) for x in jax.tree.leaves(nnx.state(actor, nnx.Param))]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": row["question"]}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for row in inputs["rows"]
    ]
    batch = {
        "prompts": np.array(prompts, dtype=object),
        "answer": np.array([row["answer"] for row in inputs["rows"]], dtype=object),
    }
    notes: dict = {}
    actors = cluster(actor, tokenizer, inputs, mesh)
    learner = GRPOLearner(
        rl_cluster=actors,
        reward_fns=recorded_rewards.recording(notes),
        algo_config=GRPOConfig(
            num_generations=inputs["group"], num_iterations=1, beta=0.0
        ),
    )
    learner.train([batch])
    model = actors.actor_trainer.model
    after = [np.array(x) for x in jax.tree.leaves(nnx.state(model, nnx.Param))]
    pairs = zip(before, after, strict=True)
    results = {
        "version": importlib.metadata.version("google-tunix"),
        "rewards": notes,
        "moved": max(float(np.abs(a - b).max()) for a, b in pairs),
    }
    turns = conversations.in_one_turn()
    conversations.require(scored(learner), [row for *_, row in turns], "tunix")
    results["conversations"] = len(turns)
    pathlib.Path(inputs["out"]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
