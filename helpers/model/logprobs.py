"""From hidden states to numbers about tokens, without ever holding all the logits.

`[tokens, vocabulary]` float32 is what runs small TPUs out of memory (16 Gi entries for
64k tokens of a 262k vocabulary), so logits live for one chunk of tokens at a time. The
slope of a token's number by its hidden state depends on nothing but that token: it is
made in the forward pass, while the logits are there, and the backward pass only
multiplies (2410.10989 does the same in a fused kernel). That holds while the table of
the vocabulary is frozen; where it is trained, the backward pass computes logits again.

Axes: N tokens, D width, V words of the vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from helpers.model.ops import narrowed
from helpers.runtime.sharding import mesh_in_use

CHUNK = 8192
CLAMP = 75.0  # nats; e**75 times a vocabulary is still a float32


def logits(hidden, table_VD, softcap=0.0):
    """Scores of every word of the vocabulary, (..., D) -> (..., V) float32.

    As in `ops.matmul`, both are rounded to the narrower dtype of the two and products
    are summed in float32; so are those of the backward pass.

    Args:
      softcap: what Gemma 4 keeps the size of scores below (`capped`); 0: nothing.
    """
    return capped(_logits(hidden, table_VD), softcap)


def capped(scores, softcap):
    """softcap · tanh(scores / softcap); the scores where softcap is 0."""
    return softcap * jnp.tanh(scores / softcap) if softcap else scores


@jax.custom_vjp
def _logits(hidden, table_VD):
    return _product("...d,vd->...v", hidden, table_VD)


def _product(axes, x, y):
    return jnp.einsum(axes, *narrowed(x, y), preferred_element_type=jnp.float32)


def _logits_forward(hidden, table_VD):
    return _logits(hidden, table_VD), (hidden, table_VD)


def _logits_backward(saved, gradient):
    hidden, table_VD = saved
    gradient = gradient.astype(hidden.dtype)
    for_hidden = _product("...v,vd->...d", gradient, table_VD).astype(hidden.dtype)
    flat = [x.reshape(-1, x.shape[-1]) for x in (gradient, hidden)]
    return for_hidden, _product("nv,nd->vd", *flat).astype(table_VD.dtype)


_logits.defvjp(_logits_forward, _logits_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def chosen_logprobs(hidden_ND, table_VD, targets_N, softcap=0.0):
    """Log-probability of each target, and the entropy of the prediction, in nats.

    Logits are counted from the target's own, l = logit - logit of the target: then
    log p = -log Σ e**l, no maximum has to be found first, and the entropy
    log Σ e**l - Σ l e**l / Σ e**l costs nothing. Words that are more than `CLAMP` nats
    likelier than the target count as that many.

    Args:
      softcap: see `logits`.
    Returns:
      (logprobs_N, entropy_N), float32. No gradient flows through the entropy.
    """
    return _chosen_forward(hidden_ND, table_VD, targets_N, softcap)[0]


def all_logprobs(hidden_ND, table_VD, targets_N, softcap=0.0):
    """Log-probability of every word, (N, V) float32, counted as `chosen_logprobs` does.

    So no maximum is looked for in (N, V); words more than `CLAMP` nats likelier than
    the target count as that many, and have the slope of their own score all the same.
    That the target's own score moves all others and their total alike changes no
    log-probability, so no slope goes through it.

    Args:
      targets_N: the words to count from; for the clamp's sake no impossible ones.
      softcap: see `logits`.
    Returns:
      (logprobs_NV, those of the targets (N)).
    """
    _, above_NV = _above(hidden_ND, table_VD, targets_N, softcap)
    clamped_NV = jnp.minimum(above_NV, CLAMP)
    above_NV += jax.lax.stop_gradient(clamped_NV - above_NV)
    total_N = jnp.log(jnp.exp(above_NV).sum(axis=-1))
    return above_NV - total_N[:, None], -total_N


def _above(hidden_ND, table_VD, targets_N, softcap):
    """The target's own score (N), and how far all words are above it (N, V)."""
    target_N = capped(_product("nd,nd->n", hidden_ND, table_VD[targets_N]), softcap)
    target_N = jax.lax.stop_gradient(target_N)
    above_NV = logits(hidden_ND, table_VD, softcap) - target_N[:, None]
    return target_N, above_NV


def _chosen_forward(hidden_ND, table_VD, targets_N, softcap):
    target_N, above_NV = _above(hidden_ND, table_VD, targets_N, softcap)
    clamped_NV = jnp.minimum(above_NV, CLAMP)
    odds_NV = jnp.exp(clamped_NV)
    total_N = odds_NV.sum(axis=-1)
    entropy_N = jnp.log(total_N) - (odds_NV * clamped_NV).sum(axis=-1) / total_N
    values = -jnp.log(total_N), entropy_N
    bend_N, dtype = None, hidden_ND.dtype
    if softcap:  # the slope of the cap, which falls to 0 where it holds scores back
        bend_N = (1 - (target_N / softcap) ** 2).astype(dtype)
        odds_NV = odds_NV * (1 - ((above_NV + target_N[:, None]) / softcap) ** 2)
    odds_NV = odds_NV.astype(dtype)
    return values, (hidden_ND, table_VD, targets_N, odds_NV, total_N, bend_N)


def _chosen_backward(_, saved, gradients):
    """The slope by the hidden state is the target's row minus the mean row.

    The target's odds are 1 but for the rounding of its score, which is computed twice:
    2e-5 at a score of 48. So a likely target's small slope does not drown in the
    rounding of two large terms.
    """
    hidden_ND, table_VD, targets_N, odds_NV, total_N, bend_N = saved
    gradient_N1 = gradients[0][:, None]

    def bent(rows):  # times the slope of the cap, if there is one
        return rows if bend_N is None else bend_N[:, None] * rows

    mean_ND = _product("nv,vd->nd", odds_NV, table_VD) / total_N[:, None]
    for_hidden = gradient_N1 * (bent(table_VD[targets_N]) - mean_ND)
    is_target_NV = jnp.arange(table_VD.shape[0]) == targets_N[:, None]
    pull_NV = gradient_N1 * (bent(is_target_NV) - odds_NV / total_N[:, None])
    pull_NV = pull_NV.astype(hidden_ND.dtype)
    for_table = _product("nv,nd->vd", pull_NV, hidden_ND)
    return for_hidden.astype(hidden_ND.dtype), for_table.astype(table_VD.dtype), None


chosen_logprobs.defvjp(_chosen_forward, _chosen_backward)


def in_chunks(function, table, fixed, arrays, chunk=CHUNK):
    """Maps a function over chunks of tokens, with its gradient by the hidden states.

    A chunk takes every `count`-th token, so that rows that lie over many devices give
    each of them an equal part of every chunk.

    Args:
      function: `function(table, fixed, hidden, *others)` returns a tuple of [n] arrays,
        each token's numbers made of that token's arrays alone. Only the first of them
        has a gradient, by the table and by the hidden states.
      table: of the vocabulary, trained or not.
      fixed: any tree of arrays that gets no gradient.
      arrays: hidden (N, D), then others whose first axis is N.
      chunk: tokens at a time; N is padded up to a multiple (padding is cut off again).
    Returns:
      What `function` returns, for all N tokens.
    """
    N = arrays[0].shape[0]
    chunk = max(1, min(chunk, N))
    count = -(-N // chunk)

    def split(x):
        padding = [(0, count * chunk - N)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, padding).reshape(chunk, count, *x.shape[1:]).swapaxes(0, 1)

    def join(x):
        return x.swapaxes(0, 1).reshape(-1, *x.shape[2:])[:N]

    hidden, *others = map(split, arrays)
    return jax.tree.map(join, _mapped(function, table, fixed, hidden, tuple(others)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _mapped(function, table, fixed, hidden, others):
    return jax.lax.map(lambda chunk: function(table, fixed, *chunk), (hidden, *others))


def _mapped_forward(function, *arguments):
    is_trained = any(x.perturbed for x in jax.tree.leaves(arguments[0]))
    table, fixed, hidden, others = jax.tree.map(lambda x: x.value, arguments)
    if is_trained:
        values = _mapped(function, table, fixed, hidden, others)
        return values, (None, (table, fixed, hidden, others))

    def with_slope(chunk):
        first, pull, rest = _differentiated(function, fixed, table, *chunk)
        return (first, *rest), pull(jnp.ones_like(first))[1]

    values, slopes = jax.lax.map(with_slope, (hidden, *others))
    return values, (slopes, None)


def _mapped_backward(function, saved, gradients):
    first, (slopes, again) = gradients[0], saved
    if isinstance(first, SymbolicZero):
        return None, None, None, None
    if again is None:
        return None, None, (first[..., None] * slopes).astype(slopes.dtype), None
    table, fixed, hidden, others = again

    def add(total, chunk):
        gradient, *chunk = chunk
        _, pull, _ = _differentiated(function, fixed, table, *chunk)
        by_table, by_hidden = pull(gradient)
        return jax.tree.map(jnp.add, total, by_table), by_hidden

    total, by_hidden = jax.lax.scan(
        add, jnp.zeros(table.shape, jnp.float32), (first, hidden, *others)
    )
    return total.astype(table.dtype), None, by_hidden, None


def _differentiated(function, fixed, table, hidden, *others):
    """(first value, its pullback to table and hidden states, the other values)."""

    def first_and_rest(table, hidden):
        first, *rest = function(table, fixed, hidden, *others)
        return first, rest

    return jax.vjp(first_and_rest, table, hidden, has_aux=True)


_mapped.defvjp(_mapped_forward, _mapped_backward, symbolic_zeros=True)


MASKED_CHUNK = 128  # tokens that are computed or left out together
LARGE = 10**7  # entries of a table from which on that is worth its sorting


def masking_pays(hidden, table_VD) -> bool:
    """Whether leaving tokens out saves time: in float32, on one CPU, large tables.

    Accelerators would wait for each chunk's answer whether it is needed, and the tiny
    models' logits cost less than the sorting.
    """
    alone = jax.default_backend() == "cpu" and mesh_in_use() is None
    return alone and hidden.dtype == jnp.float32 and table_VD.size >= LARGE


def masked_in_chunks(function, table, arrays, mask_N, chunk=MASKED_CHUNK):
    """`in_chunks`, computing only chunks with tokens that are asked for.

    Args:
      function: `function(table, None, hidden, *others)`, as for `in_chunks`.
      arrays: hidden (N, D), then others whose first axis is N.
      mask_N: bool (N).
      chunk: the most tokens that are computed at a time.
    Returns:
      What `function` returns; numbers about tokens that are not asked for are 0, and
      have no gradient.
    """
    N = mask_N.shape[0]
    chunk = max(1, min(chunk, N))
    count = -(-N // chunk)
    order = jnp.argsort(~mask_N, stable=True)
    order = jnp.pad(order, (0, count * chunk - N), constant_values=N)  # N: no token
    # A chunk of `in_chunks` is every count-th token: each gets neighbours of the order.
    place = order.reshape(count, chunk).T.reshape(-1)

    def unless_masked(table, fixed, hidden, mask, *others):
        def compute():
            outputs = function(table, fixed, hidden, *others)
            return tuple(jnp.where(mask, x, jnp.zeros_like(x)) for x in outputs)

        def leave_out():
            return jax.tree.map(jnp.zeros_like, jax.eval_shape(compute))

        return jax.lax.cond(mask.any(), compute, leave_out)

    hidden, *others = (jnp.take(x, place, axis=0, mode="clip") for x in arrays)
    mask = jnp.take(mask_N, place, mode="fill", fill_value=False)
    outputs = in_chunks(unless_masked, table, None, (hidden, mask, *others), chunk)
    return jax.tree.map(
        lambda x: jnp.zeros(N, x.dtype).at[place].set(x, mode="drop"), outputs
    )
