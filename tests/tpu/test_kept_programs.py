"""The small program of notebook 01: what it computes, and what is kept of it."""

import gzip

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.tpu import GENERATIONS, kept_programs
from helpers.tpu.kept_programs import INNER, LAYERS, TOKENS, WIDTH
from helpers.tpu.where_time_goes import instructions, shares

V5E = GENERATIONS["v5e"]


def kept(again):
    """The kept program's instructions, whatever compiler is here."""
    return instructions(
        gzip.decompress(kept_programs.file(again).read_bytes()).decode()
    )


def whole(again):
    """All of them together."""
    (row,) = shares(kept(again), V5E, lambda one: "all")
    return row


@pytest.mark.parametrize("again", [False, True])
def test_the_layers_compute_what_they_say(again):
    rng = np.random.default_rng(0)
    layers, tokens, width, inner = 3, 5, 4, 6
    norm, gate, up, down = weights = (
        rng.normal(size=(layers, width)),
        rng.normal(size=(layers, width, inner)),
        rng.normal(size=(layers, width, inner)),
        rng.normal(size=(layers, inner, width)),
    )
    x = first = rng.normal(size=(tokens, width))
    for i in range(layers):
        y = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6) * norm[i]
        z = y @ gate[i]
        x = x + (z / (1 + np.exp(-z)) * (y @ up[i])) @ down[i]
    given = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (weights, first))
    found = kept_programs.loss(*given, again)
    np.testing.assert_allclose(found, (x**2).mean(), rtol=1e-5)


@pytest.mark.parametrize("again", [False, True])
def test_what_is_kept_has_these_sizes_and_phases(again):
    """Two of three products are needed again: what the third made is never read."""
    product, phases = 2 * TOKENS * WIDTH * INNER * LAYERS, {}
    for row in shares(kept(again), V5E, lambda one: one.phase):
        phases[row.label] = row.tflop * 1e12 / product
    assert phases["forward"] == pytest.approx(3)
    assert phases["backward"] == pytest.approx(6)
    assert phases.get("again", 0) == pytest.approx(2 if again else 0)


def test_the_two_witnesses_disagree_about_rematerialisation_as_the_notebook_says():
    once, twice = whole(again=False), whole(again=True)
    assert twice.modelled_ms < 0.97 * once.modelled_ms
    assert twice.bound_ms > 1.1 * once.bound_ms
    assert twice.gb < 0.45 * once.gb


def test_a_compiler_that_is_here_is_asked_and_else_the_kept_text_is_read(monkeypatch):
    monkeypatch.setattr(kept_programs, "compiled", lambda again: f"live {again}")
    monkeypatch.setattr(kept_programs, "find_compiler", lambda: True)
    assert kept_programs.text(True) == "live True"
    monkeypatch.setattr(kept_programs, "find_compiler", lambda: False)
    assert instructions(kept_programs.text(True)) == kept(True)
