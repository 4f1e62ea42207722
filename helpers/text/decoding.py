"""Tokens back to text."""

import itertools

import numpy as np

# What Gemma 4 puts around a thought. They are special tokens, and without them nobody
# could tell what was thought from what was said: they stay, as <think> does.
THOUGHT = ("<|channel>", "<channel|>")


def decode(tokenizer, ids):
    """Decode token ids to text, leaving out the special tokens.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      ids: list of int or integer array of one axis.
    Returns:
      str; bytes that are no UTF-8 show as the replacement character. What begins and
      ends a thought of Gemma 4's stays in it.
    """
    marks = _marks(tokenizer)
    own = np.asarray(ids, np.int64).tolist()
    runs = itertools.groupby(own, lambda i: marks.get(i, ""))
    return "".join(
        mark * len(list(run)) if mark else _plain(tokenizer, list(run))
        for mark, run in runs
    )


def _plain(tokenizer, ids):
    return tokenizer.decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def _marks(tokenizer):
    """{id: text} of those marks of a thought that the tokenizer has as tokens."""
    found = {tokenizer.convert_tokens_to_ids(mark): mark for mark in THOUGHT}
    return {
        i: mark
        for i, mark in found.items()
        if i is not None and tokenizer.convert_ids_to_tokens(i) == mark
    }
