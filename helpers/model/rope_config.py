"""The rotary settings in a `config.json`, in the spellings of transformers 4 and 5.

A base may stand in a field of its own, in `rope_scaling` or in `rope_parameters`, and
releases of transformers disagree about which of them counts. So every spelling that is
there is read, and two that differ are refused.
"""

import math

from helpers.model.rope import STRETCHES, Stretch
from helpers.model.vision_config import UnsupportedModel

# Settings that a file may leave out.
USUAL = {"proportional": {"factor": 1.0, "partial_rotary_factor": 1.0}}
LAYERS = ("full_attention", "sliding_attention")
# Families whose `rope_parameters` are by kind of layer; in the others they are flat.
BY_LAYERS = ("gemma3_text", "gemma4_text")
FIELDS = ("rope_scaling", "rope_parameters")


def check_places(hf: dict):
    """Refuses settings where transformers would not look for them, or crash.

    Raises:
      UnsupportedModel: naming the field.
    """
    for field in FIELDS:
        if not isinstance(hf.get(field) or {}, dict):
            raise UnsupportedModel(f"{field}={hf[field]!r} is not an object.")
    family, said = hf.get("model_type"), hf.get("rope_parameters") or {}
    inside = [name for name in LAYERS if name in said]
    if said and bool(inside) != (family in BY_LAYERS):
        how = "by kind of layer" if family in BY_LAYERS else "one for all layers"
        raise UnsupportedModel(f"rope_parameters={said}: {family} has them {how}.")
    for name in inside:
        if not isinstance(said[name] or {}, dict):
            raise UnsupportedModel(f"rope_parameters: {name} is {said[name]!r}.")
    if family == "gemma4_text":
        if hf.get("rope_scaling"):
            raise UnsupportedModel(
                "rope_scaling: Gemma 4 has rope_parameters in its place. Delete it, or "
                "write there what it says."
            )
        for name in LAYERS:
            if (said.get(name) or {}).get("rope_theta") is None:
                raise UnsupportedModel(f"rope_parameters: {name} has no rope_theta.")
    scaling = hf.get("rope_scaling") or {}
    if family in BY_LAYERS and kind_of(scaling) != scaling.get("rope_type", "default"):
        raise UnsupportedModel(
            f"rope_scaling has type={kind_of(scaling)!r}, which transformers 5 does not"
            " read in a Gemma 3, and 4 does: call it rope_type."
        )


def spellings(hf: dict, layers: str) -> dict[str, dict]:
    """{field: the rotary settings of one kind of layer there}, of fields with any."""
    found = {}
    if hf.get("rope_scaling") and layers == "full_attention":
        found["rope_scaling"] = hf["rope_scaling"]
    rope = hf.get("rope_parameters") or {}
    if hf.get("model_type") in BY_LAYERS:
        rope = rope.get(layers) or {}
    if rope:
        found["rope_parameters"] = rope
    return found


def theta_of(hf: dict, layers: str, default: float) -> float:
    """The rotary base of one kind of layer, from wherever this release wrote it.

    transformers 4 has one field for each kind; 5 has `rope_parameters`, by kind where
    there are two kinds.

    Args:
      default: what transformers assumes where no field says one.
    Raises:
      UnsupportedModel: it is no number above 0, or two fields have two.
    """
    alone = "rope_theta" if layers == "full_attention" else "rope_local_base_freq"
    outer = hf.get(alone)
    if hf.get("model_type") == "gemma4_text":
        outer = None  # transformers does not read it there
    said = {} if outer is None else {alone: outer}
    for field, rope in spellings(hf, layers).items():
        inner = rope.get("rope_theta")
        # A field without one has what stands outside of it, not what others have.
        said[f"{field}'s rope_theta"] = (
            inner if inner is not None else default if outer is None else outer
        )
    for name, value in said.items():
        if not is_positive(value):
            raise UnsupportedModel(f"{name}={value!r} is not a number above 0.")
    return float(_agreed(said, layers) or default)


def kind_of(rope: dict) -> str:
    """What kind of rotary positions settings are of.

    Raises:
      UnsupportedModel: they are of two kinds.
    """
    names = ("rope_type", "type")
    kinds = {f"its {name}": rope[name] for name in names if rope.get(name)}
    return _agreed(kinds, "all") or "default"


def stretch_of(hf: dict) -> Stretch | None:
    """How the angles of global layers are stretched; None if they are not.

    Raises:
      UnsupportedModel: a setting of it is missing, or no number above 0, or two fields
        have two.
    """
    found = spellings(hf, "full_attention")
    stretches = {field: _stretch(rope) for field, rope in found.items()}
    stretch = _agreed(stretches, "full_attention")
    length = hf.get("original_max_position_embeddings")
    if stretch and stretch.kind == "llama3" and length not in (None, stretch.original):
        raise UnsupportedModel(
            f"original_max_position_embeddings={length} beside {stretch.original} in "
            "the rotary settings. Delete the one that the model was not trained with."
        )
    return stretch


def is_positive(value) -> bool:
    """Whether a value is a number, finite and above 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def _stretch(rope):
    kind = kind_of(rope)
    if kind == "default":
        return None
    rope = USUAL.get(kind, {}) | rope
    for name in STRETCHES[kind].values():
        if not is_positive(rope.get(name)):
            raise UnsupportedModel(
                f"rope_scaling {kind!r}: {name} is {rope.get(name)}."
            )
    if (share := rope.get("partial_rotary_factor", 1)) > 1 and kind in USUAL:
        raise UnsupportedModel(
            f"partial_rotary_factor={share}: more than all pairs cannot turn."
        )
    return Stretch.from_hf(rope | {"rope_type": kind})


def _agreed(said, layers):
    """What {field: value} have in common; None of none."""
    if len(set(said.values())) > 1:
        both = ", and ".join(f"{name} {value}" for name, value in said.items())
        raise UnsupportedModel(
            f"config.json says two things of the rotary positions of {layers} layers: "
            f"{both}. Delete the one that the model was not trained with."
        )
    return next(iter(said.values()), None)
