"""Batches of pictures: every row once per epoch, going on where they stopped."""

import functools
import io
import json
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers.batches.images import pictures
from helpers.tasks.food import food101, food_pictures

unhurried = settings(deadline=None, max_examples=40)


def make_rows(count):
    return [{"id": f"{i:04x}", "number": i} for i in range(count)]


def paint(row):
    """A map step: an image that shows its row's number."""
    return {**row, "image": np.full((2, 3, 3), row["number"], np.uint8)}


def numbers(batch):
    assert batch["image"].dtype == np.uint8 and batch["image"].shape[1:] == (2, 3, 3)
    shown = batch["image"][:, 0, 0, 0].tolist()
    assert shown == [row["number"] for row in batch["rows"]]
    return shown


@unhurried
@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 3), st.integers(0, 99))
def test_every_picture_comes_once_per_epoch_with_its_row(count, batch, epochs, seed):
    source = pictures(make_rows(count), paint, batch=batch, seed=seed, epochs=epochs)
    batches = [numbers(drawn) for drawn in source]
    assert Counter(sum(batches, [])) == {i: epochs for i in range(count)}
    assert {len(b) for b in batches[:-1]} <= {batch}
    assert source.metrics["epoch"] == epochs


@unhurried
@given(st.integers(1, 30), st.integers(1, 7), st.integers(0, 12), st.integers(0, 99))
def test_a_new_source_continues_exactly_after_any_batch(count, batch, taken, seed):
    def new():
        return pictures(make_rows(count), paint, batch=batch, seed=seed)

    source = new()
    for _ in range(taken):
        next(source)
    state = json.loads(json.dumps(source.get_state()))
    wanted = [numbers(next(source)) for _ in range(5)]
    again = new()
    again.set_state(state)
    assert [numbers(next(again)) for _ in range(5)] == wanted
    assert again.metrics == source.metrics


def test_only_the_rows_of_a_batch_are_mapped():
    mapped = []

    def step(row):
        mapped.append(row["number"])
        return paint(row)

    source = pictures(make_rows(100), step, batch=4, seed=0)
    assert not mapped
    assert sorted(numbers(next(source))) == sorted(mapped)


def test_photos_and_drawn_foods_are_two_map_steps():
    file = io.BytesIO()
    Image.new("RGB", (30, 20), (200, 10, 10)).save(file, "PNG")
    stored = {"photo": file.getvalue(), "foods": ["pizza"], "where": "1", "id": "a"}
    step = functools.partial(food101.with_image, size=24)
    batch = next(pictures([stored] * 3, step, batch=3, seed=0))
    assert (batch["image"] == (200, 10, 10)).all() and batch["image"].shape[1:3] == (
        24,
        24,
    )

    rows = [{"id": str(i), "index": i} for i in range(5)]
    batch = next(
        pictures(rows, lambda r: food_pictures.picture(7, r["index"]), batch=5, seed=0)
    )
    whole = {row["image"].tobytes() for row in food_pictures.generate(5, seed=7)}
    assert {image.tobytes() for image in batch["image"]} == whole
