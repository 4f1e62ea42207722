"""The course's real programs as shapes, ready to be compiled for a slice of TPUs.

`update` and `rollout` return (jitted function, its abstract arguments) for
`tpu.compile_for`: the trainer's update and the sampler's rollout. `example_loss` is a
program small enough to see where its time goes.
"""

import functools
import gzip
import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from helpers.generation import sampling
from helpers.generation.next_token import tempering
from helpers.model import lora
from helpers.model.gemma4 import keep_on_host
from helpers.model.ops import rms_norm
from helpers.model.transformer import Transformer
from helpers.runtime.platform import ROOT
from helpers.runtime.sharding import shardings
from helpers.training import optimizers
from helpers.training.update import build_update

# (layers, tokens, width, inner width) of the example, as in Qwen2.5-0.5B.
EXAMPLE = 24, 4096, 896, 4864


def abstract_model(
    config, rank=0, stored="", dtype=jnp.bfloat16, table_on_host=False, frozen=False
):
    """A model without numbers: LoRA on a frozen base, or all of it trained in float32.

    Args:
      rank: of the adapters; 0 trains everything, and then weights are float32.
      stored: how the frozen base is stored, one of `quantized.KINDS`; "" is `dtype`.
      dtype: of a frozen base, and of all activations.
      table_on_host: whether Gemma 4's per-layer table is in the host's memory.
      frozen: never trained, as a teacher, or a model to evaluate.
    """
    weights = dtype if rank or frozen else jnp.float32

    def build():
        model = Transformer(config, nnx.Rngs(0), weights, activations=dtype)
        model = lora.quantize(model, stored) if stored else model
        model = keep_on_host(model) if table_on_host else model
        return lora.add(model, rank) if rank else model

    return nnx.eval_shape(build)


def _placed(state, mesh):
    return jax.tree.map(
        lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
        state,
        shardings(state, mesh),
    )


def _moments(params, optimizer, mesh):
    """The optimizer's first state, as the trainer makes it."""
    state = jax.eval_shape(
        lambda p: optimizers.first_state(optimizer.transform, p), params
    )
    return _placed(state, mesh)


def update(
    model, objective, optimizer, batch, mesh, *, minibatches=1, accumulate=1, frozen=()
):
    """The trainer's step on one batch.

    Args:
      model: abstract; its adapters are trained, or everything if it has none.
      batch: {name: (shape, dtype)} of one whole batch, rows first.
      minibatches, accumulate: updates, and pieces of each.
      frozen: abstract modules that the objective is given.
    """
    graph, *states = nnx.split(model, lora.trainable(model), ...)
    opt_state = _moments(states[0], optimizer, mesh)
    teachers = [_placed(nnx.state(module), mesh) for module in frozen]
    params, fixed = (_placed(state, mesh) for state in states)
    layout = NamedSharding(mesh, PartitionSpec(None, None, "data"))
    cut = minibatches, accumulate
    pieces = {
        name: jax.ShapeDtypeStruct(
            (*cut, rows // math.prod(cut), *shape), dtype, sharding=layout
        )
        for name, ((rows, *shape), dtype) in batch.items()
    }
    graphs = [nnx.graphdef(module) for module in frozen]
    step = build_update(objective, optimizer.transform, graph, graphs)
    places = jax.tree.map(lambda x: x.sharding, (params, opt_state))
    jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=(*places, None))
    everywhere = NamedSharding(mesh, PartitionSpec())
    rate = jax.ShapeDtypeStruct((), jnp.float32, sharding=everywhere, weak_type=True)
    return jitted, (params, opt_state, fixed, teachers, pieces, rate)


def moments_gb(model, optimizer, mesh) -> float:
    """GiB of optimizer state on a chip: it stays there while answers are sampled."""
    params = nnx.state(model, lora.trainable(model))
    return _gb_a_chip(_moments(params, optimizer, mesh))


def model_gb(model, mesh) -> float:
    """GiB of a model on a chip, without what is in the host's memory."""
    return _gb_a_chip(_placed(nnx.state(model), mesh))


def _gb_a_chip(state):
    return sum(
        math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize / 2**30
        for x in jax.tree.leaves(state)
        if x.sharding.memory_kind != "pinned_host"
    )


def group_batch(prompts, group, prompt_tokens, completion_tokens, vision=None):
    """Shapes of a batch of rollouts; with a VisionConfig, of one picture a prompt."""
    P, G, Tp, Tc = prompts, group, prompt_tokens, completion_tokens
    return _pictures(P, vision) | {
        "prompt": ((P, Tp), jnp.int32),
        "prompt_mask": ((P, Tp), jnp.int32),
        "completion": ((P, G, Tc), jnp.int32),
        "loss_mask": ((P, G, Tc), jnp.float32),
        "logprobs": ((P, G, Tc), jnp.float32),
        "advantages": ((P, G), jnp.float32),
    }


def _pictures(rows, vision):
    if vision is None:
        return {}
    return {"images": ((rows, 1, *vision.shape), jnp.uint8)}


def packed_batch(rows, length, vision=None):
    """Shapes of a batch of packed rows; with a VisionConfig, of one picture a row."""
    names = ("tokens", "positions", "segment_ids")
    batch = {name: ((rows, length), jnp.int32) for name in names}
    batch["loss_mask"] = ((rows, length), jnp.float32)
    return _pictures(rows, vision) | batch


def rollout(
    model, prompts, group, prompt_tokens, completion_tokens, mesh, greedy=False
):
    """Prefill and decoding of one batch of prompts, as rollouts or evaluation.

    Where the model can see, every prompt has a picture.
    """
    graph, state = nnx.split(model)
    one = NamedSharding(mesh, PartitionSpec())

    def rows(shape, dtype):
        layout = NamedSharding(mesh, PartitionSpec("data"))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=layout)

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), (prompts, group)))
    tokens = rows((prompts, prompt_tokens), jnp.int32)
    number = jax.ShapeDtypeStruct((), jnp.float32, sharding=one)
    images = [rows(*each) for each in _pictures(prompts, model.config.vision).values()]
    heat = number if greedy else tempering(1.0)
    batch = [tokens, tokens, rows(keys.shape, keys.dtype), *images]
    limits = sampling.Limits(completion_tokens, (1,), greedy)
    generate = functools.partial(sampling._generate.plain, graph, limits=limits)
    return jax.jit(generate), (_placed(state, mesh), batch, heat)


def example_loss(weights, x, again):
    """Mean square of what feed-forward layers with norms make of x; `again`: remat."""

    def layer(x, w):
        norm, gate, up, down = w
        y = rms_norm(x, norm, 1e-6, False)
        return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down, None

    x, _ = jax.lax.scan(jax.checkpoint(layer) if again else layer, x, weights)
    return jnp.mean(jnp.square(x.astype(jnp.float32)))


def example_file(again: bool):
    """Where `make tpu-check TPU_ARGS=--example` writes the example's compiled text."""
    name = f"feed_forward_{'again' if again else 'kept'}.hlo.gz"
    return ROOT / "data" / "programs" / name


def example_text(again: bool) -> str:
    """The example with its gradient by all weights, as compiled for one v5e chip.

    Args:
      again: whether a layer is computed again in the backward pass, instead of kept.
    """
    return gzip.decompress(example_file(again).read_bytes()).decode()
