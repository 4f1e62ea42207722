"""Where things run and go: presets, banner, mesh, tokens, finished models."""

import os
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from helpers import runtime
from helpers.course import set_up, stages
from helpers.course.syllabus import LESSONS, STAGES
from helpers.recipes import presets
from helpers.runtime import secrets
from helpers.tasks.maths import word_problems
from helpers.text import chat


@pytest.fixture(autouse=True)
def laptop(monkeypatch, tmp_path):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "COURSE_PRESET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_BUILD", str(tmp_path / "build"))


def chips(count, platform="tpu"):
    return [types.SimpleNamespace(platform=platform) for _ in range(count)]


@pytest.mark.parametrize(
    "devices, name",
    [
        (chips(1, "cpu"), "laptop"),
        (chips(8, "cpu"), "laptop"),
        (chips(1, "gpu"), "laptop"),
        (chips(1), "v5e-1"),
        (chips(4), "v5e-1"),
        (chips(8), "v5e-8"),
    ],
)
def test_the_preset_fits_the_devices(monkeypatch, devices, name):
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert presets.preset().name == name


def test_the_preset_can_be_overridden(monkeypatch):
    monkeypatch.setenv("COURSE_PRESET", "v5e-8")
    assert presets.preset().name == "v5e-8"
    assert presets.preset("laptop").name == "laptop"
    with pytest.raises(ValueError, match="laptop, v5e-1, v5e-8"):
        presets.preset("v5e-16")


def test_the_default_models_need_no_token():
    for row in presets.PRESETS.values():
        assert row.model == "data/tiny" or row.model.startswith("Qwen/")


def test_every_stage_a_notebook_trains_has_a_name():
    trained = [stage for lesson in LESSONS.values() for stage in lesson.stages]
    assert sorted(trained) == sorted(STAGES), "each stage has a name and one notebook"


@pytest.mark.parametrize(
    "variable, place",
    [("COLAB_RELEASE_TAG", "colab"), ("KAGGLE_KERNEL_RUN_TYPE", "kaggle")],
)
def test_banner_says_to_switch_the_runtime(monkeypatch, capsys, variable, place):
    assert runtime.where() == "laptop"
    set_up.banner("07")
    assert "No TPU" not in capsys.readouterr().out
    monkeypatch.setenv(variable, "1")
    assert runtime.where() == place
    assert set_up.banner("07").name == "laptop"
    assert "No TPU here" in capsys.readouterr().out


def test_banner_gives_the_minutes_of_the_preset(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PRESET", "v5e-1")
    assert set_up.banner("07") == presets.PRESETS["v5e-1"]
    out = capsys.readouterr().out
    assert f"about {LESSONS['07'].minutes['v5e-1']} min (planned, not measured)" in out
    set_up.banner("06")
    assert "time not measured here" in capsys.readouterr().out
    monkeypatch.setenv("COURSE_PRESET", "laptop")
    set_up.banner("07")
    out = capsys.readouterr().out
    assert f"about {LESSONS['07'].minutes['laptop']} min" in out
    assert str(runtime.build_folder()) not in out, "no local folders in saved outputs"


def test_banner_gives_the_memory_that_a_device_reports(monkeypatch, capsys):
    class Chip:
        platform, device_kind = "tpu", "TPU v5 lite"

        def memory_stats(self):
            return {"bytes_limit": int(15.75 * 2**30)}

    monkeypatch.setattr(runtime.jax, "devices", lambda: [Chip()])
    assert set_up.banner("07").name == "v5e-1"
    assert "1 × TPU v5 lite of 15.75 GiB" in capsys.readouterr().out


def test_mesh_on_this_machine():
    mesh = runtime.make_mesh()
    assert mesh.axis_names == ("data", "model")
    assert mesh.devices.shape == (len(jax.devices()), 1)
    assert set(mesh.axis_types) == {jax.sharding.AxisType.Auto}
    with pytest.raises(ValueError, match="model=3"):
        runtime.make_mesh(model=3)
    with pytest.raises(ValueError, match="model=0"):
        runtime.make_mesh(model=0)


EIGHT = """
import jax
from helpers import chat, runtime
from helpers.tasks import word_problems
assert runtime.make_mesh().devices.shape == (8, 1)
mesh = runtime.make_mesh(model=2)
assert mesh.devices.shape == (4, 2)
assert len(set(mesh.devices.flat)) == 8
assert runtime.make_mesh(jax.devices()[:4], model=4).devices.shape == (1, 4)
"""


def test_mesh_on_eight_simulated_devices():
    flags = "--xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags}
    subprocess.run([sys.executable, "-c", EIGHT], check=True, env=environment)


def test_token_from_the_environment(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    assert runtime.token() == "hf_1"


@pytest.mark.parametrize(
    "variable, advice",
    [
        (None, "huggingface.co/settings/tokens"),
        ("COLAB_RELEASE_TAG", "Click the key"),
        ("KAGGLE_KERNEL_RUN_TYPE", "Add-ons"),
    ],
)
def test_a_missing_token_is_explained(monkeypatch, variable, advice):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    fake_secrets(monkeypatch, {})
    if variable:
        monkeypatch.setenv(variable, "1")
    with pytest.raises(secrets.TokenMissing, match=advice) as caught:
        runtime.token("HF_TOKEN")
    assert "HF_TOKEN" in str(caught.value)


@pytest.mark.parametrize("variable", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
def test_the_platforms_secret_comes_first(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("HF_TOKEN", "from the environment")
    fake_secrets(monkeypatch, {"HF_TOKEN": "secret"})
    assert runtime.token() == "secret"
    fake_secrets(monkeypatch, {})
    assert runtime.token() == "from the environment"


def fake_secrets(monkeypatch, secrets):
    """Stand-ins for google.colab.userdata and kaggle_secrets."""

    class SecretNotFoundError(Exception):
        pass

    def get(name):
        if name not in secrets:
            raise SecretNotFoundError(name)
        return secrets[name]

    userdata = types.SimpleNamespace(
        get=get,
        SecretNotFoundError=SecretNotFoundError,
        NotebookAccessError=PermissionError,
    )
    colab = types.ModuleType("google.colab")
    colab.userdata = userdata
    google = types.ModuleType("google")
    google.colab = colab
    kaggle = types.ModuleType("kaggle_secrets")
    kaggle.UserSecretsClient = lambda: types.SimpleNamespace(get_secret=get)
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.setitem(sys.modules, "kaggle_secrets", kaggle)
    monkeypatch.setattr(runtime, "where", _where_by_variable)


def _where_by_variable():
    if "COLAB_RELEASE_TAG" in os.environ:
        return "colab"
    return "kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in os.environ else "laptop"


def write_model(folder):
    folder.mkdir(parents=True)
    arrays = {"a": np.zeros((3, 4), np.float32), "b": np.ones(5, np.float32)}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors", {"format": "np"})
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")


def test_the_learners_own_model_comes_before_the_shipped_one(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="Run notebook 04"):
        stages.stage_folder("sft")
    shipped = tmp_path / "data" / "tiny" / "sft"
    write_model(shipped)
    assert stages.stage_folder("sft") == shipped
    write_model(runtime.model_folder("sft"))
    assert stages.stage_folder("sft") == runtime.model_folder("sft")


@given(share=st.floats(0, 0.999))
def test_a_model_cut_short_is_not_taken(tmp_path_factory, share):
    folder = tmp_path_factory.mktemp("cut") / "model"
    write_model(folder)
    assert stages._is_whole(folder)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(share * len(content))])
    assert not stages._is_whole(folder)


@pytest.mark.parametrize(
    "header", [b"garbage}", b"\xff" * 8, b"[]", b"7", b'{"a": 1}', b'{"a": {}}', b""]
)
def test_damaged_weights_give_way_to_the_shipped_model(monkeypatch, tmp_path, header):
    monkeypatch.setattr(runtime, "ROOT", tmp_path)
    shipped, own = tmp_path / "data" / "tiny" / "sft", runtime.model_folder("sft")
    write_model(shipped)
    write_model(own)
    size = len(header).to_bytes(8, "little")
    (own / "model.safetensors").write_bytes(size + header + bytes(68))
    assert stages.stage_folder("sft") == shipped


def test_a_name_that_is_no_stage_is_told_which_there_are():
    with pytest.raises(FileNotFoundError, match="no stage 'stf'.*base, sft, r1_zero"):
        stages.stage_folder("stf")


def test_every_shipped_model_is_taken():
    shipped = sorted((runtime.ROOT / "data" / "tiny").glob("*/config.json"))
    assert shipped
    for path in shipped:
        assert stages.stage_folder(path.parent.name) == path.parent


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_model_with_a_file_missing_is_not_taken(tmp_path, name):
    write_model(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    assert not stages._is_whole(tmp_path / "model")


def test_folders_follow_course_build(monkeypatch, tmp_path):
    assert runtime.run_folder("grpo") == tmp_path / "build" / "runs" / "grpo"
    monkeypatch.delenv("COURSE_BUILD")
    assert runtime.build_folder() == runtime.ROOT / "build"


def test_the_seed_is_a_small_whole_number(monkeypatch):
    monkeypatch.delenv("COURSE_SEED", raising=False)
    assert runtime.seed() == 0
    for said, value in {"": 0, "7": 7, "999999": 999_999}.items():
        monkeypatch.setenv("COURSE_SEED", said)
        assert runtime.seed() == value
    for said in ("-1", "1.5", "one", "1000000", "²", "1e3"):
        monkeypatch.setenv("COURSE_SEED", said)
        with pytest.raises(ValueError, match=f"COURSE_SEED is '{said}'.*unset"):
            runtime.seed()


def test_the_laptops_budgets_hold_every_question_and_solution():
    chosen = presets.preset("laptop")
    tokenizer = chat.load_tokenizer(runtime.ROOT / "data" / "tiny" / "base")
    rows = word_problems.generate(3000, seed=7, levels=(3,))
    questions = chat.prompts_tokens(tokenizer, [row["question"] for row in rows])
    examples = chat.examples_tokens(
        tokenizer,
        [row["question"] for row in rows],
        [row["answer"] for row in rows],
    )
    assert max(map(len, questions)) <= chosen.prompt_tokens
    assert max(sum(mask) for _, mask in examples) <= chosen.completion_tokens
