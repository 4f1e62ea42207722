"""What only Gemma 4 has in the shape of its decoder, read from a `config.json`."""

import functools
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

from helpers.model.vision_config import UnsupportedModel

# The two kinds of layer: one sees the last `window` tokens, the other the whole past.
KINDS = {"sliding_attention": "local", "full_attention": "full"}
SHARING = (
    "sharing_"  # begins the name of a stack whose layers have no keys of their own
)

# What transformers assumes where a config is silent.
SILENT: dict[str, Any] = {
    "vocab_size": 262_144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 512,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": True,
    "hidden_size_per_layer_input": 256,
    "vocab_size_per_layer_input": 262_144,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
            "rope_theta": 1_000_000.0,
        },
    },
}


class Span(NamedTuple):
    """Layers next to each other that are one group, `repeats` times.

    A group is `local` layers of the one kind, then `full` of the other. first: the
    number of the first layer. shares: they use keys and values of earlier layers.
    """

    first: int
    repeats: int
    local: int
    full: int
    shares: bool


@dataclass(frozen=True)
class Gemma4Config:
    """Sizes and habits of Gemma 4 beside those that every decoder has.

    `ModelConfig`'s head_dim and kv_heads are those of local layers; full ones have
    `full_head_dim` and `full_kv_heads`, and with `keys_are_values` no values matrix.

    kinds: "local" or "full" of each layer, the last one full.
    sharing: so many last layers use the keys and values of the last layer of their kind
      before them; with `double_wide` their feed-forward is twice as wide.
    per_layer: width of the vector that each layer gets of each token; 0 for none.
    softcap: logits are softcap · tanh(logits / softcap); 0 leaves them.
    """

    kinds: tuple[str, ...]
    full_head_dim: int
    full_kv_heads: int
    keys_are_values: bool = False
    sharing: int = 0
    double_wide: bool = False
    per_layer: int = 0
    softcap: float = 0.0

    def __post_init__(self):
        if self.kinds[-1:] != ("full",):
            raise UnsupportedModel("layer_types: the last layer of Gemma 4 is full.")
        own = set(self.kinds[: len(self.kinds) - self.sharing])
        if not 0 <= self.sharing or own != set(self.kinds):
            raise UnsupportedModel(
                f"num_kv_shared_layers={self.sharing}: before these, no layer of each "
                "kind is left whose keys and values they could use."
            )
        for name, size in (
            ("global_head_dim", self.full_head_dim),
            ("num_global_key_value_heads", self.full_kv_heads),
        ):
            if type(size) is not int or size < 1:
                raise UnsupportedModel(f"{name}={size!r} is not a size above 0.")
        if self.full_head_dim % 2:
            raise UnsupportedModel(
                f"global_head_dim={self.full_head_dim} is odd: rotary positions turn "
                "pairs."
            )

    def stack_of(self, layer: int) -> str:
        """The name of the stack of like layers that a layer (0-based) is in."""
        shares = layer >= len(self.kinds) - self.sharing
        return (SHARING if shares else "") + self.kinds[layer]

    @functools.cached_property
    def stacks(self) -> dict[str, tuple[int, ...]]:
        """{name of a stack of like layers: their numbers}, in order of their first."""
        found: dict[str, list[int]] = {}
        for layer in range(len(self.kinds)):
            found.setdefault(self.stack_of(layer), []).append(layer)
        return {name: tuple(layers) for name, layers in found.items()}

    @property
    def spans(self) -> list[Span]:
        """All layers, as groups that repeat: E2B is one span, and one that shares."""
        own = len(self.kinds) - self.sharing
        spans: list[Span] = []
        for first, kinds in ((0, self.kinds[:own]), (own, self.kinds[own:])):
            runs = [(kind, len(list(run))) for kind, run in itertools.groupby(kinds)]
            if runs and runs[0][0] == "full":
                runs.insert(0, ("local", 0))
            sizes = [run[1] for run in runs] + [0] * (len(runs) % 2)
            groups = zip(sizes[::2], sizes[1::2], strict=True)
            for (local, full), same in itertools.groupby(groups):
                repeats = len(list(same))
                spans.append(Span(first, repeats, local, full, first >= own))
                first += repeats * (local + full)
        return spans

    @classmethod
    def from_hf(cls, hf: dict) -> "Gemma4Config":
        """Reads the fields of a `gemma4_text` config that `text_half` has filled.

        Raises:
          UnsupportedModel: naming the field that this decoder cannot honour.
        """
        if hf.get("use_bidirectional_attention") not in (None, "vision"):
            raise UnsupportedModel(
                f"use_bidirectional_attention={hf['use_bidirectional_attention']!r}: "
                "this knows 'vision', which says nothing of texts."
            )
        per_layer = _number(hf, "hidden_size_per_layer_input", int)
        if per_layer and hf["vocab_size_per_layer_input"] != hf["vocab_size"]:
            raise UnsupportedModel(
                f"vocab_size_per_layer_input={hf['vocab_size_per_layer_input']} is not "
                f"vocab_size={hf['vocab_size']}: every token needs its vectors."
            )
        types = hf.get("layer_types") or _usual_types(hf["num_hidden_layers"])
        full_head_dim, full_kv_heads = _full_sizes(hf, types)
        return cls(
            kinds=tuple(KINDS[kind] for kind in types),
            full_head_dim=full_head_dim,
            full_kv_heads=full_kv_heads,
            keys_are_values=_truth(hf, "attention_k_eq_v"),
            sharing=_number(hf, "num_kv_shared_layers", int),
            double_wide=_truth(hf, "use_double_wide_mlp"),
            per_layer=per_layer,
            softcap=float(_number(hf, "final_logit_softcapping", (int, float))),
        )

    def to_hf(self, vocab_size: int) -> dict:
        """The fields of config.json that these are read from."""
        names = {ours: name for name, ours in KINDS.items()}
        return {
            "layer_types": [names[kind] for kind in self.kinds],
            "global_head_dim": self.full_head_dim,
            "num_global_key_value_heads": self.full_kv_heads,
            "attention_k_eq_v": self.keys_are_values,
            "num_kv_shared_layers": self.sharing,
            "use_double_wide_mlp": self.double_wide,
            "hidden_size_per_layer_input": self.per_layer,
            "vocab_size_per_layer_input": vocab_size,
            "final_logit_softcapping": self.softcap or None,
            "enable_moe_block": False,
        }


def _number(hf, name, kinds):
    """A field that may be missing or none, which is 0, as a number from 0 on."""
    value = hf.get(name) or 0
    plain = isinstance(value, kinds) and not isinstance(value, bool)
    if not plain or not 0 <= value < float("inf"):
        raise UnsupportedModel(f"{name}={value!r} is not a number from 0 on.")
    return value


def _truth(hf, name):
    """A field that may be missing or none, which is false, as true or false."""
    if not isinstance(hf.get(name), bool | None):
        raise UnsupportedModel(f"{name}={hf[name]!r} is not true or false.")
    return bool(hf.get(name))


def said_for_all(hf: dict) -> dict:
    """What the config of a model with towers says for all its parts, and rightly so."""
    shared = ("quantization_config", "tie_word_embeddings")
    return {name: hf[name] for name in shared if hf.get(name) is not None}


def text_half(hf: dict) -> dict:
    """The config of Gemma 4's decoder, alone or in one with towers, silences filled.

    Raises:
      UnsupportedModel: there is no such half, or it has experts.
    """
    outer = {}
    if hf.get("model_type") == "gemma4":
        outer = said_for_all(hf)
        hf = hf.get("text_config", {})
        if not isinstance(hf, dict):
            raise UnsupportedModel(f"text_config={hf!r} is not an object.")
    if _truth(hf, "enable_moe_block"):
        raise UnsupportedModel(
            "enable_moe_block=True: Gemma 4 with experts (26B-A4B) is not supported, "
            "only the dense ones: E2B, E4B, 31B."
        )
    none = "hidden_size_per_layer_input"  # of which null says that there are none
    said = {name: x for name, x in hf.items() if x is not None or name == none}
    return SILENT | said | outer | {"model_type": "gemma4_text"}


def _usual_types(layers):
    """Five local layers to one full, and the last one full."""
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    return [kinds[i % 6] for i in range(layers - 1)] + ["full_attention"]


def _full_sizes(hf, types):
    """(head width, key heads) of full layers.

    The hub's files have a field for each. transformers 5.23 writes what is other than
    in local layers under the number of each full layer instead.
    """
    usual = hf["head_dim"], hf["num_key_value_heads"]
    if "per_layer_config" not in hf:
        few = hf.get("num_global_key_value_heads") if hf.get("attention_k_eq_v") else 0
        return hf.get("global_head_dim", 512), few or usual[1]
    said = {int(layer): sizes for layer, sizes in hf["per_layer_config"].items()}
    full = {i for i, kind in enumerate(types) if kind == "full_attention"}
    sizes = {tuple(sorted(said.get(i, {}).items())) for i in full}
    strange = {name for own in sizes for name, _ in own}
    strange -= {"head_dim", "num_key_value_heads"}
    if (
        strange
        or len(sizes) > 1
        or any(own for i, own in said.items() if i not in full)
    ):
        raise UnsupportedModel(
            f"per_layer_config={hf['per_layer_config']}: this knows one head_dim and "
            "num_key_value_heads for all full layers."
        )
    own = dict(*sizes)
    return own.get("head_dim", usual[0]), own.get("num_key_value_heads", usual[1])
