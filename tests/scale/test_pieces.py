"""What a worker sends is looked at, and pieces become one batch."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.scale import tickets
from helpers.scale.pieces import (
    PER_TOKEN,
    BrokenPiece,
    Piece,
    joined,
    require_whole,
)

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


ROLLOUTS = SimpleNamespace(
    group=GROUP,
    advantage="mean",
    model=SimpleNamespace(config=SimpleNamespace(vocab_size=VOCAB)),
)


def require(found, version=0):
    asked = piece().batch
    ticket = {"count": PROMPTS, "checksum": tickets.checksum(asked)}
    require_whole(found, ticket, ROLLOUTS, version)


def test_a_whole_piece_passes():
    require(piece())


BREAKS = {
    "a piece is missing an array": lambda b: b.pop("rewards"),
    "nan": lambda b: b["logprobs"].__setitem__((0, 0, 0), np.nan),
    "infinite reward": lambda b: b["rewards"].__setitem__((0, 0), np.inf),
    "a token too large": lambda b: b["completion"].__setitem__((0, 0, 0), VOCAB),
    "a token below 0": lambda b: b["prompt"].__setitem__((0, 0), -1),
    "a probability above 1": lambda b: b["logprobs"].__setitem__((0, 0, 0), 0.5),
    "a group cut short": lambda b: b.update(rewards=b["rewards"][:, :1]),
    "a prompt cut off": lambda b: b.update(prompt=b["prompt"][:1]),
    "another width": lambda b: b.update(loss_mask=b["loss_mask"][..., :2]),
    "a flat array": lambda b: b.update(completion=b["completion"].reshape(-1)),
    "a list": lambda b: b.update(rewards=b["rewards"].tolist()),
    "nothing": lambda b: b.clear(),
    "objects": lambda b: b.update(rewards=np.full((PROMPTS, GROUP), None)),
    "tokens and a half": lambda b: b.update(completion=b["completion"] + 0.5),
    "half the prompts": lambda b: b.update({n: x[:1] for n, x in b.items()}),
    "no prompts": lambda b: b.update({n: x[:0] for n, x in b.items()}),
    "no tokens": lambda b: b.update({n: b[n][..., :0] for n in PER_TOKEN}),
    "a mask of 1000": lambda b: b.update(loss_mask=b["loss_mask"] * 1000),
    "a prompt mask of 2": lambda b: b.update(prompt_mask=b["prompt_mask"] * 2),
    "other prompts": lambda b: b.update(prompt=piece(seed=1).batch["prompt"]),
    "a wider prompt": lambda b: b.update(
        {n: np.pad(b[n], [(0, 0), (0, 1)]) for n in ("prompt", "prompt_mask")}
    ),
    "pictures nobody asked about": lambda b: b.update(images=np.zeros((3, 1, 2, 2, 3))),
    "pictures in a list": lambda b: b.update(images=[[1], [2, 3]]),
    "an array nobody knows": lambda b: b.update(more=b["rewards"]),
    "other advantages": lambda b: b["advantages"].__setitem__((0, 0), 3e38),
    "advantages of other rewards": lambda b: b.update(rewards=b["rewards"][::-1]),
    "more than float32 holds": lambda b: b.update(advantages=np.full((3, 2), 1e300)),
}
DESCRIPTIONS = {
    "version": (None, 1, -1, 0.0, True),
    "metrics": (
        *(None, {}, {"reward": None}, {"reward": np.nan}, {"reward": "1"}),
        {"reward": 1.0, 2: 1.0, (3, 4): 1.0},
    ),
    "seconds": (None, np.inf),
    "samples": (None, "abc", [object()], ["abc"], [{"a": object()}], [{1: "a"}]),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_piece_is_refused(how):
    broken = piece()
    BREAKS[how](broken.batch)
    with pytest.raises(BrokenPiece):
        require(broken)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_what_is_said_of_a_piece_is_looked_at_as_well(name):
    for value in DESCRIPTIONS[name]:
        with pytest.raises(BrokenPiece, match=name):
            broken = piece()._replace(**{name: value})
            require(broken)


THINGS = [None, 3, {"batch": {}}, ([],), SimpleNamespace(batch=piece().batch)]


@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_piece_is_refused(thing):
    with pytest.raises(BrokenPiece, match="no batch of answers"):
        require(thing)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=4))
def test_joined_pieces_hold_all_that_each_held(sizes):
    pieces = [piece(*size, seed=i) for i, size in enumerate(sizes)]
    batch, metrics = joined(pieces)
    row = 0
    for one in pieces:
        count = len(one.batch["prompt"])
        for name, x in one.batch.items():
            found = batch[name][row : row + count]
            np.testing.assert_array_equal(found[..., : x.shape[-1]], x)
            if name in ("loss_mask", "prompt_mask"):
                assert not found[..., x.shape[-1] :].any(), "padding counts nowhere"
        row += count
    assert row == len(batch["prompt"])
    pieces[0].metrics["calls"] = 2.0  # what only one of them has, if there are more
    assert joined(pieces)[1]["calls"] == 2.0
    whole = np.concatenate([one.batch["rewards"] for one in pieces])
    assert metrics["reward"] == pytest.approx(whole.mean(), rel=1e-5)
