"""Pieces are checked when they arrive, and joined into one batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.scale.source import BrokenPiece, check_piece, checksum, joined
from helpers.scale.workers import Piece

PROMPTS, GROUP, VOCAB = 3, 2, 11


def piece(prompts=PROMPTS, width=5, length=4, seed=0):
    rng = np.random.default_rng(seed)
    shape = prompts, GROUP, length
    batch = {
        "prompt": rng.integers(1, VOCAB, (prompts, width)).astype(np.int32),
        "prompt_mask": np.ones((prompts, width), np.int32),
        "completion": rng.integers(1, VOCAB, shape).astype(np.int32),
        "loss_mask": np.ones(shape, np.float32),
        "logprobs": -rng.random(shape, np.float32),
        "rewards": rng.random((prompts, GROUP), np.float32),
    }
    mean = batch["rewards"].mean(axis=1, keepdims=True)
    batch["advantages"] = batch["rewards"] - mean
    return Piece(batch, {"reward": float(batch["rewards"].mean())}, [], 0, 1.0)


def require(piece_, version=0):
    check_piece(piece_, {"checksum": checksum(piece().batch)}, version)


BREAKS = {
    "nan": lambda b: b["logprobs"].__setitem__((0, 0, 0), np.nan),
    "infinite reward": lambda b: b["rewards"].__setitem__((0, 0), np.inf),
    "half the prompts": lambda b: b.update({n: x[:1] for n, x in b.items()}),
    "other prompts": lambda b: b.update(prompt=piece(seed=1).batch["prompt"]),
    "other order": lambda b: b.update(prompt=b["prompt"][::-1]),
    "pictures nobody sent": lambda b: b.update(images=np.zeros((3, 1, 2, 2, 3))),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_piece_is_refused(how):
    broken = piece()
    require(broken)
    BREAKS[how](broken.batch)
    with pytest.raises(BrokenPiece):
        require(broken)


def test_answers_of_a_version_that_never_was_are_refused():
    with pytest.raises(BrokenPiece, match="version 1"):
        require(piece()._replace(version=1))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=4))
def test_joined_pieces_contain_all_of_each(sizes):
    pieces = [piece(*size, seed=i) for i, size in enumerate(sizes)]
    batch, metrics = joined(pieces)
    row = 0
    for one in pieces:
        count = len(one.batch["prompt"])
        for name, x in one.batch.items():
            part = batch[name][row : row + count]
            np.testing.assert_array_equal(part[..., : x.shape[-1]], x)
            if name in ("loss_mask", "prompt_mask"):
                assert not part[..., x.shape[-1] :].any(), "padding counts nowhere"
        row += count
    assert row == len(batch["prompt"])
    pieces[0].metrics["calls"] = 2.0  # what only one of them has, if there are more
    assert joined(pieces)[1]["calls"] == 2.0
    whole = np.concatenate([one.batch["rewards"] for one in pieces])
    assert metrics["reward"] == pytest.approx(whole.mean(), rel=1e-5)
