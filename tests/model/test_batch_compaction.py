"""Half the rows for the last answers: the same answers, from the same keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import adapted, group_batch, model, needs_bfloat16, random_groups

from helpers.generation.sampling import generate, row_keys
from helpers.model import lora
from helpers.model.fast import batch_compaction

PROMPTS, _ = random_groups(P=4, seed=4)


MODELS = {
    "adapters": (lambda: adapted(model("qwen2")), 4, {"temperature": 0.9}),
    "int8, greedy": (lambda: lora.quantize(model(seed=1)), 1, {"temperature": 0}),
    "layers apart": (lambda: model(dtype=jnp.bfloat16), 4, {}),
}


SLOW = {"Gemma 4": (lambda: model("gemma4_text"), 4, {})}  # keys and values by kind


@pytest.mark.parametrize(
    "name", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_answers_are_those_of_one_loop(name, monkeypatch):
    """Token for token; log-probs may round otherwise, as among other neighbours."""
    if name == "layers apart":
        needs_bfloat16()
    make, group, how = (MODELS | SLOW)[name]
    batch = group_batch(PROMPTS, [[[0]]] * len(PROMPTS))
    keys = row_keys(jax.random.key(0), 0, len(PROMPTS), group)
    sizes, made = [], make()
    kept = batch_compaction.take_rows
    monkeypatch.setattr(
        batch_compaction, "take_rows", lambda *rows: sizes.append(rows) or kept(*rows)
    )
    found = []
    for work in 1e18, 0:
        monkeypatch.setattr(batch_compaction, "WORK", work)
        rows = batch["prompt"], batch["prompt_mask"], keys
        limits = {"max_tokens": 12, "eos_ids": tuple(range(7))}
        found.append(jax.device_get(generate(made, *rows, **limits, **how)))
        assert len(sizes) == (0 if work else 2)
    one, two = found
    for name in ("tokens", "mask", "ended"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_allclose(one.logprobs, two.logprobs, atol=1e-5)
    lengths = one.mask.sum(axis=-1)
    assert batch_compaction.half_suffices(lengths < lengths.max()), (
        "nobody was left to move"
    )


def test_a_second_loop_is_compiled_where_it_is_worth_it(monkeypatch):
    """SmolLM2's evaluation and shortest rollouts, on a CPU; not the tiny models'."""
    smol, tiny = (
        {"all": jax.ShapeDtypeStruct((n,), jnp.float32)} for n in (135e6, 5e5)
    )
    assert batch_compaction.pays(smol, (64, 1), 64) and batch_compaction.pays(
        smol, (8, 8), 32
    )
    assert not batch_compaction.pays(tiny, (64, 8), 64)
    assert not batch_compaction.pays(smol, (1, 1), 4096) and not batch_compaction.pays(
        smol, (64, 3), 64
    )
    with monkeypatch.context() as several:
        several.setattr(batch_compaction, "mesh_in_use", lambda: "a mesh")
        assert not batch_compaction.pays(smol, (64, 1), 64)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert not batch_compaction.pays(smol, (64, 1), 64)
