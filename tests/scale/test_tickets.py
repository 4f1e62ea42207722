"""A checksum tells prompts apart, and says the same of the same ones."""

import json

import numpy as np
import pytest
from test_source import make

from helpers.scale import tickets
from helpers.scale.worker import Worker

BATCH = {
    "prompt": np.arange(6, dtype=np.int32).reshape(2, 3),
    "prompt_mask": np.ones((2, 3), np.int32),
    "images": np.arange(24, dtype=np.uint8).reshape(2, 1, 2, 2, 3),
}
CHANGES = {
    "another token": {"prompt": BATCH["prompt"] + [[0, 0, 0], [0, 0, 1]]},
    "another order": {"prompt": BATCH["prompt"][::-1]},
    "another shape": {"images": BATCH["images"].reshape(2, 2, 1, 2, 3)},
    "another kind": {"prompt_mask": BATCH["prompt_mask"].astype(np.float32)},
    "another picture": {"images": BATCH["images"] + np.uint8(1)},
}


@pytest.mark.parametrize("how", CHANGES)
def test_prompts_that_differ_have_another_checksum(how):
    changed = {
        n: x.astype(np.int32) if n == "prompt" else x for n, x in CHANGES[how].items()
    }
    assert tickets.checksum(BATCH | changed) != tickets.checksum(BATCH)


def test_what_is_answered_and_how_it_is_stored_does_not_matter():
    stored = {n: np.asfortranarray(x) for n, x in BATCH.items()}
    again = stored | {"rewards": np.ones((2, 2))}
    assert tickets.checksum(again) == tickets.checksum(BATCH)
    less = {n: x for n, x in BATCH.items() if n != "images"}
    assert tickets.checksum(less) != tickets.checksum(BATCH)


def test_a_worker_draws_the_prompts_of_its_ticket_after_a_way_through_json():
    rollouts, drawn = make(epochs=1), []
    while (ticket := tickets.draw(rollouts)) is not None:
        drawn.append(ticket)
    assert len(drawn) == 12 and len({ticket["checksum"] for ticket in drawn}) == 12
    worker = Worker(lambda: make(epochs=1))
    worker.version = 0
    for ticket in drawn[-2:]:
        piece = worker.answer(json.loads(json.dumps(ticket)))
        assert tickets.checksum(piece.batch) == ticket["checksum"]
        assert len(piece.batch["prompt"]) == ticket["count"]
