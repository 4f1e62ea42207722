"""Optimizers: two Optax chains, and the learning rate the trainer multiplies them by.

The learning rate stays outside the Optax chain: the chain is built for a rate of 1
and the trainer hands the rate of each step to its compiled update as a number. So a
run with another peak, or another length, reuses the same compiled program. The trainer
also takes any other Optax transformation, which then has its rate inside.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from helpers.runtime.ranges import require
from helpers.runtime.sharding import is_stacked

Schedule = Callable[[int], float]
ADAM_SCALE = 0.15  # rate of Muon's AdamW part, as a share of Muon's


class Optimizer(NamedTuple):
    """An Optax chain for a learning rate of 1, and the rate of each step.

    Args:
      transform: its updates are multiplied by the rate and added to the parameters.
      learning_rate: rate of step 0, 1, 2, … (a trainer step, however many
        minibatches it has); any Optax schedule is such a function. None: the chain
        has its own.
      settings: the chain in words; a run is only resumed with the same. Without, it
        is described piece by piece.
    """

    transform: optax.GradientTransformation
    learning_rate: Schedule | None
    settings: str = ""


def constant(peak: float, warmup: int = 0) -> Schedule:
    """A rate that climbs linearly for `warmup` steps to `peak` and stays there."""
    return lambda step: peak * min(1.0, (step + 1) / max(1, warmup))


def cosine(peak: float, steps: int, warmup: int = 0, final: float = 0.05) -> Schedule:
    """A rate that climbs for `warmup` steps, then falls along half a cosine.

    Args:
      peak: rate at the end of the warm-up.
      steps: length of the run in trainer steps; the last one has `peak * final`.
      warmup: steps of the linear climb; the first has `peak / warmup`, not 0.
      final: share of the peak that is left at the end, and stays after it.
    """

    def learning_rate(step: int) -> float:
        if step < warmup:
            return peak * (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, steps - 1 - warmup))
        return peak * (final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2)

    return learning_rate


def adamw(
    peak: float | Schedule,
    *,
    steps: int | None = None,
    warmup: int = 0,
    b1: float = 0.9,
    b2: float = 0.95,
    weight_decay: float = 0.0,
    clip: float = 1.0,
    final: float = 0.05,
) -> Optimizer:
    """AdamW (1711.05101) after clipping the gradient's global norm.

    Args:
      peak: highest learning rate, a number of Python, NumPy or JAX; or an Optax
        schedule, which is then all there is.
      steps: length of the run for the cosine; None keeps the rate constant.
      warmup: steps of the linear climb to the peak.
      b1: decay of the gradient's moving average.
      b2: decay of its square's; 0.95 follows a moving target sooner than 0.999.
      weight_decay: pull to zero, multiplied by the learning rate.
      clip: longest gradient (global norm) that passes unchanged.
      final: share of the peak at the last step.

    Raises:
      ValueError: an argument is out of its range.
    """
    require("clip", clip, above=0)
    require("weight_decay", weight_decay, least=0)
    chain = optax.adamw(1.0, b1=b1, b2=b2, weight_decay=weight_decay)
    transform = optax.chain(optax.clip_by_global_norm(clip), chain)
    settings = f"adamw({b1=}, {b2=}, {weight_decay=}, {clip=})"
    return Optimizer(transform, _schedule(peak, steps, warmup, final), settings)


def muon(
    peak: float | Schedule,
    *,
    steps: int | None = None,
    warmup: int = 0,
    b2: float = 0.95,
    weight_decay: float = 0.0,
    clip: float = 1.0,
    final: float = 0.05,
) -> Optimizer:
    """Muon for the matrices inside the layers, AdamW for everything else.

    Muon replaces the momentum of a matrix by the nearest orthogonal one, so that
    all its directions learn at the same pace (Jordan 2024, kellerjordan.github.io/
    posts/muon). Stacked weights `(L, in, out)` are L matrices. Embeddings, norms
    and biases are no such matrices: they go to AdamW (with Nesterov's look-ahead, as
    Muon's momentum) at ADAM_SCALE times the rate.

    Args:
      peak: highest learning rate of the Muon part; 2e-2 is usual.
      b2: decay of the AdamW part's squared gradient.

    The other arguments are those of `adamw`. Needs optax 0.2.6, the first whose
    Muon takes stacked matrices.
    """
    require("clip", clip, above=0)
    require("weight_decay", weight_decay, least=0)
    transform = optax.chain(
        optax.clip_by_global_norm(clip),
        optax.contrib.muon(
            1.0,
            weight_decay=weight_decay,
            adam_b2=b2,
            adam_weight_decay=weight_decay,
            muon_weight_dimension_numbers=_matrix_axes,
        ),
        optax.masked(optax.scale(ADAM_SCALE), _is_for_adam),
    )
    settings = f"muon(adam_scale={ADAM_SCALE}, {b2=}, {weight_decay=}, {clip=})"
    return Optimizer(transform, _schedule(peak, steps, warmup, final), settings)


def _schedule(peak, steps: int | None, warmup: int, final: float) -> Schedule:
    if not callable(peak):
        peak = require("peak", peak, least=0, most=1e9)
        if steps is None:
            return constant(peak, warmup)
        return cosine(peak, steps, warmup, final)
    if steps is not None or warmup:
        raise ValueError("A schedule as peak already has its steps and its warmup.")
    return peak


def _matrix_axes(params):
    """Muon's axes for each parameter: None leaves it to AdamW."""
    axes = optax.contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
    adam = _is_for_adam(params)
    return jax.tree.map(lambda is_for_adam: None if is_for_adam else axes, adam)


def _is_for_adam(params):
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: not (is_stacked(path) and leaf.ndim == 3), params
    )


class Compensated(NamedTuple):
    """An optimizer's state, and what rounding took from each 16-bit parameter.

    bfloat16 has eight binary digits and rounds a move of less than a 512th of a
    parameter away, step after step. What was rounded away is stored in float32 and
    added to the next move: Kahan's summation (2010.06192). This takes 4 bytes per
    parameter, 6 with the parameter itself, where a float32 parameter takes 4.
    """

    inner: Any
    lost: Any


def first_state(transform, params):
    """The optimizer's state before the first step, its moments in float32."""
    return _beside(transform.init(_as_float32(params)), jax.tree.map(_lacks, params))


def whole(params, opt_state):
    """(parameters in float32 with what rounding took, the transformation's state)."""
    if not isinstance(opt_state, Compensated):
        return _as_float32(params), opt_state
    exact = jax.tree.map(
        lambda p, lost: p if _is_whole(p) else p.astype(jnp.float32) + lost,
        params,
        opt_state.lost,
    )
    return exact, opt_state.inner


def rounded(exact, inner, params):
    """(parameters in the dtypes of `params`, state): the inverse of `whole`."""
    nearest = jax.tree.map(_nearest, exact, params)
    lost = jax.tree.map(
        lambda x, n, p: _lacks(p) if _is_whole(p) else x - n, *(exact, nearest, params)
    )
    new = jax.tree.map(lambda n, p: n.astype(p.dtype), nearest, params)
    return new, _beside(inner, lost)


def _as_float32(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float32), tree)


def _beside(inner, lost):
    return Compensated(inner, lost) if jax.tree.leaves(lost) else inner


def _is_whole(p):
    return jnp.finfo(p.dtype).bits >= 32


def _lacks(p):
    """Zeros at first; no array at all for what is never rounded."""
    return optax.MaskedNode() if _is_whole(p) else jnp.zeros_like(p, jnp.float32)


def _nearest(x, p):
    """The nearest number in the dtype of `p`; XLA may not skip this rounding."""
    if _is_whole(p):
        return x
    info = jnp.finfo(p.dtype)
    return jax.lax.reduce_precision(x, info.nexp, info.nmant)
