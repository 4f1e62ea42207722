"""The notebooks' last section, as a TPU runs it, on a small folder and small files."""

import dataclasses
import json
import os
import re
import shutil

import course_notebooks
import jax
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from flax import nnx
from small_sizes import small
from tiny_models import needs_bfloat16

from helpers import runtime
from helpers.evaluation.intervals import Comparison
from helpers.model import lora
from helpers.model.folder import WeightsError
from helpers.recipes import maths, presets
from helpers.rewards import functions
from helpers.tasks.maths import word_problems
from helpers.text import chat

TINY = runtime.ROOT / "data" / "tiny"
BATCH = dict(packed=2, pieces=2, group=4, prompt_tokens=128)
SMALL = small(presets.PRESETS["v5e-1"], **BATCH, dtype="float32")


@pytest.fixture
def there(gsm8k_files):
    return maths.recipe(SMALL)


@pytest.fixture
def gsm8k_files(tmp_path, monkeypatch):
    """GSM8K's parquet files with generated problems; a question and a solution are
    far too long."""
    for split, count in (("train", 40), ("test", 12)):
        rows = word_problems.generate(count, seed=3, levels=(1, 2), split=split)
        rows = [{k: row[k] for k in ("question", "answer")} for row in rows]
        rows[0]["question"] = "Count. " * 200 + rows[0]["question"]
        rows[1]["answer"] = "Count on. " * 200 + rows[1]["answer"]
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, tmp_path / f"{split}.parquet")
    monkeypatch.setenv("COURSE_GSM8K", str(tmp_path))
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def test_questions_that_do_not_fit_are_left_out_and_counted(capsys, there):
    shown = capsys.readouterr().out
    assert len(there.train) == 39 and len(there.test) == 11
    assert "39 questions; 1 longer than 128 tokens" in shown
    assert all(row["question"].endswith("#### 42.") for row in there.train)
    assert there.policy.layers.q_a.shape[-1] == 4


def test_a_baseline_with_a_calculator_is_another(there, monkeypatch, capsys):
    monkeypatch.setattr(maths, "FIRST", 1)
    with_calculator = maths.WithCalculator(**vars(there))
    repeated = []
    for recipe in there, there, with_calculator, with_calculator:
        recipe.before("grpo", 1)
        repeated.append("measured before" in capsys.readouterr().out)
    assert repeated == [False, True, False, True]


def test_what_the_calculator_writes_is_not_learned(there):
    """The rest is, in the same rows; an annotation's result is what a call gives."""

    def learned(batch):
        rows = zip(batch["tokens"], batch["loss_mask"], strict=True)
        return "".join(
            chat.decode(there.tokenizer, row[mask == 1]) for row, mask in rows
        )

    plain = next(there.demonstrations(seed=0))
    ours = next(maths.WithCalculator(**vars(there)).demonstrations(seed=0))
    assert re.findall(r"=(-?\d+)>>", learned(plain))
    assert not re.findall(r"=-?\d+>>", learned(ours))
    assert ours["loss_mask"].sum() < plain["loss_mask"].sum()


def test_answers_to_distil_from_count_though_they_are_truncated(there):
    short = dataclasses.replace(SMALL, completion_tokens=2)
    there = dataclasses.replace(there, preset=short)
    assert next(there.rollouts(None, seed=0))["loss_mask"].all()
    assert not next(there.rollouts(any_length, seed=0))["loss_mask"].any()


def check_section(number, preset):
    """Runs a notebook's last section as written, on one device."""
    notebook = course_notebooks.read(number)
    (imports,) = course_notebooks.tagged(notebook, "imports")
    (section,) = course_notebooks.tagged(notebook, "real")
    reward = functions.RewardSet({functions.correct: 1.0, any_length: 0.01})
    names = {"preset": preset, "seed": 0, "reward": reward, "__name__": "section"}
    exec(imports.source, names)
    exec(section.source, names)
    assert isinstance(names["on_real_weights"](preset), Comparison)
    (folder,) = (runtime.build_folder() / "runs").glob("*_v5e-1/model")
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert settings["r"] == 4 and settings["base_model_name_or_path"] == preset.model


def adapters(policy):
    return [np.asarray(x) for x in jax.tree.leaves(nnx.state(policy, lora.Adapter))]


def test_a_stage_goes_on_where_the_one_before_it_ended(there, capsys):
    assert there.start("sft") is there
    assert "sft was not trained here" in capsys.readouterr().out
    noise = jax.random.key(3)
    state = nnx.state(there.policy, lora.Adapter)
    state = jax.tree.map(lambda x: jax.random.normal(noise, x.shape), state)
    nnx.update(there.policy, state)
    there.save_adapters("sft")
    later = there.start("sft")
    assert "from sft" in capsys.readouterr().out
    for was, now in zip(adapters(there.policy), adapters(later.policy), strict=True):
        np.testing.assert_array_equal(was, now)
    assert later.policy.layers.adapter_scale == there.policy.layers.adapter_scale


def test_weights_are_compared_and_not_what_they_are_called(
    gsm8k_files, tmp_path, monkeypatch
):
    folder = shutil.copytree(TINY / "sft", tmp_path / "mine")
    sizes = dataclasses.replace(SMALL, model=str(folder))
    maths.recipe(sizes).save_adapters("sft")
    monkeypatch.chdir(tmp_path)
    os.rename("mine", "moved")
    there = maths.recipe(dataclasses.replace(sizes, model="moved"))
    assert there.start("sft") is not there
    shutil.copy(TINY / "grpo" / "model.safetensors", "moved")
    with pytest.raises(WeightsError, match="whose weights are not those of moved"):
        maths.recipe(dataclasses.replace(sizes, model="moved")).start("sft")


@pytest.mark.slow
@pytest.mark.parametrize("number", ["04b", "07", "08", "11"])
def test_the_section_for_tpus_trains_and_saves_adapters(
    number, gsm8k_files, monkeypatch
):
    monkeypatch.setitem(maths.TEACHERS, SMALL.model, str(TINY / "grpo"))
    check_section(number, SMALL)


def any_length(prompts, completions, **columns):
    """Something that varies, so that there is an advantage to learn from."""
    return [float(len(completion)) for completion in completions]


def test_the_frozen_base_is_stored_in_what_the_processor_multiplies(
    gsm8k_files, monkeypatch
):
    monkeypatch.setattr(maths, "multiplies_bfloat16", lambda: True)
    policy = maths.recipe(SMALL).policy
    assert policy.layers.q.dtype == policy.embed.dtype == "bfloat16"
    assert policy.layers.q_a.dtype == policy.activations == "float32"
    whole = dataclasses.replace(SMALL, lora_rank=0)
    assert maths.load(whole, whole.model).layers.q.dtype == "float32"


@pytest.mark.parametrize("note", ["", "bfl"])
def test_a_note_of_a_dtype_that_is_incomplete_is_written_anew(
    note, monkeypatch, tmp_path
):
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path))
    monkeypatch.setattr(maths, "multiplies_bfloat16", lambda: True)
    written = tmp_path / f"frozen_{SMALL.name}.txt"
    written.write_text(note)
    assert maths.frozen_dtype(SMALL) == written.read_text() == "bfloat16"
    monkeypatch.setattr(maths, "multiplies_bfloat16", lambda: False)
    assert maths.frozen_dtype(SMALL) == "bfloat16"


def test_a_run_goes_on_on_a_processor_of_another_kind(gsm8k_files, monkeypatch, capsys):
    """A free machine is followed by another."""
    needs_bfloat16()
    monkeypatch.setattr(maths, "multiplies_bfloat16", lambda: True)
    check_section("04b", SMALL)
    monkeypatch.setattr(maths, "multiplies_bfloat16", lambda: False)
    capsys.readouterr()
    check_section("04b", SMALL)
    assert "compiling the update" not in capsys.readouterr().out  # it was done
