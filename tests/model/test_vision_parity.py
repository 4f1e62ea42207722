"""Pictures and prompts give here what they give in transformers (no torch needed).

tests/golden/gemma3_vision holds a small random Gemma 3 that transformers saved and ran,
and tests/golden/make_vision.py says how: one picture, two, none, two side by side.
"""

import json
import pathlib

import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file, save_file
from tiny_vision import SEES, forward, see

from helpers.batches import images
from helpers.model import families, weights

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "gemma3_vision"
STORED = dict(np.load(GOLDEN / "vision.npz"))
TOKENS, MASK = (STORED[name].astype(np.int32) for name in ("tokens", "mask"))


def logits(model, pictures):
    seen = None if pictures is None else see(model, pictures)
    return np.asarray(forward(model, TOKENS, seen, MASK)[1])


def furthest(ours, theirs=STORED["logits"]):
    """Largest difference at each row's own tokens."""
    return (np.abs(ours - theirs) * MASK[..., None]).max()


@pytest.fixture(scope="module")
def model():
    return weights.load(GOLDEN, vision=True)


def test_logits_are_those_of_transformers(model):
    assert furthest(logits(model, STORED["images"])) < 1e-4
    assert STORED["logits"].std() > 0.5
    moved = np.abs(logits(model, 255 - STORED["images"]) - STORED["logits"])
    assert (moved.max(axis=(1, 2)) > 1).tolist() == [True, True, False, True]


def test_greedy_answers_are_those_of_transformers(model):
    """Rows with and without pictures in one batch, one of them padded."""
    greedy = STORED["greedy"]
    batch = TOKENS, MASK, greedy.shape[1], STORED["images"]
    np.testing.assert_array_equal(tiny_models.greedy(model, *batch), greedy)


@pytest.mark.parametrize("shape", ["wide", "tall", "grey", "small", "same"])
def test_pixels_are_those_of_the_image_processor(shape):
    """One step of 255 apart at most: Pillow's releases round differently.

    The stored pixels are Pillow 13's; of Pillow 12's a fifth is a step away in "tall".
    """
    ours = images.fit_for(STORED[f"picture_{shape}"], SEES)
    theirs = (STORED[f"pixels_{shape}"] + 1) / 2  # normalised, back to 0..1
    np.testing.assert_allclose(ours / 255, theirs, atol=1 / 255 + 1e-6)
    assert np.abs(ours / 255 - theirs).mean() < 0.25 / 255


def test_what_is_saved_here_is_what_transformers_was_seen_to_read(model, tmp_path):
    """The same tensors by the hub's names, and the config files it was run with."""
    weights.save(model, tmp_path)
    theirs = load_file(GOLDEN / "model.safetensors")
    ours = load_file(tmp_path / "model.safetensors")
    hub = {
        name.replace("vision_tower.", "vision_tower.vision_model."): x
        for name, x in theirs.items()
    }
    assert ours.keys() == hub.keys()
    for name, x in ours.items():
        np.testing.assert_array_equal(x, hub[name], err_msg=name)
    for name in ("config.json", "preprocessor_config.json"):
        read = json.loads((GOLDEN / f"resaved_{name}").read_text())
        assert json.loads((tmp_path / name).read_text()) == read
    again = weights.load(tmp_path, vision=True)
    np.testing.assert_array_equal(
        logits(again, STORED["images"]), logits(model, STORED["images"])
    )


RENAMED = {
    "as transformers 5 saves it": {},
    "as the hub has it": {"vision_tower.": "vision_tower.vision_model."},
    "as it is inside transformers": {
        "language_model.model.": "model.language_model.",
        "vision_tower.": "model.vision_tower.",
        "multi_modal_projector.": "model.multi_modal_projector.",
    },
}


@pytest.mark.parametrize("spelling", RENAMED)
def test_every_spelling_of_the_names_is_read(spelling, tmp_path):
    tensors = load_file(GOLDEN / "model.safetensors")
    for old, new in RENAMED[spelling].items():
        tensors = {
            new + name.removeprefix(old) if name.startswith(old) else name: x
            for name, x in tensors.items()
        }
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((GOLDEN / "config.json").read_bytes())
    both = weights.load(tmp_path, vision=True)
    assert furthest(logits(both, STORED["images"])) < 1e-4
    half = weights.load(tmp_path)
    assert half.config.vision is None and not hasattr(half, "vision")
    only_text = logits(half, None)[2]
    np.testing.assert_allclose(only_text, STORED["logits"][2], atol=1e-4)


def test_names_are_undone():
    config = weights.load(GOLDEN, vision=True).config
    for name in weights.file_shapes(config):
        assert families.our_name(families.folder_name(name, config)) == name
