"""A folder that wants its pictures prepared in another way is refused by name."""

import json

import gemma4_sights
import pytest
import tiny_vision

from helpers.model import weights
from helpers.model.vision_config import UnsupportedModel, check_preprocessor

THREE = tiny_vision.SEES
FOUR = gemma4_sights.config(budget=70).vision
# What the hub's folders have beside sizes: of Gemma 3 in a file of its own, of Gemma 4
# inside of processor_config.json.
HUB_3 = {
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_pan_and_scan": None,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "Gemma3ImageProcessor",
    "image_std": [0.5, 0.5, 0.5],
    "pan_and_scan_max_num_crops": None,
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
}
HUB_4 = {
    "do_normalize": False,
    "image_mean": [0.0, 0.0, 0.0],
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
}


def check(folder, tower, settings, inside=False):
    name = "processor_config.json" if inside else "preprocessor_config.json"
    settings = {"image_processor": settings} if inside else settings
    (folder / name).write_text(json.dumps(settings))
    check_preprocessor(folder, tower)


@pytest.mark.parametrize("inside", [True, False])
def test_what_the_hub_has_passes(inside, tmp_path):
    check_preprocessor(tmp_path, THREE)
    size = {"height": 24, "width": 24}
    check(tmp_path, THREE, HUB_3 | {"size": size, "image_seq_length": 9}, inside)
    check(tmp_path, THREE, HUB_3 | {"size": size, "do_pan_and_scan": False}, inside)
    sizes = {"patch_size": 2, "pooling_kernel_size": 2}
    lengths = {"max_soft_tokens": 70, "image_seq_length": 280}  # the second is not read
    check(tmp_path, FOUR, HUB_4 | sizes | lengths, inside)


CLIP = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}


DIFFERENT = [
    (THREE, HUB_3 | CLIP, "image_mean"),
    (THREE, HUB_3 | {"rescale_factor": 1 / 127.5}, "rescale_factor"),
    (THREE, HUB_3 | {"do_pan_and_scan": True}, "do_pan_and_scan"),
    (THREE, HUB_3 | {"size": {"height": 224, "width": 224}}, "size"),
    (FOUR, HUB_4 | {"max_soft_tokens": 280}, "max_soft_tokens"),
    (FOUR, HUB_4 | {"do_normalize": True}, "do_normalize"),
]


@pytest.mark.parametrize("tower, settings, name", DIFFERENT)
def test_what_differs_in_effect_is_refused(tower, settings, name, tmp_path):
    with pytest.raises(UnsupportedModel, match=f"_config.json: {name}="):
        check(tmp_path, tower, settings)


def test_a_folder_is_loaded_with_vision_only_if_its_pictures_are_ours(tmp_path):
    weights.save(tiny_vision.cached_model(), tmp_path)
    weights.load(tmp_path, vision=True)
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | CLIP))
    with pytest.raises(UnsupportedModel, match="image_mean=.*vision=False"):
        weights.load(tmp_path, vision=True)
    weights.load(tmp_path)
    path.write_text("{")
    with pytest.raises(weights.WeightsError, match="is not JSON"):
        weights.load(tmp_path, vision=True)
