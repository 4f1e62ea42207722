"""In which dtype a recipe holds weights that are not trained."""

import os

from helpers import runtime
from helpers.runtime.devices import multiplies_bfloat16


def frozen_dtype(preset) -> str:
    """Of a preset's frozen weights: bfloat16 where the processor multiplies it.

    What the first run in the build folder took stays, for its runs go on only with
    weights that are the same: a free machine may be followed by an older one, which is
    slower with bfloat16 but gives the same result.
    """
    if not preset.lora_rank:
        return preset.dtype  # nothing is frozen
    note = runtime.build_folder() / f"frozen_{preset.name}.txt"
    taken = note.read_text().strip() if note.exists() else ""
    if taken in ("bfloat16", preset.dtype):
        return taken
    # None yet, or none that a run could have begun with: a write that was cut off.
    dtype = "bfloat16" if multiplies_bfloat16() else preset.dtype
    note.parent.mkdir(parents=True, exist_ok=True)
    aside = note.with_suffix(".partial")
    aside.write_text(dtype)
    os.replace(aside, note)
    return dtype
