"""What a local food model's own probabilities tell of its doubt, into doubt.csv.

    python -m scripts.doubt        about two minutes; needs `pip install scikit-image`

The threshold of each model (`food_models.SURE`) is the probability of the first turn
that nine in ten of TRAIN training drawings of one food or none reach. What lies below
is then counted on test drawings, on plates of one colour, on noise, and on the photos
that scikit-image carries in its package: whole, and their four quarters.
"""

import pathlib
from importlib import util

import numpy as np

from helpers.app import food_models, local_model
from helpers.app.assistant import converse, portions
from helpers.course import recorded
from helpers.tasks.food import food_pictures, food_traces, photos
from helpers.tools import nutrition
from scripts import tables

TRAIN, TEST, MADE = 400, 400, 100
QUESTION = food_traces.ONE_FOOD[0].format(150)
PHOTOS = (
    "astronaut brick camera chelsea clock_motion coffee coins grass gravel "
    "hubble_deep_field moon motorcycle_left retina rocket"
).split()


def main():
    """Writes the table, and says which thresholds it found."""
    pictures = {
        "training drawings": drawings("train", TRAIN, seed=1),
        "test drawings": drawings("test", TEST, seed=5),
        "test drawings of two foods": drawings("test", MADE, seed=5, foods=2),
        "one colour": plain(MADE),
        "noise": noise(MADE),
        "photos": photographs(),
    }
    rows = []
    for name, stage in food_models.STUDENTS.items():
        model = local_model.load(stage, name)
        asked = {
            kind: [ask(model, *one) for one in pictures[kind]] for kind in pictures
        }
        sure = threshold([certainty for certainty, _, _ in asked["training drawings"]])
        rows += [row(stage, kind, sure, answers) for kind, answers in asked.items()]
        print(f"{stage}: sure from {sure}", flush=True)
    tables.write(recorded.FOLDER / "doubt.csv", rows)


def threshold(certainties):
    """The probability that nine in ten reach, with two digits."""
    return round(float(np.quantile(certainties, 0.1)), 2)


def drawings(split, count, *, seed, foods=1):
    """Drawn plates: list of (question, picture, portions that should be looked up)."""
    rows = food_pictures.generate(count, seed=seed, split=split, levels=(foods,))
    asked = food_traces.ask(rows, seed=seed)
    return [(row["text"], row["image"], row["portions"]) for row in asked]


def plain(count):
    """Pictures of one colour, on which there is nothing; as `drawings`."""
    colours = np.random.default_rng(14).integers(0, 256, (count, 1, 1, 3), np.uint8)
    return [(QUESTION, np.tile(colour, (48, 48, 1)), []) for colour in colours]


def noise(count):
    """Pictures of noise; as `drawings`."""
    shape = (count, 48, 48, 3)
    pixels = np.random.default_rng(15).integers(0, 256, shape, np.uint8)
    return [(QUESTION, picture, []) for picture in pixels]


def photographs():
    """Real photos and their quarters; of no food that the models know, as `drawings`.

    Raises:
      SystemExit: scikit-image is missing.
    """
    found = util.find_spec("skimage")
    if found is None or found.origin is None:
        raise SystemExit(
            "Run `pip install scikit-image`: its package holds the photos."
        )
    folder = pathlib.Path(found.origin).parent / "data"
    views = []
    for name in PHOTOS:
        (file,) = folder.glob(f"{name}.*")
        whole = photos.decode(file.read_bytes(), where=file.name)
        y, x = whole.shape[0] // 2, whole.shape[1] // 2
        views += [whole, whole[:y, :x], whole[:y, x:], whole[y:, :x], whole[y:, x:]]
    return [(QUESTION, view, []) for view in views]


def ask(model, question, picture, wanted):
    """One conversation: probability of the first turn, whether it called, was right."""
    begun = []

    class Kept:
        name = model.name

        def begin(self, question, picture):
            begun.append(model.begin(question, picture))
            return begun[0]

    events = list(converse(Kept(), question, picture, [nutrition.TOOL]))
    called = any(event.kind == "call" for event in events)
    found = [{"food": p["food"], "grams": p["grams"]} for p in portions(events)]
    return begun[0].certainty, called, found == wanted and called == bool(wanted)


def row(stage, kind, sure, answers):
    """One row of the table, of (certainty, called, right) of each picture."""
    certain = np.array([certainty for certainty, _, _ in answers])
    called, right = (np.array([a[i] for a in answers]) for i in (1, 2))
    unsure = certain < sure
    return {
        "model": stage,
        "pictures": kind,
        "n": len(answers),
        "sure_from": sure,
        "median": f"{np.median(certain):.3f}",
        "unsure": int(unsure.sum()),
        "looked_up": int(called.sum()),
        "looked_up_and_sure": int((called & ~unsure).sum()),
        "right_if_sure": f"{int((right & ~unsure).sum())}/{int((~unsure).sum())}",
        "right_if_unsure": f"{int((right & unsure).sum())}/{int(unsure.sum())}",
    }


if __name__ == "__main__":
    main()
