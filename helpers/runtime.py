"""Where am I running, with what, and where do files go.

Colab, Kaggle or a laptop; the preset that fits the devices found; the device mesh;
tokens for gated models; the folders of runs and of the shipped tiny checkpoints.
"""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence

import jax
from safetensors import SafetensorError, safe_open

from helpers.syllabus import LESSONS, STAGES

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Preset:
    """The size of everything, for one kind of machine.

    Attributes:
      name: laptop, v5e-1 (Colab) or v5e-8 (Kaggle).
      model: folder of the shipped checkpoints, or a Hugging Face repository.
      dtype: of the parameters, as a NumPy name.
      lora_rank: rank of the trained adapters; 0 trains all parameters.
      prompts: prompts per rollout step.
      group: answers per prompt.
      prompt_tokens: budget of a prompt, in tokens.
      completion_tokens: budget of an answer, in tokens.
      chunk: tokens of a chip whose logits exist at once.
      steps: of the lessons on real weights, and of GRPO on a laptop.
      minutes: what notebook 07 should take, compiling included.
    """

    name: str
    model: str
    dtype: str
    lora_rank: int
    prompts: int
    group: int
    prompt_tokens: int
    completion_tokens: int
    chunk: int
    steps: int
    minutes: int


# The laptop row is what the notebooks run and measure. The TPU rows are those of their
# sections on real weights: compiled for TPUs (`make tpu-check`), never run on one.
_QWEN = "Qwen/Qwen2.5-0.5B-Instruct"  # Apache-2.0, no token needed
PRESETS = {
    row.name: row
    for row in (
        Preset("laptop", "data/tiny", "float32", 0, 48, 8, 48, 64, 8192, 48, 3),
        Preset("v5e-1", _QWEN, "bfloat16", 32, 16, 8, 256, 256, 1024, 150, 45),
        Preset("v5e-8", _QWEN, "bfloat16", 64, 64, 8, 256, 512, 1024, 150, 45),
    )
}


def where() -> str:
    """The platform this runs on: "colab", "kaggle" or "laptop" (anything else)."""
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        return "colab"
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    return "laptop"


def preset(name: str | None = None) -> Preset:
    """The preset called `name`, else COURSE_PRESET, else the one the devices fit.

    Raises:
      ValueError: no preset has this name.
    """
    name = name or os.environ.get("COURSE_PRESET") or _preset_for(jax.devices())
    if name not in PRESETS:
        raise ValueError(
            f"There is no preset {name!r}. Set COURSE_PRESET to one of "
            f"{', '.join(PRESETS)}, or unset it to have one chosen for you."
        )
    return PRESETS[name]


def _preset_for(devices: Sequence[jax.Device]) -> str:
    if devices[0].platform != "tpu":
        return "laptop"
    return "v5e-1" if len(devices) < 8 else "v5e-8"


def banner(notebook: str) -> Preset:
    """Print where this notebook runs and how long it should take.

    Args:
      notebook: its number, such as "07".
    Returns:
      The preset in force.
    """
    import flax  # its version only; importing it costs most of a second

    chosen, lesson, place = preset(), LESSONS[notebook], where()
    devices, own = jax.devices(), jax.local_devices()[0]  # only own ones tell memory
    minutes = lesson.minutes.get(chosen.name)
    expected = f"about {minutes} min" if minutes else "time not measured here"
    if minutes and chosen.name != "laptop":
        expected += " (planned, not measured)"
    print(f"{notebook} {lesson.title} · preset {chosen.name}: {expected}")
    print(
        f"{place}: {len(devices)} × {devices[0].device_kind}{_memory(own)} · "
        f"jax {jax.__version__}, flax {flax.__version__}, "
        f"Python {sys.version_info.major}.{sys.version_info.minor}"
    )
    if place != "laptop" and devices[0].platform != "tpu":
        print(_SWITCH[place])
    return chosen


def _memory(device: jax.Device) -> str:
    """What a device says of its memory, such as " of 15.75 GiB"; CPUs say nothing."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return f" of {limit / 2**30:.2f} GiB" if limit else ""


_SWITCH = {
    "colab": "No TPU here. Runtime → Change runtime type → v5e-1 TPU, then run again; "
    "on this CPU the laptop preset is used.",
    "kaggle": "No TPU here. Settings → Accelerator → TPU v5e-8, then run again; "
    "on this CPU the laptop preset is used.",
}


def make_mesh(
    devices: Sequence[jax.Device] | None = None, model: int = 1
) -> jax.sharding.Mesh:
    """A mesh with axes ("data", "model") over all devices, or over those given.

    Args:
      devices: defaults to `jax.devices()`.
      model: devices per model replica; must divide their number.
    Raises:
      ValueError: `model` does not divide the number of devices.
    """
    devices = list(jax.devices() if devices is None else devices)
    if model < 1 or len(devices) % model:
        raise ValueError(
            f"{len(devices)} devices cannot be split into groups of model={model}. "
            "Choose a divisor of the number of devices."
        )
    auto = jax.sharding.AxisType.Auto  # explicit: its default differs between versions
    return jax.make_mesh(
        (len(devices) // model, model),
        ("data", "model"),
        axis_types=(auto, auto),
        devices=devices,
    )


class TokenMissing(LookupError):
    """No token of this name was found; the message says where to put one."""


def token(name: str = "HF_TOKEN") -> str:
    """A secret by name: Colab's secrets, then Kaggle's, then the environment.

    Raises:
      TokenMissing: it is nowhere; says what to do on this platform.
    """
    found = _platform_secret(name) or os.environ.get(name)
    if found:
        return found
    raise TokenMissing(
        f"No token {name} was found. {_WHERE_TO_PUT[where()].format(name=name)} "
        "The default models of this course need no token; only gated ones (Gemma, "
        "Llama) do, and their licence must be accepted once on their Hugging Face page."
    )


_WHERE_TO_PUT = {
    "colab": "Click the key in Colab's left bar, add a secret called {name}, and allow "
    "this notebook to read it.",
    "kaggle": "Open Add-ons → Secrets, add one called {name}, and attach it to this "
    "notebook.",
    "laptop": "Make one at huggingface.co/settings/tokens, then start Jupyter with "
    "{name}=hf_… in its environment.",
}


def _platform_secret(name: str) -> str | None:
    """The secret as the platform keeps it; None where it has none of this name."""
    if where() == "colab":
        from google.colab import userdata

        try:
            return userdata.get(name)
        except (userdata.SecretNotFoundError, userdata.NotebookAccessError):
            return None
    if where() == "kaggle":
        from kaggle_secrets import UserSecretsClient

        try:
            return UserSecretsClient().get_secret(name)
        except Exception:  # it raises its own error, or urllib's when there is no net
            return None
    return None


def build_folder() -> pathlib.Path:
    """Where everything made goes: COURSE_BUILD, else build/ beside helpers/."""
    return pathlib.Path(os.environ.get("COURSE_BUILD") or ROOT / "build").resolve()


def run_folder(name: str) -> pathlib.Path:
    """The folder of the training run `name`: its checkpoints, logs and final model."""
    return build_folder() / "runs" / name


def seed() -> int:
    """The seed of this run of the course: COURSE_SEED, else 0.

    Raises:
      ValueError: it is not a whole number from 0 to 999,999; the notebooks make the
        seeds of their parts from it.
    """
    said = os.environ.get("COURSE_SEED") or "0"
    if not (said.isascii() and said.isdigit() and len(said) <= 6):
        raise ValueError(
            f"COURSE_SEED is {said!r}. Set it to a whole number from 0 to 999999, or "
            "unset it for 0."
        )
    return int(said)


def model_folder(name: str) -> pathlib.Path:
    """Where the run `name` saves its finished model, for `weights.save`."""
    return run_folder(name) / "model"


def stage_folder(name: str) -> pathlib.Path:
    """A finished model of the stage `name`: the learner's own, else the shipped one.

    Raises:
      FileNotFoundError: there is neither; says which notebook makes it, or which
        stages there are.
    """
    for folder in (model_folder(name), ROOT / "data" / "tiny" / name):
        if _is_whole(folder):
            return folder
    stages = [*STAGES, "student_base", "food_base"]  # the last two are only shipped
    if name not in stages:
        raise FileNotFoundError(
            f"There is no stage {name!r}, and no model in {model_folder(name)}. The "
            f"stages are {', '.join(stages)}."
        )
    makers = [number for number, row in LESSONS.items() if name in row.stages]
    remedy = f"Run notebook {makers[0]} to its end" if makers else "Run `make tiny`"
    raise FileNotFoundError(
        f"There is no finished model of the stage {name!r}: neither in "
        f"{model_folder(name)} nor in data/tiny/{name}. {remedy}, or take a fresh "
        "clone of the course if data/tiny is missing."
    )


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether a Hugging Face folder is there, and its weights are not cut short."""
    weights = folder / "model.safetensors"
    needed = (weights, folder / "config.json", folder / "tokenizer.json")
    if not all(path.is_file() for path in needed):
        return False
    try:
        with safe_open(weights, framework="numpy"):  # reads and checks the header only
            return True
    except (SafetensorError, OSError):
        return False
