"""Trains tiny lessons as one of several processes, or alone on 8 simulated devices.

    python tests/distributed_run.py whole PORT INDEX FOLDER   one of two, 6 steps each
    python tests/distributed_run.py killed PORT INDEX FOLDER  process 1 dies at step 5
    python tests/distributed_run.py alone FOLDER              the same in one process,
        and from checkpoints that `whole` left there
    python tests/distributed_run.py four PORT INDEX FOLDER    one of four, which go on
        from there as well

The global batch is the same however many processes share it. What does not need a
language model is asked of a toy, which is compiled in no time.
"""

import json
import os
import shutil
import signal
import sys
import warnings
import zlib
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import toy_tools
from flax import nnx
from run_tables import without_times
from safetensors.numpy import load_file
from tiny_models import adapted
from tiny_models import model as make
from toy_training import VOCAB, Toy

from helpers.batches import prompt_batches
from helpers.course import stages
from helpers.generation.rollouts import Rollouts
from helpers.generation.tool_use import ToolUse
from helpers.model import lora, weights
from helpers.model.transformer import named_arrays
from helpers.rewards.functions import RewardError
from helpers.runtime.distributed import (
    OtherProcessFailed,
    gather,
    is_first,
    join,
    on_first,
    whole,
)
from helpers.runtime.sharding import make_mesh, place
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

STEPS, SAVE_EVERY, LAST_BEFORE_KILL = 6, 3, 4
GO_ON = {"toy": 4, "tools": 8}  # on how many devices a run of two processes goes on
COUNTS = {"whole": 2, "killed": 2, "four": 4}  # of processes
SAME = {"loss", "tokens", "reward", "length", "tied_groups", "calls"}
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


def policy(seed=0):
    return make(vocab=len(TOKENIZER), width=16, ff=24, seed=seed)


def packed(model):
    """Each example fills more than half a row, so that rows do not depend on shares."""
    pairs = [(row["question"], row["answer"]) for row in ROWS]
    examples = [chat.example_tokens(TOKENIZER, *pair) for pair in pairs]
    lengths = [len(tokens) for tokens, _ in examples]
    assert 2 * min(lengths) > max(lengths)
    return prompt_batches.packed_rows(
        examples, batch=32 // jax.process_count(), length=max(lengths), seed=0
    )


def distance(model, batch, teacher):
    """Mean over the tokens under the mask of how far a toy is from a frozen one."""
    ours, theirs = (
        toy(batch["tokens"] % VOCAB).sum(axis=-1) for toy in (model, teacher)
    )
    weight = batch["loss_mask"].sum()
    total = (jnp.square(ours - theirs) * batch["loss_mask"]).sum()
    return total / jnp.maximum(weight, 1), {"weight": weight}


def grpo(model, reward=by_text, resample=0, environment=None):
    prompts = prompt_batches.prompts(
        ROWS,
        TOKENIZER,
        batch=16 // jax.process_count(),
        buckets=(16, 20, 24, 32),
        seed=0,
    )
    settings = {"group": 2, "max_tokens": 12, "mask_truncated": False}
    settings |= {"resample": resample, "environment": environment}
    return Rollouts(model, prompts, reward, TOKENIZER, **settings)


def grpo_with_tools(model):
    """Processes need not call in the same turns, and yet must sample together."""
    use = ToolUse(toy_tools.Chatty(), [toy_tools.TWICE], turns=2, max_result_tokens=24)
    return grpo(model, environment=use)


LESSONS = {
    "toy": (lambda: distance, packed, {"accumulate": 2, "minibatches": 2}),
    "tools": (objectives.policy_gradient, grpo_with_tools, {}),
}


class Dies:
    """A batch source that ends its process before a batch."""

    def __init__(self, source):
        self.source, self.left = source, LAST_BEFORE_KILL

    def __getattr__(self, name):
        return getattr(self.source, name)

    def __next__(self):
        if not self.left and jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        return next(self.source)


def train(name, folder=None, devices=8, wrapper=lambda source: source):
    """The trained model, and its metrics without what the clock decides."""
    objective, source_of, settings = LESSONS[name]
    model = Toy() if name == "toy" else policy()
    trainer = Trainer(
        model,
        objective(),
        adamw(3e-3, b1=0.5, b2=0.5),
        frozen=[Toy(seed=1)] if name == "toy" else [],
        folder=folder,
        mesh=make_mesh(jax.devices()[:devices]),
        save_every=SAVE_EVERY,
        log=False,
        **settings,
    )
    ends = toy_tools.often_ends if name == "tools" else chat.eos_ids
    with mock.patch.object(chat, "eos_ids", ends):
        table = trainer.fit(wrapper(source_of(model)), STEPS)
    if folder:
        state = named_arrays(nnx.state(model))
        arrays = {"/".join(map(str, path)): whole(x) for path, x in state}
        if is_first():
            np.savez(folder / "final.npz", **arrays)
    return model, without_times(table)


def close(table, expected, what):
    """Losses and what was sampled, to 1e-5; what depends on the packing is left out."""
    assert [row["step"] for row in table] == list(range(1, STEPS + 1)), what
    for row, other in zip(table, expected, strict=True):
        for key in row.keys() & SAME:
            np.testing.assert_allclose(
                row[key], other[key], rtol=1e-5, atol=1e-7, err_msg=f"{what} {key}"
            )


def plain_rollouts():
    """Answers without tools, of a model that lies on all devices."""
    return next(grpo(spread(policy()), None))["completion"].tolist()


def spread(model):
    graph, state = nnx.split(model)
    return nnx.merge(graph, place(state, make_mesh()))


def check_all_draw_as_many_prompts():
    """Though ties, and so what must be replaced, differ from process to process."""
    source = grpo(spread(policy()), resample=2)
    rounds = set()
    for _ in range(3):
        next(source)
        state = source.prompts.get_state()["order"]
        assert gather(state) == [state] * 2
        rounds.add(source.metrics["rollouts"])
    assert rounds != {1.0}


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


def one_of_two(folder):
    for name in LESSONS:
        _, table = train(name, folder / name)
        file = folder / f"{name}-{jax.process_index()}.json"
        file.write_text(json.dumps(table))
    file = folder / f"rollouts-{jax.process_index()}.json"
    file.write_text(json.dumps(plain_rollouts()))
    check_all_draw_as_many_prompts()
    check_a_model_in_parts_is_saved_whole(folder)
    stages.banner("07")  # asks for memory, which only a process's own devices tell
    expected = [OtherProcessFailed, RewardError][jax.process_index()]
    try:
        next(grpo(spread(policy()), fails_in_process_1))
    except expected as error:
        assert "in the reward" in str(error)
    else:
        raise AssertionError("a reward that fails in process 1 stopped nobody here")


def alone(folder):
    for name, devices in GO_ON.items():
        two = read(folder / f"{name}-0.json")
        assert two == read(folder / f"{name}-1.json")
        _, expected = train(name)
        close(two, expected, name)
        if name == "tools":
            assert all(0 < row["calls"] < row["turns"] < 2 for row in expected)
        goes_on(folder, name, expected, devices)
    everyones = [read(folder / f"rollouts-{index}.json") for index in range(2)]
    assert [rows for pair in zip(*everyones, strict=True) for rows in pair] == (
        plain_rollouts()
    )


def read(path):
    return json.loads(path.read_text())


def goes_on(folder, name, expected, devices=8):
    """From where two processes were after step 3: the same losses, and weights."""
    moved = folder / f"{name}-in-{jax.process_count()}"
    on_first(lambda: copy_of_step_3(folder / name, moved))
    _, table = train(name, moved, devices)
    close(table, expected, moved.name)
    on_first(lambda: same_weights(moved, folder / name))


def copy_of_step_3(folder, moved):
    """A run as if it had been stopped in the middle."""
    shutil.copytree(folder, moved)
    shutil.rmtree(moved / "checkpoints" / f"{STEPS:08d}")
    (moved / "final.npz").unlink()


def same_weights(*folders):
    """Those that were saved there, to 1e-4."""
    one, other = (np.load(folder / "final.npz") for folder in folders)
    assert set(one.files) == set(other.files) and one.files
    for name in one.files:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    if sys.argv[1] != "alone":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        join(f"localhost:{sys.argv[2]}", COUNTS[sys.argv[1]], int(sys.argv[3]))
    assert len(jax.devices()) == 8
    what, folder = sys.argv[1], Path(sys.argv[-1])
    if what == "whole":
        one_of_two(folder)
    elif what == "four":
        goes_on(folder, "toy", read(folder / "toy-0.json"))
    elif what == "killed":
        train("toy", folder, wrapper=Dies)
    else:
        alone(folder)
    print("all the same")
