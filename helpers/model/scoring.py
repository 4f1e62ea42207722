"""How likely a model finds given tokens: of packed rows, or of groups of answers."""

import functools

import jax
import jax.numpy as jnp

from helpers.model.logprobs import (
    CHUNK,
    MASKED_CHUNK,
    chosen_logprobs,
    in_chunks,
    masked_in_chunks,
    masking_pays,
)


def answer_hidden(model, batch):
    """Hidden states that predict each answer token; the prompt is computed once.

    The last token predicts nothing and goes along: 64 tokens are faster than 63.

    Args:
      model: a Transformer.
      batch: `prompt (P,Tp)`, `prompt_mask (P,Tp)` (right padding is 0), `completion
        (P,G,Tc)` and, where prompts have pictures, `images`.
    Returns:
      (P, G, Tc, D): entry t has seen the prompt and completion[:t].
    """
    prompt_PT, mask_PT = batch["prompt"], batch["prompt_mask"]
    completion_PGT = batch["completion"]
    P, G, Tc = completion_PGT.shape
    prompt_hidden, prefix = prefill(model, prompt_PT, mask_PT, batch.get("images"))
    shape = P, G, 1, prompt_hidden.shape[-1]
    first = jnp.broadcast_to(prompt_hidden[:, None, None], shape)
    positions = mask_PT.sum(axis=1)[:, None, None] + jnp.arange(Tc)
    positions_PGT = jnp.broadcast_to(positions, (P, G, Tc))
    hidden, _ = model(completion_PGT, positions_PGT, earlier=(prefix,))
    return jnp.concatenate([first, hidden[..., :-1, :]], axis=2)


def prefill(model, prompt_PT, mask_PT, images=None):
    """Runs prompts once: (hidden of each last token (P, D), their KV with g = 1).

    Args:
      images: uint8 (P, H, W, 3) or (P, N, H, W, 3), see `Transformer.see`.
    """
    tokens_P1T = prompt_PT[:, None]
    positions_P1T = jnp.broadcast_to(jnp.arange(prompt_PT.shape[1]), tokens_P1T.shape)
    segments_P1T = mask_PT[:, None].astype(jnp.int32)
    images_PID = None if images is None else model.see(images)
    given = tokens_P1T, positions_P1T, segments_P1T
    hidden, prefix = model(*given, images_PID=images_PID, only_last=True)
    if hidden.shape[2] == 1:  # the last, alone
        return hidden[:, 0, 0], prefix
    last_P = mask_PT.sum(axis=1).astype(jnp.int32) - 1
    last_PD = jnp.take_along_axis(hidden[:, 0], last_P[:, None, None], axis=1)[:, 0]
    return last_PD, prefix


def hidden_targets_mask(model, batch):
    """(hidden, target tokens, loss mask) of packed rows or of groups, axes alike.

    Args:
      batch: groups, as `answer_hidden`'s with a `loss_mask`. Or packed rows: `tokens`,
        `positions`, `segment_ids` and `loss_mask`, each (B, T), and `images` of rows in
        the order of their image tokens; entry t of (B, 1, T-1, …) predicts token t+1.
    """
    if "completion" in batch:
        return answer_hidden(model, batch), batch["completion"], batch["loss_mask"]
    targets, mask = (batch[name][:, None, 1:] for name in ("tokens", "loss_mask"))
    given = (batch[name][:, None] for name in ("tokens", "positions", "segment_ids"))
    tokens, positions, segments = given
    images_PID = model.see(batch["images"]) if "images" in batch else None
    hidden, _ = model(tokens, positions, segments, images_PID=images_PID)
    return hidden[..., :-1, :], targets, mask


def token_logprobs(model, hidden, targets, chunk=CHUNK, mask=None):
    """Log-probability of each target token, and the entropy of each prediction.

    Args:
      hidden: (..., D) states that predict the targets; targets: (...) int32.
      chunk: how many tokens' logits may exist at once.
      mask: (...) 0 where nobody reads the numbers, which may then be 0 (where that
        saves time, see `masking_pays`) and have no gradient; None: all are read.
    Returns:
      (logprobs, entropy), both float32 in the shape of targets, in nats. Entropy is a
      measurement: no gradient flows through it.
    """
    flat = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    of_targets = functools.partial(_of_targets, softcap=model.config.softcap)
    table = model.table()
    if mask is not None and masking_pays(hidden, table):
        scored = masked_in_chunks(
            of_targets, table, flat, mask.reshape(-1) > 0, min(chunk, MASKED_CHUNK)
        )
    else:
        scored = in_chunks(of_targets, table, None, flat, chunk)
    return jax.tree.map(functools.partial(jnp.reshape, shape=targets.shape), scored)


def _of_targets(table, _, hidden_ND, targets_N, softcap):
    return chosen_logprobs(hidden_ND, table, targets_N, softcap)


def group_logprobs(model, batch, chunk=CHUNK, mask=None):
    """(logprobs, entropy), each (P, G, Tc), of a group batch under a model.

    Args:
      mask: (P, G, Tc), see `token_logprobs`.
    """
    hidden = answer_hidden(model, batch)
    return token_logprobs(model, hidden, batch["completion"], chunk, mask)
