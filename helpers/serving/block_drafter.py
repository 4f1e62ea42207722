"""A drafter that fills a whole block of tokens in one pass (after DFlash, 2602.06036).

An autoregressive drafter runs once for every token it proposes. This one runs once for
a block: it gets the last token and B - 1 masks, which see each other in both
directions, and each guesses the token after itself.
It never reads the text. Its layers begin as copies of some of the target's, and attend
to the keys and values that the target has computed for these layers anyway. Each token
is guessed independently; where guesses do not fit together, the target accepts the
first ones.

Axes: P prompts, G answers each, N blocks of an answer, B drafted tokens, T tokens,
V vocabulary.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.generation.next_token import draw
from helpers.model.attention import KV, Reach, visible
from helpers.model.ops import rms_norm
from helpers.model.rope import frequencies, rotary
from helpers.model.scoring import prefill
from helpers.serving.drafters import DRAFTS, Drafter, Known, only_before, uniform

FADE = 0.9  # of a token's weight in the loss, for every place it lies further ahead


class Shared(nnx.Variable):
    """An array of the target, which is used and not trained."""


class BlockDrafter(Drafter):
    """Proposes B tokens in one pass, from the target's own keys and values.

    Args:
      target: the Transformer that it will draft for. Its table of tokens is shared.
      block: B, tokens to propose.
      layers: how many of the target's it has copies of, the last one among them.
    Raises:
      ValueError: the target has fewer layers, or it is quantized or has adapters: then
        there are no plain weights to begin with.
    """

    def __init__(self, target, block: int = 8, layers: int = 2):
        super().__init__(block)
        c = target.config
        if not 1 <= layers <= c.layers:
            raise ValueError(f"The target has {c.layers} layers, not {layers}.")
        if c.gemma4:
            raise ValueError(
                "A block drafter is made of a target's last layers, and those of "
                "Gemma 4 have no keys of their own: take another drafter."
            )
        variables = jax.tree.leaves(nnx.state(target), is_leaf=_is_variable)
        if {type(x) for x in variables} != {nnx.Param}:
            raise ValueError(
                "The target has more than plain weights: merge its adapters, and load "
                "it without int8, to make a drafter of its layers."
            )
        self.config = dataclasses.replace(c, vision=None)
        self.activations = target.activations
        self.chosen = tuple(
            int(i) for i in np.linspace(c.layers - 1, 0, layers).round()[::-1]
        )
        self.table = Shared(target.embed[...])
        self.head = Shared((target.embed if c.tied else target.head)[...])
        self.mask = nnx.Param(target.embed[...].mean(axis=0))
        self.final_norm = nnx.Param(target.final_norm[...])
        graph, weights = nnx.split(target.layers)
        copies = jax.tree.map(lambda x: x[np.array(self.chosen)], weights)
        self.layers = nnx.merge(graph, copies)

    @property
    def vocab_size(self):
        """Size of the vocabulary of the target that it was made from."""
        return self.config.vocab_size

    def check(self, target):
        """As `Drafter.check`; the target has the shape that it was made from."""
        super().check(target)
        if dataclasses.replace(target.config, vision=None) != self.config:
            raise ValueError(
                "This block drafter was made from a target of another shape: make one "
                "from this target."
            )

    def begin(self, prompt_PT, mask_PT, group, room):
        """No state: it reads the target's keys and values."""
        return ()

    def propose(self, state, known: Known, past, temperature):
        """See `drafters.DraftModel.propose`."""
        prefix, cache = past
        column = known.total - 1
        first = jnp.take_along_axis(known.tokens, column[..., None], axis=-1)[..., 0]
        pieces = prefix, only_before(cache, column)
        logits = self.fill(first, known.length[:, None] + column, pieces)
        if temperature is None:
            return logits.argmax(axis=-1).astype(jnp.int32), logits, state
        noise = [
            uniform(known.keys, known.total + i, DRAFTS) for i in range(self.block)
        ]
        return draw(logits / temperature, jnp.stack(noise, axis=-1)), logits, state

    def fill(self, first_PG, place_PG, pieces):
        """Logits (P, G, B, V) of the B tokens after each first one.

        Args:
          first_PG: int32, the last known tokens. place_PG: their positions.
          pieces: the target's KV of all tokens before, of all its layers, which may
            lie apart.
        """
        c, size = self.config, self.block
        shape = (*first_PG.shape, size)
        x = jnp.broadcast_to(self.mask[...], (*shape, c.width))
        x = x.at[..., 0, :].set(self.table[...][first_PG].astype(x.dtype))
        x = x.astype(self.activations)
        if c.is_gemma:
            x = x * jnp.asarray(c.width**0.5, x.dtype)
        positions, one = place_PG[..., None] + jnp.arange(size), jnp.ones(shape, int)
        new = KV(None, None, positions, one)  # type: ignore[arg-type]
        seen = [visible(positions, one, piece) for piece in pieces]
        seen.append(visible(positions, one, new, one))
        x = self._through(x, positions, pieces, seen)
        return jnp.einsum(
            "...d,vd->...v",
            x,
            self.head[...].astype(x.dtype),
            preferred_element_type=jnp.float32,
        )

    def _through(self, x, positions, pieces, seen):
        """All layers, each of the target's kind: its window, its rotation."""
        c = self.config
        ropes = [
            rotary(positions, frequencies(c.head_dim, c.rope_theta, c.stretch)),
            rotary(positions, frequencies(c.head_dim, c.rope_local_theta)),
        ]
        graph, weights = nnx.split(self.layers)

        def one_layer(x, inputs):
            weights, is_global, earlier = inputs
            cos_sin = jax.tree.map(lambda a, b: jnp.where(is_global, a, b), *ropes)
            masks = [
                allowed & (is_global | (distance < c.window))
                for allowed, distance in seen
            ]
            layer = nnx.merge(graph, weights)
            return layer(x, cos_sin, earlier, masks, Reach(self.block))[0], None

        is_global = jnp.array([c.is_global(i) for i in self.chosen])
        past = [
            tuple(jnp.stack([x[i] for i in self.chosen]) for x in kv[:2])
            for kv in pieces
        ]
        x, _ = jax.lax.scan(one_layer, x, (weights, is_global, past))
        return rms_norm(x, self.final_norm[...], c.norm_eps, c.is_gemma)


def _is_variable(x):
    return isinstance(x, nnx.Variable)


def block_objective(blocks: int = 8):
    """The loss of a block drafter: cross-entropy of the target's answers, by blocks.

    It averages over the B tokens after some places of every answer. Weights fade with
    the distance (`FADE`). The trainer's `frozen` is the target.

    Args:
      blocks: N, places in an answer that blocks begin at, drawn for every batch.
    """

    def objective(drafter, batch, target):
        logits, place = _blocks(drafter, batch, target, blocks)
        completion, B = batch["completion"], drafter.block
        length = batch["loss_mask"].sum(axis=-1)[..., None, None]
        ahead = place[..., None] + 1 + jnp.arange(B)  # P G N B
        goal = _at(completion, jnp.minimum(ahead, completion.shape[-1] - 1))
        logprobs = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(logprobs, goal[..., None], axis=-1)[..., 0]
        real = ahead < length
        weight = real * FADE ** jnp.arange(B)
        right = (logits.argmax(axis=-1) == goal) & real
        in_a_row = jnp.cumprod(right, axis=-1).sum(axis=-1)
        full, total = real.all(axis=-1), weight.sum()
        metrics = {
            "weight": total,
            "right": right.sum() / jnp.maximum(real.sum(), 1),
            "in_a_row": (in_a_row * full).sum() / jnp.maximum(full.sum(), 1),
        }
        return -(chosen * weight).sum() / jnp.maximum(total, 1e-6), metrics

    return objective


def _blocks(drafter, batch, target, blocks):
    """(logits (P, G, N, B, V), the index of each block's first token (P, G, N))."""
    prompt, mask, completion = (
        batch[name] for name in ("prompt", "prompt_mask", "completion")
    )
    P, G, T = completion.shape
    _, prefix = prefill(target, prompt, mask)
    length = mask.sum(axis=1).astype(jnp.int32)[:, None, None]
    positions = jnp.broadcast_to(length + jnp.arange(T), (P, G, T))
    _, answer_kv = target(completion, positions, earlier=(prefix,))
    prefix, answer_kv = jax.lax.stop_gradient((prefix, answer_kv))
    key = jax.random.key(completion.sum().astype(jnp.uint32))
    count = batch["loss_mask"].sum(axis=-1)[..., None]
    chance = jax.random.uniform(key, (P, G, blocks))
    place = (chance * jnp.maximum(count - 1, 1)).astype(jnp.int32)
    many = KV(
        *(
            jnp.repeat(x, blocks, axis=axis)
            for x, axis in zip(answer_kv, (2, 2, 1, 1), strict=True)
        )
    )
    flat = place.reshape(P, G * blocks)
    first = _at(completion, place).reshape(P, G * blocks)
    pieces = prefix, only_before(many, flat)
    logits = drafter.fill(first, length[:, 0] + flat, pieces)
    return logits.reshape(P, G, blocks, *logits.shape[2:]), place


def _at(tokens_PGT, index):
    """Tokens at indices (P, G, …)."""
    flat = index.reshape(*tokens_PGT.shape[:2], -1)
    return jnp.take_along_axis(tokens_PGT, flat, axis=-1).reshape(index.shape)
