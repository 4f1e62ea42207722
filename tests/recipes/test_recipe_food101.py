"""The food notebooks' last section, as a TPU runs it, with a small model and photos."""

import dataclasses
import io
import json
import types

import course_notebooks
import family_tokenizers
import gemma4_sights
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import small_sizes
from PIL import Image

from helpers import runtime
from helpers.evaluation.intervals import Comparison
from helpers.model import weights
from helpers.model.config import KNOWN
from helpers.recipes import food101, presets
from helpers.rewards import food_rewards
from helpers.tasks.food import food_pictures
from helpers.tasks.food.food101 import LABELS
from helpers.text import chat
from scripts import food_corpus, tiny_food, tpu_cases


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """A Gemma 3 that sees, with random weights and a tokenizer of its own."""
    tokenizer = food_corpus.make_tokenizer(food_corpus.pictures(200, seed=0))
    folder = tmp_path_factory.mktemp("gemma")
    weights.save(tiny_food.new_model(tokenizer), folder, tokenizer)
    return folder


@pytest.fixture(scope="module")
def gemma4_folder(tmp_path_factory):
    """A Gemma 4 that sees, with random weights and all of its family's tokens."""
    folder = family_tokenizers.save(tmp_path_factory.mktemp("gemma4"), "gemma4")
    tokenizer = chat.load_tokenizer(folder)
    config = gemma4_sights.for_tokenizer(tokenizer)
    weights.save(gemma4_sights.of_config(config), folder, tokenizer)
    return folder


@pytest.fixture
def photo_files(tmp_path, monkeypatch):
    """Food-101's validation file with 24 drawn photos of two classes, shuffled."""
    records = []
    for i in range(48):
        (food,) = foods = [("pizza", "sushi")[i % 2]]
        drawn = food_pictures.picture(5, i, foods=foods, no_food=0, size=64)
        file = io.BytesIO()
        Image.fromarray(drawn["image"]).save(file, "JPEG")
        image = {"bytes": file.getvalue(), "path": f"{i}.jpg"}
        records.append({"image": image, "label": LABELS.index(food)})
    table = pyarrow.Table.from_pylist(records)
    pyarrow.parquet.write_table(table, tmp_path / "validation.parquet")
    monkeypatch.setenv("COURSE_FOOD101", str(tmp_path))
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def small(folder, name="v5e-8"):
    """The sizes of a food lesson, made small; the tokenizer cuts in small pieces."""
    budgets = dict(prompt_tokens=256, completion_tokens=192)
    food = presets.FOOD[name]
    return small_sizes.small(food, model=str(folder), dtype="float32", **budgets)


@pytest.fixture
def there(model_folder, photo_files):
    return food101.recipe(small(model_folder))


@pytest.mark.parametrize("name", ["v5e-1", "v5e-8"])
@pytest.mark.parametrize("model", ["", "-gemma3-4b"])
def test_the_sizes_are_those_of_the_programs_that_were_compiled(name, model):
    sizes = presets.FOOD[name + model]
    compiled = [*tpu_cases.seeing(), *tpu_cases.students()]
    (case,) = (
        case
        for case in compiled
        if (case.model, case.topology, case.pictures) == (sizes.model, name, 1)
        and case.program == "grpo"
        and case.group > 1
    )
    for size in "prompts group prompt_tokens completion_tokens pieces stored".split():
        assert getattr(sizes, size) == getattr(case, size)
    assert sizes.lora_rank == case.rank and not case.table_on_host
    policy = types.SimpleNamespace(config=KNOWN[sizes.model])
    world = food101.Recipe(sizes, policy, None, [], [])
    assert world.tools.width(world.turn) == case.completion_tokens


def test_one_photo_in_six_of_each_class_is_for_the_test(there):
    for rows, count in ((there.train, 20), (there.test, 4)):
        foods = [row["foods"] for row in rows]
        assert foods.count(["pizza"]) == foods.count(["sushi"]) == count
    assert not {r["id"] for r in there.train} & {r["id"] for r in there.test}


def test_the_first_test_photos_are_of_many_classes(monkeypatch):
    """Rows come sorted by class, and a look takes the first 64."""
    rows = [
        {"photo": b"", "foods": [food], "level": 1, "where": "", "id": f"{food}{i}"}
        for food in LABELS
        for i in range(food101.EACH)
    ]
    monkeypatch.setattr(food101.food101, "load", lambda *_, **__: rows)
    seen = {"image": np.zeros((8, 8, 3), np.uint8)}
    monkeypatch.setattr(food101.food101, "with_image", lambda row, _: row | seen)
    _, test = food101.photos("?")
    assert len({row["foods"][0] for row in test[:64]}) > 40
    assert [row["id"] for row in test] == [row["id"] for row in food101.photos("?")[1]]


def test_demonstrations_are_right_conversations_with_their_own_photo(there):
    batch = next(there.demonstrations(seed=0))
    vision = there.policy.config.vision
    assert batch["images"].shape == (4, 1, vision.size, vision.size, 3)
    photos = {there.pictures(row)[0].tobytes(): row for row in there.train}
    for tokens, mask, image in zip(
        batch["tokens"], batch["loss_mask"], batch["images"], strict=True
    ):
        row = photos[image[0].tobytes()]
        (portion,) = row["portions"]
        answer = chat.decode(there.tokenizer, tokens[mask > 0])
        food = portion["food"].replace("_", " ")
        call = f'lookup_nutrition(food="{food}", grams={portion["grams"]})'
        assert answer.startswith(f"```tool_code\n{call}\n```")
        assert answer.endswith(f"#### {row['expected']:.0f}")
        context = chat.decode(there.tokenizer, tokens[(mask == 0) & (tokens > 0)])
        assert f'{{"kcal": {row["expected"]:.0f}}}' in context
        assert food101.form_of(there.policy.config).ask in context


def test_gemma_4_demonstrates_with_its_own_tokens(gemma4_folder, photo_files):
    """Photos as strips, the tool told by the template, one turn with the call in it."""
    sizes = dataclasses.replace(small(gemma4_folder), prompt_tokens=1280)
    there = food101.recipe(sizes)
    vision, tokenizer = there.policy.config.vision, there.tokenizer
    batch = next(there.demonstrations(seed=0))
    assert batch["images"].shape == (4, 1, *vision.shape)
    photos = {there.pictures(row)[0].tobytes(): row for row in there.train}
    for tokens, mask, image in zip(
        batch["tokens"], batch["loss_mask"], batch["images"], strict=True
    ):
        (portion,) = photos[image[0].tobytes()]["portions"]
        kcal = f"{photos[image[0].tobytes()]['expected']:.0f}"
        food = portion["food"].replace("_", " ")
        assert tokenizer.decode(tokens[mask > 0]) == (
            f'<|tool_call>call:lookup_nutrition{{food:<|"|>{food}<|"|>,grams:'
            f"{portion['grams']}}}<tool_call|><|tool_response>#### {kcal}<turn|>"
        )
        context = tokenizer.decode(tokens[mask == 0])
        assert f'value:<|"|>{{"kcal": {kcal}}}<|"|>}}<tool_response|>' in context
        assert context.count("<|tool>declaration:lookup_nutrition") == 1
        assert context.count("<|image|>") == vision.count(image[0]) == 64


def test_rollouts_look_at_photos_and_are_scored(there):
    batch = next(there.rollouts({food_rewards.final_format: 1.0}, seed=0))
    assert batch["images"].shape[:2] == (4, 1) and batch["rewards"].shape == (4, 2)
    assert batch["completion"].shape[2] <= there.preset.completion_tokens


def test_on_one_chip_gemma_3s_decoder_is_int8_and_the_tower_as_it_was(model_folder):
    eight = food101.load(small(model_folder))
    one = food101.load(small(model_folder, "v5e-1-gemma3-4b"))
    assert one.layers.q.dtype == jnp.int8 and eight.layers.q.dtype == jnp.float32
    devices = {leaf.sharding.mesh.size for leaf in jax.tree.leaves(eight.layers.q[...])}
    assert devices == {jax.device_count()}
    large = eight.layers.weight("q")
    bound = np.abs(large).max(axis=1, keepdims=True) / 250
    assert (np.abs(one.layers.weight("q") - large) <= bound).all()
    assert np.array_equal(one.vision.patch[...], eight.vision.patch[...])


@pytest.mark.slow
@pytest.mark.parametrize("number", ["09", "10"])
def test_the_section_for_tpus_trains_and_saves_adapters(
    number, model_folder, photo_files, monkeypatch
):
    """Run as written, on one device, with small sizes."""
    notebook = course_notebooks.read(number)
    (imports,) = course_notebooks.tagged(notebook, "imports")
    (section,) = course_notebooks.tagged(notebook, "real")
    preset = small(model_folder)
    monkeypatch.setitem(presets.FOOD, preset.name, preset)
    names = {"preset": preset, "seed": 0, "__name__": "section"}
    exec(imports.source, names)
    exec(section.source, names)
    assert isinstance(names["on_real_weights"](preset), Comparison)
    (folder,) = (runtime.build_folder() / "runs").glob("*_v5e-8/model")
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert settings["r"] == 4 and settings["base_model_name_or_path"] == preset.model
