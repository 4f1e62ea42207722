"""What no model is asked or trained on: arrays that it would read as something else."""

import numpy as np

from helpers.batches.images import ImageMismatch
from helpers.runtime.ranges import require_positions

TOKENS = ("tokens", "prompt", "completion")  # what batches call the arrays of token ids


def require_fitting(models, batches) -> None:
    """Refuses batches whose texts are longer than those that a model was made for.

    Args:
      models: that will read them.
      batches: a batch source; one that says no `longest` is looked at batch by batch.
    Raises:
      helpers.runtime.ranges.TextTooLong: they are.
    """
    for model in models:
        longest = getattr(batches, "longest", 0)
        config = getattr(model, "config", None)
        require_positions(
            config, longest, "The longest text of these batches, answer included"
        )


def require_readable(config, batch: dict) -> None:
    """Refuses a batch that a model would read, but not as it is meant.

    An id without an embedding is read as the last one, a prompt that begins with
    padding at wrong positions, a share in a loss mask as 1, and image tokens without
    their pictures as words.

    Args:
      config: of the model, None where it has none: then only the loss mask is looked
        at.
      batch: {name: array} on the host, its arrays of NumPy or of JAX.
    Raises:
      ImageMismatch: there are image tokens, and no pictures.
      helpers.runtime.ranges.TextTooLong: a text has more tokens than the model has
        positions.
      ValueError: another of these.
    """
    if "loss_mask" in batch:
        _require_zeros_and_ones(np.asarray(batch["loss_mask"]))
    vocab = getattr(config, "vocab_size", None)
    if vocab is None:
        return
    ids = {name: np.asarray(batch[name]) for name in TOKENS if name in batch}
    for name, own in ids.items():
        _require_known(own, vocab, name)
    if "prompt_mask" in batch and "prompt" in ids:
        check_right_padded(ids["prompt"], batch["prompt_mask"], vocab)
    require_positions(config, _longest(batch), "A text of this batch")
    vision = getattr(config, "vision", None)
    given = [own for name, own in ids.items() if name != "completion"]
    if vision and "images" not in batch:
        if any((own == vision.image_token).any() for own in given):
            raise ImageMismatch(
                "The batch has image tokens and no images: the model would learn of "
                "placeholders. Give whoever makes the batches pictures= and vision=."
            )


def _longest(batch):
    """Tokens of the longest text of a batch, up to the last that counts."""
    if {"positions", "segment_ids"} <= batch.keys():
        real = np.asarray(batch["segment_ids"]) > 0
        return int(((np.asarray(batch["positions"]) + 1) * real).max(initial=0))
    if {"prompt_mask", "loss_mask"} <= batch.keys():
        counts_PGT = np.asarray(batch["loss_mask"]) > 0
        ends_PGT = counts_PGT * np.arange(1, counts_PGT.shape[-1] + 1)
        prompts_P = np.asarray(batch["prompt_mask"]).sum(-1)
        return int((prompts_P[:, None] + ends_PGT.max(-1, initial=0)).max(initial=0))
    return 0


def _require_known(ids, vocab, name):
    """Raises ValueError at an id that the model has no embedding for."""
    strange = (
        [x for x in (ids.min(), ids.max()) if not 0 <= x < vocab] if ids.size else []
    )
    if strange:
        raise ValueError(
            f"The batch has token {strange[0]} in {name!r}, and the model's vocabulary"
            f" has {vocab} entries. Batches and model are of two tokenizers: load"
            " the tokenizer from the model's own folder."
        )


def _require_zeros_and_ones(mask):
    if not np.isin(mask, (0, 1)).all():
        odd = mask[~np.isin(mask, (0, 1))][0]
        raise ValueError(
            f"The loss mask has {odd:g}: every loss would count it as 0 or as 1. A mask"
            " is 1 for what is learned, else 0; weigh answers by their advantages, or"
            " in an objective of your own."
        )


def check_right_padded(tokens, mask, vocab, what="Prompt"):
    """Refuses rows of tokens that have gaps, or ids that the model has not.

    Args:
      tokens, mask: (..., T), of equal shapes; the mask has ones, then zeros.
      vocab: size of the model's vocabulary.
      what: a row is called in errors.
    Returns:
      How many tokens each row has, (...) int.
    Raises:
      ValueError: naming the row.
    """
    tokens, mask = np.asarray(tokens), np.asarray(mask)
    if tokens.shape != mask.shape or tokens.dtype.kind not in "iu":
        raise ValueError(
            f"{what} tokens are {tokens.dtype}{tokens.shape}, their mask has shape "
            f"{mask.shape}: pass whole numbers, and a mask of the same shape."
        )
    count = (mask != 0).sum(axis=-1)
    real = np.arange(mask.shape[-1]) < count[..., None]
    check_rows(
        (mask == real).all(axis=-1),
        f"{what} {{}} is not padded on the right: its mask must be ones, then zeros.",
    )
    check_rows(
        ((tokens >= 0) & (tokens < vocab) | ~real).all(axis=-1),
        f"{what} {{}} has ids outside of the model's vocabulary of {vocab}: pass those "
        "of its own tokenizer.",
    )
    return count


def check_prompts(tokens, mask, config, room):
    """As `check_right_padded`; refuses prompts without a token, and too long ones.

    Args:
      config: the model's. room: the most tokens that may follow a prompt.
    """
    count = check_right_padded(tokens, mask, config.vocab_size)
    check_rows(count > 0, "Prompt {} is empty: an answer needs a token to go on from.")
    longest = int(count.max(initial=0))
    what = f"A prompt of {longest} and up to {room} behind it"
    require_positions(config, longest + room, what)


def check_rows(fine, message):
    """Raises the message with the index of the first row that is not fine."""
    if not fine.all():
        index = [int(i) for i in np.argwhere(~fine)[0]]
        raise ValueError(message.format(index[0] if len(index) == 1 else tuple(index)))
