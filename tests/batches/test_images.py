"""Pictures on their way to the model: the right size, and one for every image token."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from tiny_vision import PICTURE, SEES, SOFT, cached_model, groups, pictures

from helpers.batches import images, prompt_batches
from helpers.batches.images import ImageMismatch
from helpers.generation.rollouts import Rollouts
from helpers.generation.sampling import generate, row_keys
from helpers.model.scoring import group_logprobs
from helpers.text import chat
from helpers.text.tokenizer import train_tokenizer

KEYS = row_keys(jax.random.key(0), 0, 3, 2)


def test_a_photo_that_was_held_sideways_is_seen_upright():
    """As transformers loads it: the camera's orientation is in the EXIF block."""
    upright = Image.new("RGB", (8, 8), "black")
    upright.paste("white", (0, 0, 8, 4))  # the upper half
    sideways = upright.transpose(Image.Transpose.ROTATE_90)
    sideways.getexif()[0x0112] = 6  # to be shown, turn it back
    seen = images.fit_for(sideways, SEES)
    np.testing.assert_array_equal(seen, images.fit_for(upright, SEES))


@pytest.mark.parametrize(
    "picture, message",
    [
        (Image.fromarray(np.full((8, 8), 300, np.uint16)), "more than 8 bits"),
        (Image.new("F", (8, 8), 0.5), "more than 8 bits"),
        (np.zeros((3, 8, 8), np.uint8), "uint8"),
        (np.zeros((8, 8, 3)), "float64"),
        (np.zeros((0, 8, 3), np.uint8), "uint8"),
    ],
)
def test_what_is_no_picture_is_refused(picture, message):
    with pytest.raises(ValueError, match=message):
        images.fit_for(picture, SEES)


def test_cut_images_are_refused():
    for tokens, runs in (
        (SOFT[:-1], r"\[8\]"),
        ([*SOFT[:4], 3, *SOFT[:5]], r"\[4, 5\]"),  # nine in all, but in two pieces
        ([*PICTURE, *SOFT, *SOFT[:1]], r"\[9, 10\]"),
    ):
        with pytest.raises(ImageMismatch, match=f"Prompt 1 .*{runs}"):
            images.counts([PICTURE, tokens], SEES)


def mismatches():
    """What may be wrong with the batch that has one, two and no pictures."""
    prompts, _, batch = groups()
    right = np.asarray(batch["images"])
    too_many, beside_text = right.copy(), right.copy()
    too_many[0, 1] = 9
    beside_text[2, 0, 5, 5, 0] = 1
    cut = np.asarray(batch["prompt_mask"]).copy()
    cut[1, len(prompts[1]) - 6 :] = 0
    mask = batch["prompt_mask"]
    return {
        "no pictures": (mask, None, r"Prompt 0 has .*pictures take \[\]"),
        "too few": (mask, right[:, :1], "Prompt 1 has images of .*pass one picture"),
        "too many": (mask, too_many, "Prompt 0 has .*pass one picture"),
        "one for a text": (mask, beside_text, r"Prompt 2 has images of \[\]"),
        "a row missing": (mask, right[:2], "3 prompts, but 2 rows"),
        "a cut prompt": (cut, right, "Prompt 1 has runs"),
        "already scaled": (mask, right / np.float32(255), "float32.*takes uint8"),
    }


def test_a_mismatch_is_refused_before_anything_is_computed():
    for mask, shown, message in mismatches().values():
        with pytest.raises(ImageMismatch, match=message):
            generate(
                cached_model(), groups()[2]["prompt"], mask, KEYS,
                max_tokens=2, eos_ids=(), images=shown,
            )  # fmt: skip


TOKENIZER = train_tokenizer(["What is on the plate?", "I see an egg."], 300)
CONTROL = TOKENIZER.convert_tokens_to_ids(
    ["<start_of_image>", "<image_soft_token>", "<end_of_image>"]
)


def question(index, count):
    text = {"type": "text", "text": "?" + "a" * index}
    return [{"role": "user", "content": [text, *[{"type": "image"}] * count]}]


ROWS = [
    {"question": question(i, n), "name": i, "shown": n}
    for i, n in enumerate([1, 0, 2, 1, 1, 0])
]
SHOWN = pictures(len(ROWS), 2, seed=5)


def pictures_of(row):
    return list(SHOWN[row["name"], : row["shown"]])


def model():
    names = "begin_token", "image_token", "end_token"
    vision = dataclasses.replace(SEES, **dict(zip(names, CONTROL, strict=True)))
    made = cached_model(vocab=len(TOKENIZER), layers=2)
    made.config = dataclasses.replace(made.config, vision=vision)
    return made


def source(pictures=pictures_of, **settings):
    settings = {"batch": 3, "seed": 0, "buckets": (56,)} | settings
    vision = model().config.vision
    return prompt_batches.prompts(ROWS, TOKENIZER, pictures=pictures, vision=vision,
                            **settings)  # fmt: skip


def odd_ones_tie(prompts, completions, name, **_):
    """Whatever is said: equal for rows with an odd name, different for the others."""
    return [1.0 if number % 2 else i / 100 for i, number in enumerate(name)]


def test_rollouts_carry_pictures_and_what_was_sampled_is_what_is_scored(monkeypatch):
    rollouts = Rollouts(
        model(), source(), odd_ones_tie, TOKENIZER, group=2, max_tokens=6,
        mask_truncated=False,
    )  # fmt: skip
    often = tuple(range(0, len(TOKENIZER), 4))
    monkeypatch.setattr(chat, "eos_ids", lambda tokenizer: often)
    batch = next(rollouts)
    assert batch["images"].shape == (3, 2, 24, 24, 3)
    arrays = jax.tree.map(jnp.asarray, batch)
    scored = jax.jit(lambda batch: group_logprobs(rollouts.model, batch)[0])
    logprobs = scored(arrays)
    gap = np.where(batch["loss_mask"] > 0, logprobs - batch["logprobs"], 0)
    assert np.abs(gap).max() < 1e-4
    blank = arrays | {"images": arrays["images"] * 0}
    moved = np.abs(scored(blank) - logprobs).max(axis=(1, 2))
    has = (batch["prompt"] == CONTROL[1]).any(axis=1)
    assert ((moved > 1e-3) == has).all() and has.any()
