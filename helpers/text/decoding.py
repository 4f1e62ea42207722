"""Tokens back to text."""

import itertools

import numpy as np

# Gemma 4 puts these around a thought. They are special tokens, but without them nobody
# could tell the thought from the answer, so they stay, as <think> does.
THOUGHT = ("<|channel>", "<channel|>")


def decode(tokenizer, ids):
    """Decodes token ids to text, leaving out the special tokens.

    Args:
      tokenizer: from `load_tokenizer` or `train_tokenizer`.
      ids: list of int or integer array of one axis.
    Returns:
      str; bytes that are no UTF-8 show as the replacement character. What begins and
      ends a thought of Gemma 4's stays in it.
    """
    vocabulary = tokenizer.get_added_vocab()
    marks = {vocabulary[mark]: mark for mark in THOUGHT if mark in vocabulary}
    ids = np.asarray(ids, np.int64).tolist()
    pieces = []
    for mark, group in itertools.groupby(ids, lambda i: marks.get(i, "")):
        run = list(group)
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        text = mark * len(run) if mark else tokenizer.decode(run, **options)
        pieces.append(text)
    return "".join(pieces)
