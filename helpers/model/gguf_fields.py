"""The metadata of one architecture in a GGUF file, each held against its kind."""

import math

from helpers.model.gguf_file import GGUFError

# Keys that would change what is computed, and the value that changes nothing.
UNKNOWN = {
    "expert_count": 0,
    "attn_logit_softcapping": 0,
    "final_logit_softcapping": 0,
    "attention.causal": True,
    "logit_scale": 1,
    "residual_scale": 1,
    "embedding_scale": 1,
    "attention.scale": 0,
    "rope.scaling.attn_factor": 1,
    "use_parallel_residual": False,
}


class Fields:
    """The metadata of one architecture."""

    def __init__(self, file, name):
        self.fields, self.path, self.name = file.fields, file.path, name
        self.most_layers = len(file.entries)

    def refusal(self, key, value, why="no size"):
        """A GGUFError that names the key and its value."""
        return GGUFError(
            f"{self.path}: {self.name}.{key} is {value!r:.40}: {why}. Fetch the file "
            "again, or take another one."
        )

    def count(self, key, default=None) -> int:
        """A whole number from 0 on."""
        value = self.fields.get(f"{self.name}.{key}", default)
        if type(value) is not int or not 0 <= value < 2**31:
            raise self.refusal(key, value)
        return value

    def size(self, key, default=None) -> int:
        """A whole number above 0."""
        if not (value := self.count(key, default)):
            raise self.refusal(key, value)
        return value

    def every(self, key, layers: int, kind: type) -> list:
        """One flag, or whole number above 0, of each layer; a single one is of all.

        Layers are no more than the file has tensors, before a list of them is made.
        """
        value = self.fields.get(f"{self.name}.{key}")
        if type(value) is kind and kind is int and layers <= self.most_layers:
            value = [value] * layers
        fits = isinstance(value, list) and len(value) == layers
        if not fits or not all(type(x) is kind for x in value):
            raise self.refusal(key, value, f"not one {kind.__name__} for each layer")
        if kind is int and not all(0 < x < 2**31 for x in value):
            raise self.refusal(key, value)
        return value

    def number(self, key, default=None, least=None) -> float:
        """A finite number above 0, or from `least` on."""
        value = self.fields.get(f"{self.name}.{key}", default)
        known = type(value) in (int, float) and value < math.inf
        if not known or not (value > 0 or value == least):
            raise self.refusal(key, value, "no number that can be")
        return float(f"{value:.7g}")  # stored in float32: 1e-6 and not 9.99999997e-7

    def require(self, key, size: int) -> None:
        """Refuses a size that is not the heads'; one that is not told is."""
        if self.size(key, size) != size:
            raise GGUFError(
                f"{self.path}: {self.name}.{key} is not {size}, as keys are. Take the "
                "model's folder of safetensors."
            )

    def stretched(self) -> float:
        """By what all rotary frequencies are divided; 1.0 where nothing says so.

        As llama.cpp reads it (llama-model.cpp): a factor of no kind is a linear one.
        """
        kind = self.fields.get(f"{self.name}.rope.scaling.type", "linear")
        if kind not in ("linear", "none"):
            raise GGUFError(
                f"{self.path}: rope scaling {kind!r:.40} is not supported. Take "
                "another model."
            )
        old = self.fields.get(f"{self.name}.rope.scale_linear", 0.0)
        factor = self.number("rope.scaling.factor", old, least=0.0)
        return factor if factor and kind == "linear" else 1.0

    def refuse_unknown(self, known=()):
        """Refuses what would change the numbers, and is not done here."""
        for key, plain in UNKNOWN.items():
            value = self.fields.get(f"{self.name}.{key}", plain)
            if value != plain and key not in known:
                raise GGUFError(
                    f"{self.path}: {self.name}.{key}={value!r:.40} is not supported. "
                    "Take another model."
                )
