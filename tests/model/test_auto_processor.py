"""Folders of models that see, read by transformers' own AutoProcessor.

It needs no torch: what it makes of a question and a picture is what we make of them.
"""

import json
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose
from transformers import AutoProcessor

from helpers.batches import images
from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.runtime.environment import ROOT
from helpers.text import chat

SHIPPED = sorted((ROOT / "data" / "tiny").glob("food_*"))
MESSAGES = [
    {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}],
    }
]


def vision_of(folder):
    return ModelConfig.from_hf(weights.read_config(folder), True).vision


def holds(folder):
    """Whether both read a conversation with a picture alike: ids, places and pixels."""
    tokenizer, vision = chat.load_tokenizer(folder), vision_of(folder)
    ours = chat.prompt_tokens(tokenizer, MESSAGES, vision=vision)
    picture = np.random.default_rng(0).integers(0, 256, (40, 70, 3), np.uint8)
    processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
    text = processor.apply_chat_template(MESSAGES, add_generation_prompt=True)
    theirs = processor(text=[text], images=[picture])
    assert np.asarray(theirs["input_ids"]).tolist() == [ours]
    assert ours.count(vision.image_token) == vision.tokens == processor.image_seq_length
    pixels = np.asarray(theirs["pixel_values"]).squeeze().transpose(1, 2, 0)
    fitted = images.fit(picture, vision.size) / 127.5 - 1
    assert_allclose(pixels, fitted, atol=2.1 / 255)  # Pillow's releases round otherwise


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_autoprocessor_reads_the_shipped_food_models(folder):
    holds(folder)


def test_autoprocessor_reads_what_is_saved_here_again_and_again(tmp_path):
    source = SHIPPED[0]
    for name in ("once", "twice"):
        model = weights.load(source, vision=True)
        weights.save(model, tmp_path / name, chat.load_tokenizer(source))
        source = tmp_path / name
        holds(source)
    for file in SHIPPED[0].iterdir():
        assert (source / file.name).read_bytes() == file.read_bytes(), file.name


def test_folders_from_before_are_read_by_us_and_mended_by_saving(tmp_path):
    """Without the names of the image's tokens, which AutoProcessor asks for."""
    old = tmp_path / "old"
    shutil.copytree(SHIPPED[0], old)
    (old / "processor_config.json").unlink()
    settings = json.loads((old / "tokenizer_config.json").read_text())
    del settings["extra_special_tokens"]
    (old / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(AttributeError, match="_token"):
        AutoProcessor.from_pretrained(old, local_files_only=True)
    tokenizer = chat.load_tokenizer(old)
    weights.save(weights.load(old, vision=True), tmp_path / "new", tokenizer)
    holds(tmp_path / "new")


def test_a_tokenizer_without_the_models_image_tokens_is_refused(tmp_path):
    tokenizer = chat.load_tokenizer(SHIPPED[0])
    with pytest.raises(ValueError, match="image_token is 558, which is no entry"):
        chat.save_tokenizer(tokenizer, tmp_path / "new", {"image_token": 558})
    assert not (tmp_path / "new").exists()
