"""What every notebook prints first: where it runs, and how long it should take."""

import sys

import jax

from helpers.course.syllabus import LESSONS
from helpers.recipes.presets import Preset, preset
from helpers.runtime.devices import keep_programs, multiply_as_written
from helpers.runtime.platform import ROOT, where


def banner(notebook: str) -> Preset:
    """Print where this notebook runs and how long it should take.

    Programs that it compiles are kept from here on, in build/jax-cache. Its small model
    is multiplied in float32 on TPUs, too; recipes that load real weights end that.

    Args:
      notebook: its number, such as "07".
    Returns:
      The preset in force.
    """
    import flax  # its version only; importing it costs most of a second

    keep_programs(ROOT / "build" / "jax-cache")
    multiply_as_written(notebook != "15")  # whose model is a real one from the start
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


_INSTEAD = (
    ", then run again. Here the last section of 04, 07, 08 and 11 trains a model of "
    "135M parameters, for up to an hour; COURSE_PRESET=laptop leaves it out. 09 and 10 "
    "show what the compiler says of theirs, and 15 trains those 135M all along."
)
_SWITCH = {
    "colab": f"No TPU here. Runtime → Change runtime type → v5e-1 TPU{_INSTEAD}",
    "kaggle": f"No TPU here. Settings → Accelerator → TPU v5e-8{_INSTEAD}",
}
