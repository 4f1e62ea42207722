"""What a model needs of a laptop: its weights, what trains them, and temporaries."""

import dataclasses

import tiny_models

from helpers.course import results
from helpers.recipes import presets
from scripts import laptop_fit

SIZE = dataclasses.replace(presets.CUSTOM["laptop"], prompts=4, group=2, lora_rank=2)
SIZE = dataclasses.replace(SIZE, prompt_tokens=6, completion_tokens=4, pieces=1)


def test_arguments_are_the_weights_and_what_trains_them(monkeypatch):
    monkeypatch.setattr(laptop_fit, "MINIBATCHES", 1)  # a smaller program to compile
    config = tiny_models.config("qwen3", width=64, ff=256, layers=1)
    parameters, arguments, temporaries = laptop_fit.fit(config, SIZE)
    weights = 4 * parameters / 1e9
    assert weights < arguments < 3 * weights and temporaries > 0
    for row in results.measured("laptop_fit"):
        weights = 4 * row["parameters"] / 1e9
        assert weights < row["arguments_gb"] < 1.2 * weights + 0.1
