"""Generation with a KV cache: each prompt is computed once, then answers grow together.

One compiled program per shape: prefill, then `lax.while_loop` until every answer has
ended. Nothing goes back to the host in between, the cache is exactly prompt + budget
long, and the log-probability of every sampled token comes out beside it. A `Dialogue`
is what rollouts and evaluation sample through: answers in one turn, or with tools.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.batches import sources
from helpers.batches.images import check_prompts
from helpers.generation.next_token import Chooser, tempering
from helpers.model.attention import KV
from helpers.model.fast.unrolled import for_decoding, stacked
from helpers.model.scoring import prefill
from helpers.runtime.platform import jit
from helpers.runtime.ranges import require, require_count
from helpers.runtime.sharding import gathered, local_rows, spread_rows, using
from helpers.text import chat


class Completions(NamedTuple):
    """Sampled answers: ids, which are real, their log-probs, and which ended by EOS.

    tokens, mask: (P, G, T) int32; the mask is 1 up to and including EOS. logprobs:
    (P, G, T) float32, nats, under the untempered model at temperature 1. ended: (P, G).
    """

    tokens: jax.Array
    mask: jax.Array
    logprobs: jax.Array
    ended: jax.Array


class Limits(NamedTuple):
    """What a sampler is compiled for: budget, ends of answers, and whether greedily."""

    max_tokens: int
    eos_ids: tuple[int, ...]
    greedy: bool = False


@functools.partial(jax.jit, static_argnames=("prompts", "group"))
def row_keys(key, step, prompts, group):
    """A fresh key per answer, (prompts, group), folded from step, prompt and member."""
    key = jax.random.fold_in(key, step)

    def one(p, g):
        return jax.random.fold_in(jax.random.fold_in(key, p), g)

    across_group = jax.vmap(one, in_axes=(None, 0))
    across_prompts = jax.vmap(across_group, in_axes=(0, None))
    return across_prompts(jnp.arange(prompts), jnp.arange(group))


def generate(
    model,
    prompt_PT,
    prompt_mask_PT,
    keys_PG,
    *,
    max_tokens,
    eos_ids,
    temperature=1.0,
    images=None,
):
    """Samples G answers to each of P prompts.

    Args:
      model: a Transformer.
      prompt_PT, prompt_mask_PT: right-padded prompts, int32, none of them empty.
      keys_PG: one random key per answer (see `row_keys`); its second axis is G.
      max_tokens: budget of new tokens per answer.
      eos_ids: ids that end an answer; they are part of it.
      temperature: 0 is greedy. Training rollouts use 1: any other distribution would
        bias the ratio new/old.
      images: of the prompts, uint8 (P, H, W, 3) or (P, N, H, W, 3): a row's
        pictures in the order of its image tokens, then black ones.
    Returns:
      Completions.
    Raises:
      ValueError: a prompt is empty, has gaps or foreign ids; or a setting means
        nothing.
      helpers.runtime.ranges.TextTooLong: a prompt and its answer may be longer than
        the texts that the model was made for.
      helpers.batches.images.ImageMismatch: a prompt's image tokens are not those of
        its images.
    """
    limits = checked_limits(max_tokens, eos_ids, temperature)
    graph, weights, rows = prepared(
        model, prompt_PT, prompt_mask_PT, max_tokens, keys_PG, images=images
    )
    with using(weights):
        return _generate(graph, weights, rows, tempering(temperature), limits)


def prepared(model, prompt_PT, prompt_mask_PT, room, *keys, images=None):
    """Checks the prompts and spreads them over the model's devices.

    Args:
      model, prompt_PT, prompt_mask_PT, images: as in `generate`.
      room: the most tokens of an answer.
      keys: arrays of as many rows, which are spread, too.
    Returns:
      (graph, weights, rows): `nnx.split(model)`, and [prompts, masks, *keys], with the
      images where there are any.
    Raises:
      ValueError, ImageMismatch: see `generate`.
    """
    sources.check_prompts(prompt_PT, prompt_mask_PT, model.config, room)
    if model.config.vision:
        check_prompts(prompt_PT, prompt_mask_PT, images, model.config.vision)
    graph, weights = nnx.split(model)
    rows = [*(jnp.asarray(x, jnp.int32) for x in (prompt_PT, prompt_mask_PT)), *keys]
    rows += [] if images is None else [jnp.asarray(images)]
    return graph, weights, spread_rows(rows, weights)


@functools.partial(jit, static_argnames=("graph", "limits"))
def _generate(graph, weights, rows, temperature, limits):
    prompt_PT, prompt_mask_PT, keys_PG, *images = rows
    model = gathered_model(graph, weights)
    choose = Chooser(keys_PG, 0 if limits.greedy else temperature)
    last_PD, prefix = prefill(model, prompt_PT, prompt_mask_PT, *images)
    length_PG = jnp.broadcast_to(prompt_mask_PT.sum(axis=1)[:, None], keys_PG.shape)
    kv = prefix, empty_cache(prefix, keys_PG.shape[1], limits.max_tokens)
    active_PG = jnp.ones(keys_PG.shape, bool)
    state = last_PD[:, None], length_PG, active_PG
    return decode_turn(model, kv, 0, state, limits, choose)[0]


def gathered_model(graph, weights):
    """The model with its weights gathered once, because every token needs them."""
    activations = nnx.merge(graph, weights).activations
    return nnx.merge(graph, gathered(weights, activations))


def decode_turn(model, kv, start, state, limits, choose):
    """Decodes every active answer until its EOS, all of them in one loop.

    Args:
      kv: (prefix, cache): KV of the prompts, and of the answers so far, its columns
        from `start` on free for `max_tokens` more.
      state: (hidden, length, active): the activations (P, g, D) that predict the next
        tokens, the positions (P, G) of these, and which answers go on (P, G).
      choose: a `Chooser`.
    Returns:
      (Completions of this turn, cache). The cache lacks each answer's last token.
    """
    hidden_PgD, length_PG, active_PG = state
    max_tokens = limits.max_tokens
    layers, (prefix, cache) = for_decoding(model, *kv)
    read, eos = model.reader(), jnp.asarray(limits.eos_ids, jnp.int32)

    def going(carry):
        return (carry[0] < max_tokens) & ~carry[2].ended.all()

    def one_token(carry):
        t, token_PG, out, cache = carry
        hidden, new = model(
            token_PG[..., None],
            (length_PG + t - 1)[..., None],
            (~out.ended).astype(jnp.int32)[..., None],
            earlier=(prefix, cache),
            layers=layers and functools.partial(layers, at=start + t - 1),
        )
        cache = append(cache, new, start + t - 1, is_in=bool(layers))
        token_PG, logprob_PG = choose(read(hidden[:, :, 0]), start + t)
        return t + 1, token_PG, _record(out, t, token_PG, logprob_PG, eos), cache

    logits_PgV = read(hidden_PgD)
    shape = *length_PG.shape, logits_PgV.shape[-1]
    token_PG, logprob_PG = choose(jnp.broadcast_to(logits_PgV, shape), start)
    numbers = jnp.zeros((*length_PG.shape, max_tokens), jnp.int32)
    empty = Completions(numbers, numbers, numbers.astype(jnp.float32), ~active_PG)
    out = _record(empty, 0, token_PG, logprob_PG, eos)
    carry = jax.lax.while_loop(going, one_token, (1, token_PG, out, cache))
    _, _, out, cache = carry
    return out, stacked(cache) if layers else cache


def _record(out, t, token_PG, logprob_PG, eos):
    """Writes token t of the answers that have not ended."""
    real_PG = ~out.ended
    return Completions(
        out.tokens.at[..., t].set(jnp.where(real_PG, token_PG, 0)),
        out.mask.at[..., t].set(real_PG.astype(jnp.int32)),
        out.logprobs.at[..., t].set(jnp.where(real_PG, logprob_PG, 0.0)),
        out.ended | jnp.isin(token_PG, eos),
    )


def empty_cache(prefix: KV, group, size) -> KV:
    """A cache for `size` own tokens per answer, shaped like the prompt's KV."""

    def empty(keys):
        L, P, _, K, H, _ = keys.shape
        return jnp.zeros((L, P, group, K, H, size), keys.dtype)

    keys = jax.tree.map(empty, prefix.keys)
    values = jax.tree.map(lambda x: x.swapaxes(4, 5), keys)
    index = jnp.zeros((len(prefix.positions), group, size), jnp.int32)
    return KV(keys, values, index, index)


def append(cache: KV, new: KV, at, is_in=False) -> KV:
    """Writes new tokens of every answer into the cache from column `at`, in place.

    Args:
      is_in: their keys and values were written by the layers.
    """

    def write(axis, cache, new):
        place = {"start_index": at, "axis": axis}
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, **place)
        return jax.tree.map(put, cache, new)

    keys, values = new.keys, new.values
    if not is_in:
        keys, values = write(-1, cache.keys, keys), write(-2, cache.values, values)
    positions = write(2, cache.positions, new.positions)
    return KV(keys, values, positions, write(2, cache.segments, new.segments))


def checked_limits(max_tokens, eos_ids, temperature) -> Limits:
    """The Limits of these settings; ValueError for one that is out of its range."""
    require("temperature", temperature, least=0)  # 0 is greedy
    require_count("max_tokens", max_tokens)
    return Limits(max_tokens, tuple(map(int, eos_ids)), bool(temperature == 0))


# --- answers as rollouts and evaluation take them ---


class Answers(NamedTuple):
    """Answers on the host, as the trainer reads them, axes (P, G, T).

    tokens: int32, the model's and, between them, those of results; without gaps.
    mask: int32, 1 on the model's own. logprobs: float32 as sampled, 0 elsewhere.
    ended: (P, G) bool: its last turn ended by an EOS.
    texts: P lists of G strings, or of `tool.Trace`; a thought that the prompt opened
    stands at their begin. metrics: means over all answers.
    failed: (P, G) bool, whose environment failed, so nobody knows what they are worth.
    turn_prompts: None, or P lists of G lists of prompts: each turn is then a row of its
    own, and has an equal share of the width.
    """

    tokens: np.ndarray
    mask: np.ndarray
    logprobs: np.ndarray
    ended: np.ndarray
    texts: list
    metrics: dict
    failed: np.ndarray
    turn_prompts: list | None = None


def opened_thoughts(tokenizer, prompts) -> list[str]:
    """See `encoding.opened_thoughts`; of a batch of prompts."""
    pairs = zip(prompts["prompt"], prompts["prompt_mask"], strict=True)
    return chat.opened_thoughts(tokenizer, [ids[real > 0] for ids, real in pairs])


def sampled_ids(tokens_PGT, mask_PGT) -> list[list[list[int]]]:
    """The ids that the model sampled, for each prompt and answer."""
    P, G, _ = mask_PGT.shape
    flat = [tokens_PGT[pg][mask_PGT[pg] > 0].tolist() for pg in np.ndindex(P, G)]
    return [flat[p * G : (p + 1) * G] for p in range(P)]


class GrowingAnswer:
    """One answer while it is sampled piece by piece: its tokens, mask and log-probs."""

    def __init__(self):
        self.tokens, self.mask, self.logprobs, self.ended = [], [], [], False
        self.failure = None  # what its environment raised

    def add_sampled(self, tokens, logprobs):
        """Appends what the model wrote."""
        self.tokens += tokens
        self.mask += [1] * len(tokens)
        self.logprobs += logprobs

    def add_result(self, tokens):
        """Appends a tool's result, which has neither loss nor log-probabilities."""
        self.tokens += tokens
        self.mask += [0] * len(tokens)
        self.logprobs += [0.0] * len(tokens)


def packed(answers, width, texts, metrics) -> Answers:
    """P lists of G `GrowingAnswer` as Answers, padded on the right to a width."""
    shape = len(answers), len(answers[0])
    tokens, mask = np.zeros((2, *shape, width), np.int32)
    logprobs, (ended, failed) = (
        np.zeros((*shape, width), np.float32),
        np.zeros((2, *shape), bool),
    )
    for p, g in np.ndindex(shape):
        each = answers[p][g]
        count = len(each.tokens)
        tokens[p, g, :count], mask[p, g, :count] = each.tokens, each.mask
        logprobs[p, g, :count], ended[p, g] = each.logprobs, each.ended
        failed[p, g] = each.failure is not None
    return Answers(tokens, mask, logprobs, ended, texts, metrics, failed)


class Dialogue:
    """How an answer is sampled: in one turn, where `EnvironmentUse` has others.

    has_openings: whether `opening(row, seed)` makes the prompts of rows.
    """

    has_openings = False
    turns = 1  # most turns of an answer

    @property
    def schemas(self) -> list[dict] | None:
        """JSON schemas of tools for the chat template; None without tools."""
        return None

    def width(self, max_tokens: int) -> int:
        """Most tokens of an answer whose turns have at most `max_tokens`."""
        return max_tokens

    def has_turn_rows(self, tokenizer) -> bool:
        """Whether each turn is trained as a row of its own."""
        return False

    def describe(self) -> dict:
        """What must be the same for a run to be resumed, for JSON."""
        return {}

    def answers(
        self, model, tokenizer, prompts, keys, *, max_tokens, temperature=1.0
    ) -> Answers:
        """Samples an answer for each key; see `EnvironmentUse.answers`."""
        completions, metrics = self.sampled(
            model,
            prompts,
            keys,
            max_tokens=max_tokens,
            eos_ids=chat.eos_ids(tokenizer),
            temperature=temperature,
        )
        tokens, mask, logprobs, ended = local_rows(completions)
        rows = zip(opened_thoughts(tokenizer, prompts), tokens, mask, strict=True)
        texts = [
            [mark + chat.decode(tokenizer, t[m > 0]) for t, m in zip(*row, strict=True)]
            for mark, *row in rows
        ]
        failed = np.zeros_like(ended)
        return Answers(tokens, mask, logprobs, ended, texts, metrics, failed)

    def sampled(self, model, prompts, keys, **settings):
        """(`sampling.Completions`, means to go with them); settings of `generate`."""
        rows = prompts["prompt"], prompts["prompt_mask"], keys
        return generate(model, *rows, images=prompts.get("images"), **settings), {}
