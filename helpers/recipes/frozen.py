"""In which dtype a recipe holds weights that are not trained."""

from helpers import runtime
from helpers.runtime.processor import multiplies_bfloat16


def frozen_dtype(preset) -> str:
    """Of a preset's frozen weights: bfloat16 where the processor multiplies it.

    What the first run in the build folder took stays, for its runs go on only with
    weights that are the same: a free machine may be followed by an older one, which is
    slower with bfloat16 but gives the same result.
    """
    if not preset.lora_rank:
        return preset.dtype  # nothing is frozen
    note = runtime.build_folder() / f"frozen_{preset.name}.txt"
    if note.exists():
        return note.read_text().strip()
    dtype = "bfloat16" if multiplies_bfloat16() else preset.dtype
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(dtype)
    return dtype
