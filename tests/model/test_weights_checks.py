"""What is said of a place that is no model folder."""

import pytest

from helpers.model import weights
from helpers.model.folder import WeightsError

PLACES = {  # the files that are there; what is passed
    r"GGUF file: gguf.to_folder\(": (["ok.gguf"], "ok.gguf"),
    r"a GGUF file: gguf.to_folder\(": (["ok.gguf", "README.md"], ""),
    r"holds adapters: .* lora.load\(": (["adapter_config.json"], ""),
    "the folder that holds config.json and": (["model.safetensors"], ""),
    "the folder that holds config": (["config.json"], "config.json"),
}


@pytest.mark.parametrize("said", PLACES)
def test_what_is_no_model_folder_says_what_to_do_with_it(said, tmp_path):
    names, passed = PLACES[said]
    for name in names:
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(WeightsError, match=f"has no config.json: .* folder. .*{said}"):
        weights.load(str(tmp_path / passed))
