"""Trains tiny lessons as one of two processes, or alone on 8 simulated devices.

The global batch is the same however many processes share it. What does not need a
language model is asked of `distributed_toy`, which is compiled in no time.
"""

import json
import warnings
import zlib
from unittest import mock

import distributed_toy
import jax
import numpy as np
import toy_environments
import toy_tools
from distributed_toy import close, goes_on, read
from flax import nnx
from safetensors.numpy import load_file
from tiny_models import adapted
from tiny_models import model as make

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.generation.rollouts import Rollouts
from helpers.model import lora, weights
from helpers.model.transformer import named_arrays
from helpers.rewards.functions import RewardError
from helpers.runtime.distributed import OtherProcessFailed
from helpers.runtime.sharding import make_mesh, place
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.training import objectives

GO_ON = {"toy": 4, "tools": 8}  # on how many devices a run of two processes goes on
TOKENIZER = train_tokenizer(["Mia has two apples and nine pears."], 300)
ROWS = [
    {"question": f"{i} pears?" + " Mia" * (i % 3), "answer": f"#### {i}"}
    for i in range(40)
]


def by_text(prompts, completions, **_):
    return [zlib.crc32(str(text).encode()) % 7 / 6 for text in completions]


def fails_in_process_1(prompts, completions, **_):
    if jax.process_index() == 1:
        raise ZeroDivisionError("in the reward")
    return by_text(prompts, completions)


def policy():
    """Two layers of the family with the fewest operations."""
    return make("llama", vocab=len(TOKENIZER), width=16, ff=24, layers=2)


def grpo(model, reward=by_text, environment=None):
    prompts = prompt_batches.prompts(
        ROWS,
        TOKENIZER,
        batch=16 // jax.process_count(),
        buckets=(16, 20, 24, 32),
        seed=0,
        environment=environment,
    )
    settings = {"group": 2, "max_tokens": 12, "mask_truncated": False}
    settings |= {"environment": environment}
    return Rollouts(model, prompts, reward, TOKENIZER, **settings)


def grpo_with_tools(model):
    """Processes need not call in the same turns, and yet must sample together."""
    use, reward = toy_environments.make("trl", turns=2, reply=24)
    return grpo(model, reward, use)


def tools():
    """A lesson like `distributed_toy.toy`."""
    model = policy()
    return model, objectives.policy_gradient(), grpo_with_tools(model), {}


LESSONS = {"toy": distributed_toy.toy, "tools": tools}


def plain_rollouts():
    """Answers without tools, of a model that lies on all devices."""
    return next(grpo(spread(policy()), None))["completion"].tolist()


def spread(model):
    graph, state = nnx.split(model)
    return nnx.merge(graph, place(state, make_mesh()))


def check_a_model_in_parts_is_saved_whole(folder):
    """Adapted int8 that lies in both processes; each reads it onto its own devices."""
    alone = adapted(lora.quantize(policy()), targets=("q", "down"))
    model = spread(alone)
    assert not model.layers.q.is_fully_addressable
    weights.save(model, folder / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lora.save(model, folder / "adapters")
    back = weights.load(folder / "model")
    assert set(back.embed.devices()) <= set(jax.local_devices())
    states = nnx.state(lora.merge(alone)), nnx.state(back)
    expected, ours = (dict(named_arrays(state)) for state in states)
    for path, x in expected.items():
        np.testing.assert_allclose(ours[path], x, rtol=1e-6, atol=1e-6, err_msg=path)
    stored = load_file(folder / "adapters" / "adapter_model.safetensors")
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"
    np.testing.assert_array_equal(stored[name], alone.layers.q_b[...][1].T)


@mock.patch.object(chat, "eos_ids", toy_tools.often_ends)
def whole(port, index, folder):
    """One of two processes, which train 6 steps of each lesson."""
    distributed_toy.begin(port, index)
    for name, lesson in LESSONS.items():
        table = distributed_toy.train(lesson, folder / name)
        file = folder / f"{name}-{jax.process_index()}.json"
        file.write_text(json.dumps(table))
    file = folder / f"rollouts-{jax.process_index()}.json"
    file.write_text(json.dumps(plain_rollouts()))
    check_a_model_in_parts_is_saved_whole(folder)
    stages.banner("07")  # asks for memory, which only a process's own devices tell
    expected = [OtherProcessFailed, RewardError][jax.process_index()]
    try:
        next(grpo(spread(policy()), fails_in_process_1))
    except expected as error:
        assert "in the reward" in str(error)
    else:
        raise AssertionError("a reward that fails in process 1 stopped nobody here")


@mock.patch.object(chat, "eos_ids", toy_tools.often_ends)
def alone(folder):
    """The same in one process, and from checkpoints that `whole` left there."""
    for name, lesson in LESSONS.items():
        two = read(folder / f"{name}-0.json")
        assert two == read(folder / f"{name}-1.json")
        expected = distributed_toy.train(lesson)
        close(two, expected, name)
        if name == "tools":
            assert all(0 < row["calls"] < row["turns"] < 2 for row in expected)
        goes_on(lesson, folder, name, expected, GO_ON[name])
    everyones = [read(folder / f"rollouts-{index}.json") for index in range(2)]
    assert [rows for pair in zip(*everyones, strict=True) for rows in pair] == (
        plain_rollouts()
    )
