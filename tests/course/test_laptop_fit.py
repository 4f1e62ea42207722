"""What a model asks of a laptop: the compiler's own count, for every model offered."""

import dataclasses

import tiny_models

from helpers.course import which_model
from helpers.model.known import KNOWN
from helpers.recipes import presets
from scripts import laptop_fit, tables

SIZE = dataclasses.replace(presets.CUSTOM["laptop"], prompts=4, group=2, lora_rank=2)
SIZE = dataclasses.replace(SIZE, prompt_tokens=6, completion_tokens=4)


def test_arguments_are_the_weights_and_what_trains_them():
    config = tiny_models.config("qwen3", width=64, ff=256)
    weights = which_model.count(config) * 4 / 1e9
    arguments, temporaries = laptop_fit.fit(config, SIZE)
    wide, _ = laptop_fit.fit(config, dataclasses.replace(SIZE, lora_rank=8))
    assert weights < arguments < wide < 3 * weights and temporaries > 0
    _, more = laptop_fit.fit(config, dataclasses.replace(SIZE, prompts=64))
    assert more > 2 * temporaries


def test_the_table_has_every_model_that_is_offered():
    rows = tables.read(laptop_fit.TABLE)
    assert [row["model"] for row in rows] == which_model.offered()
    size = presets.CUSTOM["laptop"]
    for row in rows:
        weights = 4 * which_model.count(KNOWN[row["model"]]) / 1e9
        assert weights < float(row["arguments_gb"]) < 1.2 * weights + 0.1
        assert (int(row["prompts"]), int(row["group"])) == (size.prompts, size.group)
