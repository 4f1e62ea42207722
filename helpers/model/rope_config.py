"""The rotary settings in a `config.json`, in the spellings of transformers 4 and 5."""

from helpers.model.rope import STRETCHES, Stretch
from helpers.model.vision_config import UnsupportedModel

# Settings that a file may leave out.
USUAL = {"proportional": {"factor": 1.0, "partial_rotary_factor": 1.0}}


def theta_of(hf: dict, layers: str, default: float) -> float:
    """The rotary base of one kind of layer, from wherever this release wrote it.

    transformers 4 has one field for each kind; 5 has `rope_parameters`, by kind where
    there are two kinds.
    """
    old = "rope_theta" if layers == "full_attention" else "rope_local_base_freq"
    rope = hf.get("rope_parameters") or {}
    return float(hf.get(old) or rope.get(layers, rope).get("rope_theta") or default)


def rope_of(hf: dict, layers: str) -> dict:
    """The rotary settings of one kind of layer, old spelling or new."""
    rope = hf.get("rope_parameters") or {}
    if isinstance(rope.get(layers), dict):
        return rope[layers]
    scaled = layers == "full_attention" and hf.get("rope_scaling") or {}
    return scaled if isinstance(scaled, dict) and scaled else rope


def kind_of(rope: dict) -> str:
    """What kind of rotary positions settings are of."""
    return rope.get("rope_type") or rope.get("type") or "default"


def stretch_of(hf: dict) -> Stretch | None:
    """How the angles of global layers are stretched; None if they are not.

    Raises:
      UnsupportedModel: a setting of it is missing, or no number above 0.
    """
    rope = rope_of(hf, "full_attention")
    kind = kind_of(rope)
    if kind == "default":
        return None
    rope = USUAL.get(kind, {}) | rope
    for name in STRETCHES[kind].values():
        value = rope.get(name)
        if not isinstance(value, int | float) or value <= 0:
            raise UnsupportedModel(f"rope_scaling {kind!r}: {name} is {value!r}.")
    return Stretch.from_hf(rope | {"rope_type": kind})
