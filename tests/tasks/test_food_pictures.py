"""Drawn foods: as said, repeatable, split cleanly, told apart by shape, not colour."""

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from helpers.tasks.food import drawing, food_pictures
from helpers.tasks.food.drawing import Pen
from helpers.tasks.food.food101 import LABELS
from helpers.tasks.food.food_pictures import FOODS, generate, picture

unhurried = settings(deadline=None, max_examples=40)


def digest(rows):
    return hashlib.sha256(b"".join(row["image"].tobytes() for row in rows)).hexdigest()


def words(row):
    return (*row["foods"], row["place"], row["table"], *row["beside"])


def test_the_labels_are_those_of_the_hub():
    """Numbers by which the dataset card of ethz/food101 knows some of them."""
    assert len(LABELS) == len(set(LABELS)) == 101
    known = {0: "apple_pie", 16: "cheesecake", 17: "cheese_plate", 23: "churros"}
    known |= {31: "donuts", 38: "fish_and_chips", 100: "waffles"}
    assert {number: LABELS[number] for number in known} == known


@unhurried
@given(
    st.integers(0, 2**40),
    st.integers(0, 10**6),
    st.sampled_from(("train", "test")),
    st.sampled_from((16, 32, 33, 48, 64)),
    st.sampled_from(((1,), (2,), (1, 2))),
)
def test_a_row_is_what_it_says_and_the_same_again(seed, index, split, size, levels):
    options = {"split": split, "size": size, "levels": levels, "no_food": 0.3}
    row, again = (picture(seed, index, **options) for _ in range(2))
    image, foods = row.pop("image"), row["foods"]
    assert image.shape == (size, size, 3) and image.dtype == np.uint8
    assert image.flags.c_contiguous and np.array_equal(image, again.pop("image"))
    assert row == again and row["level"] in levels
    assert len(foods) in {1: (0, 1), 2: (2,)}[row["level"]]
    assert len(set(foods)) == len(foods) and set(foods) <= set(FOODS)
    assert set(row["beside"]) <= set(drawing.THINGS) and len(row["beside"]) <= 2
    assert food_pictures.in_test(row["id"]) == (split == "test")
    assert image.std() > 5  # something is there


def test_pictures_do_not_depend_on_the_process_or_on_those_before():
    code = (
        "import hashlib; from helpers.tasks import food_pictures as f;"
        "rows = f.generate(6, seed=3, levels=(1, 2));"
        "pixels = b''.join(row['image'].tobytes() for row in rows);"
        "print(hashlib.sha256(pixels).hexdigest())"
    )
    root = Path(__file__).parents[2]
    there = subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True)
    rows = [picture(3, index, levels=(1, 2)) for index in reversed(range(6))]
    assert digest(reversed(rows)) == there.strip()
    assert digest(generate(6, seed=4, levels=(1, 2))) != there.strip()


def test_no_combination_and_no_picture_is_in_both_splits():
    """The splits are compared by what rows say and by pixels, not by their ids."""
    options = {"size": 16, "levels": (1, 2), "no_food": 0.3, "foods": FOODS[:3]}
    train = [row for s in (0, 1) for row in generate(400, seed=s, **options)]
    test = [r for s in (0, 1) for r in generate(400, seed=s, split="test", **options)]
    assert not {words(row) for row in train} & {words(row) for row in test}
    assert not {digest([row]) for row in train} & {digest([row]) for row in test}
    assert len({digest([row]) for row in train + test}) == 1600


@unhurried
@given(st.integers(0, 10**6))
def test_two_foods_are_named_from_left_to_right(index):
    """Two discs of known colours stand in for drawings: where are their pixels?"""
    inks = {"pizza": (255, 0, 255), "sushi": (0, 255, 255)}
    with pytest.MonkeyPatch.context() as patch:
        for food, ink in inks.items():
            disc = lambda pen, rng, ink=ink: pen.disc(0, 0, 1.0, ink)  # noqa: E731
            patch.setitem(food_pictures.DRAWINGS, food, disc)
        row = picture(0, index, levels=(2,), foods=tuple(inks))
    image = row["image"].astype(int)
    blue = image[..., 2] > 170
    purple = blue & (image[..., 1] < 60) & (image[..., 0] > 150)
    turquoise = blue & (image[..., 0] < 60) & (image[..., 1] > 150)
    x = {"pizza": purple.nonzero()[1].mean(), "sushi": turquoise.nonzero()[1].mean()}
    left, right = row["foods"]
    assert x[left] + 8 < x[right]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"split": "validation"}, "'validation'"),
        ({"levels": (3,)}, r"\(1, 2\), not \(3,\)"),
        ({"foods": ("pizza", "soup")}, "No drawing of .'soup'"),
    ],
)
def test_wrong_arguments_are_named(wrong, complaint):
    with pytest.raises(ValueError, match=complaint):
        generate(1, seed=0, **wrong)


# --- what tells the foods apart ---


def test_a_drawing_stays_near_its_place():
    """Every food fills its disc and does not cover the things beside the dish."""
    back = (1, 2, 3)
    for food in FOODS:
        for seed in range(8):
            image = Image.new("RGB", (300, 300), back)
            pen = Pen(ImageDraw.Draw(image), 150 + 150j, 100)
            food_pictures.DRAWINGS[food](pen, random.Random(seed))
            y, x = np.nonzero((np.asarray(image) != back).any(-1))
            far = np.hypot(x - 149.5, y - 149.5) / 100
            assert 0.85 < far.max() < 1.45, (food, far.max())
            assert len(x) > 0.18 * np.pi * 100**2, food
