"""Lessons and sampling on 8 simulated devices, and on one.

Run by `sharded.py` with the name of a lesson, or "sampling".
"""

import copy
import tempfile
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import toy_environments
import toy_tools
from flax import nnx
from sharded_saving import spread
from tiny_models import adapted
from tiny_models import model as make

from helpers import serving
from helpers.batches import preference_pairs, prompt_batches
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import generate, row_keys
from helpers.losses.distillation import reverse_kl
from helpers.model import attention, layer, lora, weights
from helpers.runtime.sharding import gathered, make_mesh
from helpers.serving import DraftModel, Engine, Request
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

TOKENIZER = train_tokenizer(["Mia has two apples and nine pears."], 300)
ROWS = [
    {"question": f"{i} pears?" + " Mia" * (i % 3), "answer": f"#### {i}"}
    for i in range(32)
]
STEPS = 3


def policy(seed=0, dtype=jnp.float32):
    """Of the family with the fewest operations; `sharded_run` trains a Gemma."""
    sizes = {"vocab": len(TOKENIZER), "width": 16, "ff": 24, "layers": 2}
    return make("llama", seed, dtype=dtype, **sizes)


def mixed_policy():
    """A frozen bfloat16 base whose activations and adapters are float32."""
    model = policy(dtype=jnp.bfloat16)
    model.activations = "float32"
    return lora.add(model, 4)


def adapted_policy():
    """A base whose matrices are cut over two devices, and adapters."""
    return lora.add(policy(), 4)


POLICIES = {"mixed": mixed_policy, "cut": adapted_policy}


class Remembered(Rollouts):
    """Rollouts that keep every batch."""

    def __next__(self):
        self.batches = [*getattr(self, "batches", []), super().__next__()]
        return self.batches[-1]


def rollouts(model):
    """Conversations whose turns are rows of their own."""
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.chat_template = toy_environments.SCRIPTED
    use, reward = toy_environments.make("drop", turns=2, reply=24)
    source = prompt_batches.prompts(
        ROWS, tokenizer, batch=8, buckets=(32,), seed=0, environment=use
    )
    settings = {"group": 2, "max_tokens": 12, "mask_truncated": False}
    return Remembered(model, source, reward, tokenizer, environment=use, **settings)


def sft_rows(_):
    examples = [
        chat.example_tokens(TOKENIZER, row["question"], row["answer"]) for row in ROWS
    ]
    return prompt_batches.packed_rows(examples, batch=8, length=64, seed=0)


def preferred(_):
    """Pairs of answers of unequal lengths."""
    rows = [
        {"question": row["question"], "chosen": row["answer"], "rejected": "Mia has"}
        for row in ROWS
    ]
    shape = {"batch": 8, "buckets": (32,), "max_tokens": 20}
    return preference_pairs.pairs(rows, TOKENIZER, **shape, seed=0)


LESSONS = {
    "dpo": (objectives.dpo, preferred, True),
    "mixed": (objectives.sft, sft_rows, False),
    "cut": (lambda: objectives.distillation(reverse_kl), rollouts, True),
}


def train(name, devices):
    """(metrics table, batches, final weights) of a lesson on so many devices."""
    objective, source_of, with_teacher = LESSONS[name]
    if name == "cut":  # products of adapters go together with those beside them
        layer.MANY = layer.LONG = attention.JOINED = 1
    model = POLICIES.get(name, policy)()
    source = source_of(model)
    trainer = Trainer(
        model,
        objective(),
        adamw(3e-3, b1=0.5, b2=0.5),
        frozen=(policy(1),) if with_teacher else (),
        mesh=make_mesh(
            jax.devices()[:devices], min(devices, 2) if name == "cut" else 1
        ),
        log=False,
    )
    table = trainer.fit(source, STEPS)
    return table, getattr(source, "batches", []), nnx.state(model)


@mock.patch.object(chat, "eos_ids", toy_tools.often_ends)
def check_lesson(name):
    """The same samples, losses to 1e-5, and weights but for rounding."""
    (table, batches, state), (expected, others, alone) = (
        train(name, n) for n in (8, 1)
    )
    for step, (ours, theirs) in enumerate(zip(batches, others, strict=True)):
        for key in ("prompt", "completion", "loss_mask"):
            np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)
        # Before the first update there is no rounding for Adam to enlarge.
        np.testing.assert_allclose(
            ours["logprobs"], theirs["logprobs"], rtol=1e-4 if step else 1e-6, atol=1e-5
        )
    for ours, theirs in zip(table, expected, strict=True):
        # Where 8 devices sum in another order, a number may be rounded to the next
        # bfloat16.
        rtol = 3e-4 if name == "mixed" else 1e-5
        same = {"loss", "entropy", "nll", "reward", "length", "tokens"}
        for key in same & theirs.keys():
            pair = ours[key], theirs[key]
            np.testing.assert_allclose(*pair, rtol=rtol, atol=1e-6, err_msg=key)
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(alone), strict=True):
        atol = 1e-3 if name == "mixed" else 1e-4
        apart = ~np.isclose(x, y, rtol=1e-3, atol=atol)
        # Adam makes a whole step of a gradient that is rounding to bfloat16 alone.
        assert apart.mean() <= (0.02 if name == "mixed" else 0), (name, x, y)
    start = nnx.state(POLICIES.get(name, policy)())
    moved = [
        np.abs(np.asarray(x) - y).max()
        for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(start), strict=True)
    ]
    assert max(moved) > 1e-3


def check_gathering():
    """Weights are sent in what they are used in, and narrower ones as they are."""
    with jax.set_mesh(make_mesh()):
        for stored, used, sent in (
            ("bfloat16", "float32", "bfloat16"),
            ("float32", "bfloat16", "bfloat16"),
            ("uint8", "bfloat16", "uint8"),
        ):
            weight = jax.ShapeDtypeStruct((2, 16, 16), stored)
            gather = jax.jit(lambda x, used=used: gathered({"q": x}, used)["q"])
            assert jax.eval_shape(gather, weight).dtype == sent, (stored, used)


def check_sampling():
    """Each device samples its own prompts, and the answers are those of one device.

    Of an int8 model with adapters.
    """
    alone = lora.quantize(policy())
    alone.activations = "float32"
    alone = adapted(alone, 0.15, targets=("q", "o", "down"))
    rng = np.random.default_rng(0)
    prompt = rng.integers(2, len(TOKENIZER), (16, 9)).astype(np.int32)
    mask = (np.arange(9) < rng.integers(3, 10, (16, 1))).astype(np.int32)
    settings = {"max_tokens": 12, "eos_ids": tuple(range(40))}

    def answers(mesh, rows=slice(None)):
        keys = row_keys(jax.random.key(0), 0, 16, 3)[rows]
        model = spread(alone, mesh) if mesh else alone
        return generate(model, prompt[rows], mask[rows], keys, **settings)

    expected = answers(None)
    ours = answers(make_mesh(model=2))
    assert ours.tokens.sharding.spec[0] == "data"
    for name in ("tokens", "mask", "ended"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(expected, name))
    np.testing.assert_allclose(ours.logprobs, expected.logprobs, atol=2e-5)
    few = answers(make_mesh(), slice(5))
    np.testing.assert_array_equal(few.tokens, expected.tokens[:5])
    assert jnp.unique(expected.mask.sum(axis=-1)).size > 3


def check_engine(folder):
    """An engine's answers do not depend on how many devices hold the weights."""
    weights.save(policy(), folder)
    settings = {"blocks": 40, "size": 4, "places": 4, "longest": 40, "chunk": 6}

    def answers(mesh):
        model, rng = weights.load(folder, mesh=mesh), np.random.default_rng(0)
        engine = Engine(model, tuple(range(40)), **settings)
        prompts = [rng.integers(2, len(TOKENIZER), n) for n in (5, 9, 13, 4, 6, 7)]
        requests = [
            engine.submit(Request(list(prompt), 12, seed=i, temperature=float(i % 2)))
            for i, prompt in enumerate(prompts)
        ]
        engine.run()
        return [request.answer for request in requests]

    expected = answers(None)
    assert answers(make_mesh(model=2)) == expected
    assert len({len(answer) for answer in expected}) > 2


def check_speculation(folder):
    """Answers of a target on eight devices do not depend on a drafter on one."""
    weights.save(policy(), folder)
    prompt = np.random.default_rng(0).integers(2, len(TOKENIZER), (8, 9))
    rows = prompt, np.ones_like(prompt), row_keys(jax.random.key(0), 0, 8, 1)
    settings = {"max_tokens": 6, "eos_ids": tuple(range(40)), "temperature": 0.0}
    alone, shared = policy(), weights.load(folder, mesh=make_mesh())
    expected = generate(alone, *rows, **settings)
    drafter = DraftModel(alone, 2)
    ours = serving.generate(shared, drafter, *rows, **settings).completions
    np.testing.assert_array_equal(ours.tokens, expected.tokens)


def check_what_is_sampled():
    check_gathering()
    check_sampling()
    with tempfile.TemporaryDirectory() as scratch:
        check_engine(scratch)
        check_speculation(scratch)
