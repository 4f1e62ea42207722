"""Pictures and prompts give in Gemma 4 what they give in transformers (no torch).

tests/golden/gemma4_vision holds a small random Gemma 4 that transformers saved and ran;
tests/golden/make_gemma4_vision.py says how.
"""

import pathlib

import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file, save_file
from tiny_vision import forward, see

from helpers.batches import images
from helpers.model import weights

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "gemma4_vision"
STORED = dict(np.load(GOLDEN / "vision.npz"))
TOKENS, MASK = (STORED[name].astype(np.int32) for name in ("tokens", "mask"))


@pytest.fixture(scope="module")
def model():
    return weights.load(GOLDEN, vision=True)


def strips(vision, change=lambda pixels: pixels):
    """The batch's pictures: one, two, none, a long one; black where there is none."""
    one, two, three, long = (
        vision.strip(change(STORED[f"seen_{i}"])) for i in range(4)
    )
    none = np.zeros_like(one)
    rows = [one, none], [two, three], [none, none], [long, none]
    return np.stack([np.stack(row) for row in rows])


def test_logits_are_those_of_transformers(model):
    pictures = strips(model.config.vision)
    images.check_prompts(TOKENS, MASK, pictures, model.config.vision)
    ours = np.asarray(forward(model, TOKENS, see(model, pictures), MASK)[1])
    assert (np.abs(ours - STORED["logits"]) * MASK[..., None]).max() < 1e-4


def test_greedy_answers_are_those_of_transformers(model):
    """From the cache: rows with one, two and no pictures in one batch, some padded.

    transformers was kept from writing the token of a picture; where ours does, the two
    part, and only what comes before is compared.
    """
    greedy = STORED["greedy"]
    pictures = strips(model.config.vision)
    ours = tiny_models.greedy(model, TOKENS, MASK, greedy.shape[1], pictures)
    alike = np.cumsum(ours == model.config.vision.image_token, axis=1) == 0
    assert alike.sum() >= 46
    np.testing.assert_array_equal(ours[alike], greedy[alike])


def test_a_folder_comes_back_and_an_audio_tower_is_left_out(model, tmp_path):
    weights.save(model, tmp_path)
    theirs = load_file(GOLDEN / "model.safetensors")
    ours = load_file(tmp_path / "model.safetensors")
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        np.testing.assert_array_equal(x, theirs[name], err_msg=name)
    sounds = {"model.audio_tower.layers.0.x": np.ones(2, np.float32)}
    save_file(ours | sounds, tmp_path / "model.safetensors")
    again = weights.load(tmp_path, vision=True)
    assert again.config == model.config
