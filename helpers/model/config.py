"""The shape of a decoder, read from a Hugging Face `config.json`."""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from helpers.model.families import SHARING
from helpers.model.rope import STRETCHES, Stretch
from helpers.model.vision_config import (
    GEMMA4_BESIDE,
    Gemma4VisionConfig,
    UnsupportedModel,
    VisionConfig,
    check_layers,
)

# The two kinds of layer: one sees the last `window` tokens, the other the whole past.
KINDS = {"sliding_attention": "local", "full_attention": "full"}

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
        """Reads a `gemma4_text` config whose missing fields are filled.

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


def _gemma4_text_half(hf: dict) -> dict:
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


FAMILIES = {
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "llama": "LlamaForCausalLM",
}
GEMMAS = ("gemma3_text", "gemma4_text")

NEEDED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)
NEEDED_BY = {
    "gemma3_text": ("head_dim", "sliding_window", "query_pre_attn_scalar"),
    "gemma4_text": ("head_dim", "sliding_window"),
    "qwen3": ("head_dim",),
}
# How rotary angles may be stretched, by family.
STRETCHED = {"gemma4_text": ("default", "proportional")}

ABSENT = (
    "attention_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "mlp_bias",
    "num_experts",
    "num_local_experts",
    "quantization_config",
    "use_bidirectional_attention",
    "use_sliding_window",
)
# Of these Gemma 4 has the one, and the other is of its pictures alone.
KNOWN_BY = {"gemma4_text": ("final_logit_softcapping", "use_bidirectional_attention")}


def known(family: object) -> str:
    """The family, if this decoder knows it; raises UnsupportedModel else."""
    if not isinstance(family, str) or family not in FAMILIES:
        all_known = ", ".join(FAMILIES)
        raise UnsupportedModel(f"model_type {family!r}: this knows {all_known}.")
    return family


def check_sizes(hf: dict, needed: tuple[str, ...]) -> None:
    """Raises on sizes that are missing, or that no array can have."""
    if missing := [name for name in needed if hf.get(name) is None]:
        raise UnsupportedModel(f"config.json has no field {missing[0]!r}.")
    beside = "num_key_value_heads", "head_dim", "max_position_embeddings"
    for name in (*needed, *beside):
        value = hf.get(name)
        kinds = (int, float) if name == "query_pre_attn_scalar" else (int,)
        if value is not None and not (type(value) in kinds and 0 < value < math.inf):
            raise UnsupportedModel(f"{name}={value!r} is not a size above 0.")
    check_layers(hf["num_hidden_layers"], "num_hidden_layers")


def check_habits(hf: dict, family: str) -> None:
    """Raises on numbers, kinds of layers and truths that are none."""
    eps = hf.get("rms_norm_eps", 0)
    if type(eps) not in (int, float) or not 0 <= eps < math.inf:
        raise UnsupportedModel(f"rms_norm_eps={eps!r} is not a number from 0 on.")
    tied = hf.get("tie_word_embeddings")
    if not isinstance(tied, bool | None):
        raise UnsupportedModel(f"tie_word_embeddings={tied!r} is not true or false.")
    every = hf.get("sliding_window_pattern")
    if (
        family in GEMMAS
        and every is not None
        and not (type(every) is int and every > 0)
    ):
        raise UnsupportedModel(
            f"sliding_window_pattern={every!r} is not a whole number from 1 on."
        )
    kinds = hf.get("layer_types")
    if kinds and len(kinds) != hf["num_hidden_layers"]:
        raise UnsupportedModel(
            f"layer_types has {len(kinds)} layers, and num_hidden_layers is "
            f"{hf['num_hidden_layers']}."
        )


def check_image_tokens(vision: Gemma4VisionConfig, vocab_size: int) -> None:
    """Raises on ids around Gemma 4's pictures that are no tokens, or one for two."""
    tokens = GEMMA4_BESIDE.items()
    named = {ours: name for ours, (name, _) in tokens if ours != "budget"}
    for ours, name in (named | {"pad_token": "pad_token_id"}).items():
        token = getattr(vision, ours)
        if type(token) is not int or not 0 <= token < vocab_size:
            raise UnsupportedModel(
                f"{name}={token!r} is no token: vocab_size is {vocab_size}."
            )
    if len({getattr(vision, ours) for ours in named}) < len(named):
        raise UnsupportedModel(
            f"{', '.join(named.values())}: two of them are one token, and where an "
            "image begins and ends is not clear."
        )


def refuse_both_ways(hf: dict) -> None:
    """Raises where tokens would see those after them, too (transformers 5)."""
    text = hf.get("text_config")
    for part in (hf, text if isinstance(text, dict) else {}):
        if part.get("is_causal") not in (None, True):
            raise UnsupportedModel(
                f"is_causal={part['is_causal']!r} is not supported: in this decoder a "
                "token never sees those after it."
            )


def refuse_what_would_be_wrong(hf: dict, family: str) -> None:
    """Raises on fields that change what the model computes, which nothing here does."""
    check_places(hf)
    full = STRETCHED.get(family, ("default", "linear", "llama3"))
    _refuse_positions(hf, "full_attention", full)
    if family in GEMMAS:
        _refuse_positions(hf, "sliding_attention", ("default",))
    for field in ABSENT:
        if hf.get(field) and field not in KNOWN_BY.get(family, ()):
            raise UnsupportedModel(f"{field}={hf[field]} is not supported ({family}).")
    kinds = {"full_attention", "sliding_attention"}
    kinds = kinds if family in GEMMAS else {"full_attention"}
    if strange := set(hf.get("layer_types") or ()) - kinds:
        raise UnsupportedModel(f"layer_types has {min(strange)!r} layers ({family}).")
    field = "hidden_activation" if family in GEMMAS else "hidden_act"
    usual = "gelu_pytorch_tanh" if family in GEMMAS else "silu"
    if hf.get(field, usual) != usual:
        raise UnsupportedModel(f"{field}={hf[field]!r}: {family} here has {usual!r}.")


def _refuse_positions(hf, layers, known):
    """Raises on rotary positions of a kind of layer that are none of the known ones."""
    for rope in [*spellings(hf, layers).values(), {}]:
        kind = kind_of(rope)
        share = rope.get("partial_rotary_factor", hf.get("partial_rotary_factor"))
        if share not in (None, 1) and kind != "proportional":
            raise UnsupportedModel(f"partial_rotary_factor={share} is not supported.")
        if kind not in known:
            raise UnsupportedModel(
                f"rope type {kind!r} of {layers} layers is not supported: "
                f"this knows {', '.join(known)}."
            )


# What transformers assumes where the text_config of a Gemma 3 with vision is silent.
GEMMA_TEXT = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "query_pre_attn_scalar": 256,
    "max_position_embeddings": 131_072,
}


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and habits of a decoder; everything that differs between families is here.

    `window` is the reach of local layers in tokens; one layer in `pattern` is global
    (sees everything), the others are local. `pattern == 1` means every layer is global.
    `max_positions` is 0 where nobody says for which texts the model was made.
    `stretch` is of global layers' rotary angles; local ones keep theirs. `vision` is
    the tower beside the decoder, of Gemma 3 and 4; `gemma4` what only Gemma 4 has.
    """

    family: str
    vocab_size: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    window: int = 0
    pattern: int = 1
    rope_theta: float = 10_000.0
    rope_local_theta: float = 10_000.0
    stretch: Stretch | None = None
    max_positions: int = 8192
    query_scale: float = 0.0
    norm_eps: float = 1e-6
    tied: bool = True
    vision: VisionConfig | Gemma4VisionConfig | None = None
    gemma4: Gemma4Config | None = None

    def __post_init__(self):
        known(self.family)
        if self.heads % self.kv_heads:
            raise UnsupportedModel(
                f"num_attention_heads {self.heads} is not a multiple of "
                f"num_key_value_heads {self.kv_heads}."
            )
        if self.gemma4 and self.heads % self.gemma4.full_kv_heads:
            raise UnsupportedModel(
                f"num_attention_heads {self.heads} is not a multiple of "
                f"num_global_key_value_heads {self.gemma4.full_kv_heads}."
            )
        if self.head_dim % 2:
            raise UnsupportedModel(
                f"head_dim={self.head_dim} is odd: rotary positions turn pairs."
            )
        if isinstance(self.vision, Gemma4VisionConfig):
            check_image_tokens(self.vision, self.vocab_size)

    @property
    def is_gemma(self) -> bool:
        """Gemma scales embeddings, has GELU, and norms after blocks too."""
        return self.family in GEMMAS

    @property
    def norm_plus_one(self) -> bool:
        """Gemma 3 writes the weights of its norms as 1 + w, all others as w."""
        return self.family == "gemma3_text"

    @property
    def qk_norm(self) -> bool:
        """Gemma and Qwen3 normalise queries and keys; Qwen2.5 and Llama do not."""
        return self.family in (*GEMMAS, "qwen3")

    @property
    def qkv_bias(self) -> bool:
        """Only Qwen2.5 adds a bias to queries, keys and values."""
        return self.family == "qwen2"

    @property
    def attention_scale(self) -> float:
        """What query-key products are multiplied by (1/√head_dim unless said)."""
        return (self.query_scale or self.head_dim) ** -0.5

    @property
    def positions(self) -> int:
        """Tokens of the longest text that it was made for; 0 where nobody says.

        A linear stretch comes on top of the number in config.json (so transformers'
        documentation), but in a Gemma 3, whose number is that of stretched texts.
        """
        linear = self.stretch and self.stretch.kind == "linear" and not self.is_gemma
        factor = self.stretch.factor if self.stretch and linear else 1
        return int(self.max_positions * factor)

    @property
    def softcap(self) -> float:
        """What the size of logits is kept below (Gemma 4); 0: nothing."""
        return self.gemma4.softcap if self.gemma4 else 0.0

    def is_global(self, layer: int) -> bool:
        """Does this layer (0-based) see the whole past, or only the last `window`?"""
        if self.gemma4:
            return self.gemma4.kinds[layer] == "full"
        return (layer + 1) % self.pattern == 0

    @classmethod
    def from_hf(cls, hf: dict, vision=False) -> "ModelConfig":
        """Reads a parsed `config.json`.

        Args:
          vision: of Gemma 3 or 4 with vision, read the tower's shape too.
        Raises:
          UnsupportedModel: naming the field that this decoder cannot honour, or saying
            that one is of a kind that it never has.
        """
        try:
            return cls._read(hf, vision)
        except UnsupportedModel:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UnsupportedModel(
                "config.json has a field of a kind that it never has "
                f"({type(error).__name__}: {error}). Fetch it or make it again."
            ) from error

    @classmethod
    def _read(cls, hf, vision):
        refuse_both_ways(hf)
        tower = _tower(hf) if vision else None
        if hf.get("model_type") == "gemma3":  # with vision; this is its text half
            hf = _text_half(hf)
        if hf.get("model_type") in ("gemma4", "gemma4_text"):
            hf = _gemma4_text_half(hf)
        family = known(hf.get("model_type"))
        refuse_what_would_be_wrong(hf, family)
        check_sizes(hf, NEEDED + NEEDED_BY.get(family, ()))
        check_habits(hf, family)
        gemma, fourth = family in GEMMAS, family == "gemma4_text"
        scale = 1 if fourth else hf.get("query_pre_attn_scalar", 0)
        return cls(
            family=family,
            vocab_size=hf["vocab_size"],
            width=hf["hidden_size"],
            layers=hf["num_hidden_layers"],
            heads=hf["num_attention_heads"],
            kv_heads=hf.get("num_key_value_heads") or hf["num_attention_heads"],
            head_dim=hf.get("head_dim")
            or hf["hidden_size"] // hf["num_attention_heads"],
            ff=hf["intermediate_size"],
            window=hf["sliding_window"] if gemma else 0,
            pattern=_pattern(hf) if gemma and not fourth else 1,
            rope_theta=theta_of(hf, "full_attention", 1e6 if gemma else 1e4),
            rope_local_theta=theta_of(hf, "sliding_attention", 1e4) if gemma else 1e4,
            stretch=stretch_of(hf),
            max_positions=hf.get("max_position_embeddings") or 0,
            query_scale=float(scale) if gemma else 0.0,
            norm_eps=float(hf.get("rms_norm_eps", 1e-6)),
            tied=hf.get("tie_word_embeddings", gemma),
            vision=tower,
            gemma4=Gemma4Config.from_hf(hf) if fourth else None,
        )

    def to_hf(self) -> dict:
        """The `config.json` that `transformers` reads the same model from."""
        hf = {
            "architectures": [FAMILIES[self.family]],
            "model_type": self.family,
            "vocab_size": self.vocab_size,
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.ff,
            "hidden_act": "silu",
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.norm_eps,
            "tie_word_embeddings": self.tied,
        }
        if self.max_positions:
            hf["max_position_embeddings"] = self.max_positions
        if self.gemma4:
            hf = _gemma4_hf(self, hf)
            return self.vision.to_hf(hf) if self.vision else hf
        if self.stretch:
            hf["rope_scaling"] = self.stretch.to_hf()
        if self.is_gemma:
            kinds = ["sliding_attention", "full_attention"]
            hf |= {
                "hidden_activation": "gelu_pytorch_tanh",
                "rope_local_base_freq": self.rope_local_theta,
                "sliding_window": self.window,
                "sliding_window_pattern": self.pattern,
                "layer_types": [kinds[self.is_global(i)] for i in range(self.layers)],
                "query_pre_attn_scalar": _whole(self.query_scale or self.head_dim),
            }
            del hf["hidden_act"]
        return self.vision.to_hf(hf) if self.vision else hf


def _gemma4_hf(config, hf):
    """The `config.json` of a Gemma 4, from what it has in common with the others."""
    full = config.stretch.to_hf() if config.stretch else {"rope_type": "default"}
    local = {"rope_type": "default", "rope_theta": config.rope_local_theta}
    full["rope_theta"] = hf.pop("rope_theta")
    del hf["hidden_act"]
    return hf | {
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {"full_attention": full, "sliding_attention": local},
        "sliding_window": config.window,
        **config.gemma4.to_hf(config.vocab_size),
    }


def _whole(number: float) -> float:
    """An int where it is one: transformers 5 takes no 256.0 for a 256."""
    return int(number) if number == int(number) else number


def _tower(hf: dict) -> VisionConfig | Gemma4VisionConfig:
    fourth = hf.get("model_type") == "gemma4"
    return Gemma4VisionConfig.from_hf(hf) if fourth else VisionConfig.from_hf(hf)


def _text_half(hf: dict) -> dict:
    """The config of the decoder in a Gemma 3 with vision, its silent fields filled."""
    text = hf.get("text_config", {})
    if not isinstance(text, dict):
        raise UnsupportedModel(f"text_config={text!r} is not an object.")
    outer = said_for_all(hf)
    return GEMMA_TEXT | text | outer | {"model_type": "gemma3_text"}


def _pattern(hf: dict) -> int:
    kinds = hf.get("layer_types")
    if not kinds:
        return hf.get("sliding_window_pattern") or 6
    if "full_attention" not in kinds:
        return len(kinds) + 1
    pattern = kinds.index("full_attention") + 1
    expected = [(i + 1) % pattern == 0 for i in range(len(kinds))]
    if expected != [kind == "full_attention" for kind in kinds]:
        raise UnsupportedModel(f"layer_types is not one global layer in {pattern}.")
    return pattern
