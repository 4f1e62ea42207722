"""Folders of models that see, read by transformers' own AutoProcessor.

It needs no torch: what it makes of a question and a picture is what we make of them.
"""

import copy

import gemma4_sights
import numpy as np
import pytest
from numpy.testing import assert_allclose
from transformers import AutoProcessor, AutoTokenizer

from helpers.batches import images
from helpers.model import weights
from helpers.model.config import ModelConfig
from helpers.runtime.platform import ROOT
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


def assert_read_alike(folder):
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
    fitted = images.fit_for(picture, vision) / 127.5 - 1
    assert_allclose(pixels, fitted, atol=2.1 / 255)  # Pillow's releases round otherwise


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_autoprocessor_reads_the_shipped_food_models(folder):
    assert_read_alike(folder)


def test_autoprocessor_reads_what_is_saved_here_again_and_again(tmp_path):
    source = SHIPPED[0]
    for name in ("once", "twice"):
        model = weights.load(source, vision=True)
        weights.save(model, tmp_path / name, chat.load_tokenizer(source))
        source = tmp_path / name
        assert_read_alike(source)
    for file in SHIPPED[0].iterdir():
        assert (source / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_processor_of_gemma_4_reads_what_is_saved_here(
    families, tmp_path, monkeypatch
):
    """Built by hand: AutoProcessor adds one of videos, which needs torchvision."""
    module = pytest.importorskip("transformers.models.gemma4.processing_gemma4")
    pixels = pytest.importorskip(
        "transformers.models.gemma4.image_processing_pil_gemma4"
    )
    tokenizer = copy.deepcopy(families["gemma4"])
    tokenizer.pad_token = "<pad>"
    config = gemma4_sights.for_tokenizer(tokenizer)
    weights.save(gemma4_sights.of_config(config), tmp_path, tokenizer)
    tokenizer, vision = chat.load_tokenizer(tmp_path), vision_of(tmp_path)
    any_parts = "check_argument_for_proper_class"
    monkeypatch.setattr(module.Gemma4Processor, any_parts, lambda *_: None)
    processor = module.Gemma4Processor(
        feature_extractor=None,
        image_processor=pixels.Gemma4ImageProcessorPil.from_pretrained(tmp_path),
        tokenizer=AutoTokenizer.from_pretrained(tmp_path, local_files_only=True),
        video_processor=None,
        chat_template=tokenizer.chat_template,
    )
    picture = np.random.default_rng(0).integers(0, 256, (40, 70, 3), np.uint8)
    text = processor.apply_chat_template(MESSAGES, add_generation_prompt=True)
    theirs = processor(text=[text], images=[picture])
    shaped = images.shaped(MESSAGES, [picture])
    ours = chat.prompt_tokens(tokenizer, shaped, vision=vision)
    assert np.asarray(theirs["input_ids"]).tolist() == [ours]
    assert 1 < ours.count(vision.image_token) <= vision.budget
    with pytest.raises(ValueError, match="does not have an `audio_token`"):
        processor(text=[text], images=[picture], audio=[np.zeros(1600, np.float32)])
