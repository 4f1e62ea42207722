"""Food pictures drawn here, so that the course can look at food without a network.

A row is what a labelled photo gives, and a little more:

  image   uint8 (H, W, 3)
  foods   labels of Food-101, one or two from left to right; [] where there is no food
  place   what they are on, "white plate"; what there is instead of a dish, "cup"
  table   "blue checked"
  beside  what lies beside it, ["fork", "napkin"]
  level   1 for one food or none, 2 for two foods on one dish
  id      a hash of foods, place, table and beside: of what is drawn, not how

Train and test are kept apart by `id`: a test picture shows a combination of food, dish,
table and things that no training picture shows, not a training picture drawn again.
"""

import hashlib
import math
import random

import numpy as np
from PIL import Image, ImageDraw

from helpers.tasks.food import drawing
from helpers.tasks.food.drawing import Pen
from helpers.tasks.food.foods import DRAWINGS

FOODS = tuple(sorted(DRAWINGS))
SEEN_FROM_THE_SIDE = set(
    "chocolate_cake cup_cakes french_fries hamburger ice_cream macarons pancakes "
    "tacos".split()
)
NO_FOOD = ("dish", "cup", "cutlery", "flowers", "book")
ALREADY_THERE = {"cup": ("cup",), "cutlery": drawing.CUTLERY, "flowers": ("flower",)}
TEST_SHARE = 8  # one combination in eight is test
FINER = 4  # drawn so many times larger, then reduced: smooth edges


def generate(n, *, seed, **options):
    """The first n pictures of a seed, in a list.

    Args:
      n: how many rows.
      seed, options: as for `picture`, whose indices 0 to n - 1 these are.
    """
    return [picture(seed, index, **options) for index in range(n)]


def picture(
    seed, index, *, split="train", size=48, levels=(1,), foods=FOODS, no_food=0.1
):
    """One drawn picture; the same numbers give the same picture.

    Args:
      seed: int; another seed gives other pictures.
      index: int, which picture of that seed.
      split: "train" or "test"; the two share no `id`, whatever the seeds.
      size: H = W in pixels, 16 to 256.
      levels: some of (1, 2), each drawn as often as the others.
      foods: which of FOODS to draw.
      no_food: the share, 0 to 1, of level-1 pictures without any food.
    Returns:
      A row as described at the top of this file.
    Raises:
      ValueError: an unknown split, level or food, or too few foods.
    """
    if split not in ("train", "test"):
        raise ValueError(f'split is "train" or "test", not {split!r}.')
    if not set(levels) <= {1, 2}:
        raise ValueError(f"levels are some of (1, 2), not {levels!r}.")
    if unknown := set(foods) - set(FOODS):
        raise ValueError(f"No drawing of {sorted(unknown)}; there are {FOODS}.")
    rng = random.Random(f"{split}/{seed}/{index}")
    while True:
        row = _arrangement(rng, rng.choice(levels), foods, no_food)
        if in_test(row["id"]) == (split == "test"):
            return {"image": _drawn(row, rng, size), **row}


def in_test(picture_id):
    """Whether a picture with this `id` belongs to the test split."""
    return int(picture_id, 16) % TEST_SHARE == 0


def _arrangement(rng, level, foods, no_food):
    """What is in the picture, in words."""
    shown = rng.sample(sorted(foods), level)
    if level == 1 and rng.random() < no_food:
        shown = []
    cloth, china = rng.sample(sorted(drawing.COLOURS), 2)
    instead = "dish" if shown else rng.choice(NO_FOOD)
    place = f"{china} {rng.choice(drawing.DISHES)}" if instead == "dish" else instead
    other = [t for t in drawing.THINGS if t not in ALREADY_THERE.get(place, ())]
    beside = rng.sample(other, rng.choice((0, 1, 1, 2)))
    row = {
        "foods": shown,
        "place": place,
        "table": f"{cloth} {rng.choice(drawing.PATTERNS)}",
        "beside": sorted(beside),
        "level": level,
    }
    key = " ".join([*shown, "on", place, row["table"], *row["beside"]])
    return {**row, "id": hashlib.sha256(key.encode()).hexdigest()[:12]}


def _drawn(row, rng, size):
    """The picture of an arrangement, uint8 (size, size, 3)."""
    image = Image.new("RGB", (size * FINER, size * FINER))
    half = size * FINER / 2
    pen = Pen(ImageDraw.Draw(image), complex(half, half), half)
    cloth, pattern = row["table"].split()
    drawing.table(pen, rng, pattern, cloth)
    here = pen.at(rng.uniform(-0.08, 0.08), rng.uniform(-0.08, 0.08))
    if row["place"] in NO_FOOD:
        _instead(here, rng, row["place"])
    else:
        _served(here, rng, row)
    drawing.things(pen, rng, row["beside"])
    return _photographed(np.asarray(image.reduce(FINER)), rng)


def _served(pen, rng, row):
    """A dish, and the foods on it if there are any."""
    china, kind = row["place"].split(" ", 1)
    radius = rng.uniform(0.78, 0.88)
    drawing.dish(pen.at(0, 0, radius, rng.uniform(-12, 12)), rng, kind, china)
    places = [
        (rng.uniform(-0.08, 0.08), rng.uniform(-0.08, 0.08), rng.uniform(0.56, 0.74))
    ]
    if row["level"] == 2:
        tilt = math.radians(rng.uniform(-35, 35))
        x, y = 0.46 * math.cos(tilt), 0.46 * math.sin(tilt)
        places = [(-x, -y, rng.uniform(0.34, 0.42)), (x, y, rng.uniform(0.34, 0.42))]
    for food, (x, y, size) in zip(row["foods"], places, strict=False):
        lean = 20 if food in SEEN_FROM_THE_SIDE else 45
        DRAWINGS[food](pen.at(x, y, size, rng.uniform(-lean, lean)), rng)


def _instead(pen, rng, kind):
    """What a picture without food and without a dish shows."""
    here = pen.at(0, 0, rng.uniform(0.5, 0.7), rng.uniform(-20, 20))
    if kind == "cutlery":
        names = rng.sample(drawing.CUTLERY, rng.choice((2, 3)))
        drawing.cutlery(here, rng, names)
    else:
        getattr(drawing, kind)(here, rng)


def _photographed(pixels, rng):
    """The picture in warm or cold, bright or dim light, with a little noise."""
    light = rng.uniform(0.85, 1.1)
    channels = [light * rng.uniform(0.94, 1.06) for _ in range(3)]
    noise = np.random.default_rng(rng.getrandbits(64)).normal(0, 4, pixels.shape)
    return np.clip(pixels * np.array(channels) + noise, 0, 255).astype(np.uint8)
