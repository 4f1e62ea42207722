"""Gemma 4 is distilled from a larger one, and goes on after a stop, as other models."""

import functools
import tempfile

import jax
import naive_decoder
import numpy as np
import pytest
import tiny_models
from flax import nnx
from test_resume import Stopped, Stopping, batches

from helpers.losses import distillation
from helpers.model import lora
from helpers.model.gemma4 import keep_on_host
from helpers.runtime.sharding import make_mesh
from helpers.training import objectives
from helpers.training.optimizers import adamw
from helpers.training.trainer import Trainer

PROMPTS, COMPLETIONS = tiny_models.random_groups(seed=2)
# As a teacher's, all its sizes are others: width, layers and those that share keys.
LARGER = {"width": 24, "ff": 36, "kinds": "llflllflf", "sharing": 4, "per_layer": 6}


def scores(made, prompt, answer):
    """Log-softmaxed predictions of an answer's tokens, float64, by plain loops."""
    tensors, config = tiny_models.tensors(made)
    found = naive_decoder.logits(tensors, config, prompt + answer)
    return naive_decoder.log_softmax(found)[len(prompt) - 1 : -1]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [8192, 5])
def test_a_larger_gemma_4_teaches_by_the_divergence_of_two_plain_models(chunk):
    student = tiny_models.model("gemma4_text")
    teacher = tiny_models.model("gemma4_text", 1, **LARGER)
    batch = tiny_models.group_batch(PROMPTS, COMPLETIONS)
    objective = objectives.distillation(distillation.reverse_kl, chunk=chunk)
    graph, state = nnx.split(student)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(state):
        return objective(nnx.merge(graph, state), batch, teacher)

    (value, metrics), slopes = jax.jit(loss)(state)
    divergences = []
    for prompt, answers in zip(PROMPTS, COMPLETIONS, strict=True):
        for answer in answers:
            own, told = (scores(m, prompt, answer) for m in (student, teacher))
            divergences.append((np.exp(own) * (own - told)).sum(axis=-1))
    np.testing.assert_allclose(value, np.concatenate(divergences).mean(), rtol=1e-4)
    assert metrics["weight"] == sum(map(len, divergences))
    assert max(float(np.abs(x).max()) for x in jax.tree.leaves(slopes)) > 1e-3


KINDS = ["", "int8", "nf4 double", "table on the host", "like 31B"]


def policy(kind):
    """A small Gemma 4 with adapters, its base as `kind` says."""
    if kind == "like 31B":
        return lora.add(lora.quantize(tiny_models.model("gemma4_text like 31B")), 2)
    model = tiny_models.model("gemma4_text")
    if kind == "table on the host":
        return lora.add(keep_on_host(lora.quantize(model)), 2)
    return lora.add(lora.quantize(model, kind) if kind else model, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_stopped_ends_with_the_same_numbers(kind):
    def train(folder, stop=-1, steps=4):
        trainer = Trainer(
            policy(kind),
            objectives.sft(),
            adamw(1e-2, steps=steps),
            folder=folder,
            save_every=1,
            mesh=make_mesh(jax.devices()[:1]),
            log=False,
        )
        try:
            trainer.fit(Stopping(batches(), stop), steps)
        except Stopped:
            return None
        return {name: np.asarray(x) for name, x in trainer.named_arrays().items()}

    straight = train(None)
    with tempfile.TemporaryDirectory() as folder:
        assert train(folder, stop=2) is None
        again = train(folder)
    assert again.keys() == straight.keys()
    for name, x in straight.items():
        np.testing.assert_array_equal(again[name], x, err_msg=name)
    moved = [np.any(x != 0) for name, x in straight.items() if "_b'" in name]
    assert moved and all(moved)
