"""The shape of a decoder, read from a Hugging Face `config.json`.

Every field that a file may have is in a whitelist, here or in `families`. A field that
is unknown, and not empty, is an error, because it may change what the model computes.
"""

import functools
import json
import pathlib
from dataclasses import dataclass

from helpers.model.families import FAMILIES, FIELDS, SHARING, WITH_TOWERS
from helpers.model.ops import STRETCHES, Stretch
from helpers.model.vision_config import (
    Gemma4VisionConfig,
    UnsupportedModel,
    VisionConfig,
    named,
    read_named,
    require_values,
    written,
)

# What transformers assumes where a field is missing, by `model_type`.
DEFAULTS = FIELDS["config"]["defaults"]
# The two kinds of layer: one sees the last `window` tokens, the other the whole past.
KINDS = {"sliding_attention": "local", "full_attention": "full"}
LAYERS = tuple(reversed(KINDS))
# Fields that every family reads, and those that do not change what a decoder computes,
# or only if another field, which is unknown here, switches them on.
KNOWN_FIELDS = {*FIELDS["config"]["read"], *FIELDS["config"]["ignored"]}


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
    keys_are_values: bool = named("attention_k_eq_v", False)
    sharing: int = named("num_kv_shared_layers", 0)
    double_wide: bool = named("use_double_wide_mlp", False)
    per_layer: int = named("hidden_size_per_layer_input", 0)
    softcap: float = 0.0

    def __post_init__(self):
        before = self.kinds[: len(self.kinds) - self.sharing]
        if self.kinds[-1] != "full" or set(before) != set(self.kinds):
            raise UnsupportedModel(
                f"layer_types={self.kinds}: the last has to be full, and before the "
                f"last {self.sharing}, which share keys, there has to be each kind."
            )

    def stack_of(self, layer: int) -> str:
        """The name of the stack of like layers that a layer (0-based) is in."""
        shares = layer >= len(self.kinds) - self.sharing
        return (SHARING if shares else "") + self.kinds[layer]

    @functools.cached_property
    def stacks(self) -> dict[str, tuple[int, ...]]:
        """{name of a stack of like layers: their numbers}, in order of their first."""
        names = [self.stack_of(layer) for layer in range(len(self.kinds))]
        return {
            stack: tuple(i for i, name in enumerate(names) if name == stack)
            for stack in dict.fromkeys(names)
        }

    @classmethod
    def from_hf(cls, hf: dict) -> "Gemma4Config":
        """Reads a `gemma4_text` config whose missing fields are filled."""
        types = hf.get("layer_types")
        if not types:  # as transformers assumes it
            layers = range(1, hf["num_hidden_layers"])
            types = [LAYERS[i % 6 > 0] for i in layers] + [LAYERS[0]]
        named = read_named(cls, hf)
        named["softcap"] = float(hf.get("final_logit_softcapping", 0))
        kinds = tuple(KINDS[kind] for kind in types)
        return cls(kinds, *_full_sizes(hf, types), **named)

    def to_hf(self, vocab_size: int) -> dict:
        """The fields of config.json that these are read from."""
        names = {ours: name for name, ours in KINDS.items()}
        return {
            "layer_types": [names[kind] for kind in self.kinds],
            "global_head_dim": self.full_head_dim,
            "num_global_key_value_heads": self.full_kv_heads,
            **written(self),
            "vocab_size_per_layer_input": vocab_size,
            "final_logit_softcapping": self.softcap or None,
            "enable_moe_block": False,
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
    vocab_size: int = named("vocab_size")
    width: int = named("hidden_size")
    layers: int = named("num_hidden_layers")
    heads: int = named("num_attention_heads")
    kv_heads: int = named("num_key_value_heads")
    head_dim: int = named("head_dim")
    ff: int = named("intermediate_size")
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
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise UnsupportedModel(
                f"{self.heads} heads need equal groups for {self.kv_heads} heads of "
                f"keys, of an even width, not {self.head_dim}."
            )

    # Gemma scales embeddings, has GELU, and norms after blocks too.
    is_gemma = property(lambda self: FAMILIES[self.family].gemma)
    # Gemma 3 writes the weights of its norms as 1 + w, all others as w.
    norm_plus_one = property(lambda self: FAMILIES[self.family].norm_plus_one)
    # Gemma and Qwen3 normalise queries and keys; Qwen2.5 and Llama do not.
    qk_norm = property(lambda self: FAMILIES[self.family].qk_norm)
    # Only Qwen2.5 adds a bias to queries, keys and values.
    qkv_bias = property(lambda self: FAMILIES[self.family].qkv_bias)

    @property
    def attention_scale(self) -> float:
        """What query-key products are multiplied by (usually 1/√head_dim)."""
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
        """The size that logits stay below (Gemma 4); 0: any."""
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
          UnsupportedModel: naming the field that this decoder cannot honour, or that
            is missing.
        """
        try:
            return cls._read(hf, vision)
        except KeyError as error:
            raise UnsupportedModel(f"config.json has no field {error}.") from error
        except (AttributeError, TypeError) as error:
            raise UnsupportedModel(
                f"config.json has a field of another kind ({error}). Fetch it again."
            ) from error

    @classmethod
    def _read(cls, hf, vision):
        tower, kind = None, hf.get("model_type")
        if vision:
            if kind not in WITH_TOWERS or not hf.get("vision_config"):
                raise UnsupportedModel(
                    f"{kind!r} has no vision_config: load it with vision=False, or "
                    "take Gemma 3 4B or larger, or Gemma 4."
                )
            seeing = Gemma4VisionConfig if kind == "gemma4" else VisionConfig
            tower = seeing.from_hf(hf)
        hf = _text_config(hf)
        name = hf["model_type"]
        family = FAMILIES[name]
        _check_fields(hf, family)
        gemma, fourth = family.gemma, name == "gemma4_text"
        theta, stretch = _rope(hf, family, "full_attention")
        local_theta = _rope(hf, family, "sliding_attention")[0] if gemma else 1e4
        scale = 1 if fourth else hf.get("query_pre_attn_scalar", 0)
        heads = hf["num_attention_heads"]
        usual = {"head_dim": hf["hidden_size"] // heads, "num_key_value_heads": heads}
        return cls(
            family=name,
            **read_named(cls, usual | hf),
            window=hf["sliding_window"] if gemma else 0,
            pattern=1 if fourth else _pattern(hf, gemma),
            rope_theta=theta,
            rope_local_theta=local_theta,
            stretch=stretch,
            max_positions=hf.get("max_position_embeddings", 0),
            query_scale=float(scale) if gemma else 0.0,
            norm_eps=float(hf.get("rms_norm_eps", 1e-6)),
            tied=hf.get("tie_word_embeddings", gemma),
            vision=tower,
            gemma4=Gemma4Config.from_hf(hf) if fourth else None,
        )

    def to_hf(self) -> dict:
        """The `config.json` that `transformers` reads the same model from."""
        activation = {} if self.is_gemma else {"hidden_act": "silu"}
        hf = {
            "architectures": [FAMILIES[self.family].architecture],
            "model_type": self.family,
            **written(self),
            **activation,
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.norm_eps,
            "tie_word_embeddings": self.tied,
        }
        if self.max_positions:
            hf["max_position_embeddings"] = self.max_positions
        stretch = self.stretch.to_hf() if self.stretch else {}
        if stretch and not self.gemma4:
            hf["rope_scaling"] = stretch
        if self.gemma4:
            full = stretch or {"rope_type": "default"}
            full["rope_theta"] = hf.pop("rope_theta")
            local = {"rope_type": "default", "rope_theta": self.rope_local_theta}
            hf |= {
                "hidden_activation": "gelu_pytorch_tanh",
                "rope_parameters": {"full_attention": full, "sliding_attention": local},
                "sliding_window": self.window,
                **self.gemma4.to_hf(self.vocab_size),
            }
        elif self.is_gemma:
            scale = self.query_scale or self.head_dim
            hf |= {
                "hidden_activation": "gelu_pytorch_tanh",
                "rope_local_base_freq": self.rope_local_theta,
                "sliding_window": self.window,
                "sliding_window_pattern": self.pattern,
                "layer_types": [
                    LAYERS[not self.is_global(i)] for i in range(self.layers)
                ],
                # transformers 5 takes no 256.0 for a 256.
                "query_pre_attn_scalar": int(scale) if scale == int(scale) else scale,
            }
        return self.vision.to_hf(hf) if self.vision else hf


def _text_config(hf: dict) -> dict:
    """The decoder's part of config.json, with what transformers assumes filled in."""
    if hf.get("model_type") in WITH_TOWERS:
        shared = ("quantization_config", "tie_word_embeddings", "is_causal")
        outer = {name: hf[name] for name in shared if hf.get(name) is not None}
        outer["model_type"] = WITH_TOWERS[hf["model_type"]]
        hf = hf.get("text_config", {}) | outer
    if hf.get("model_type") not in FAMILIES:
        raise UnsupportedModel(
            f"model_type {hf.get('model_type')!r} is not one of {', '.join(FAMILIES)}."
        )
    nullable = "hidden_size_per_layer_input"  # Gemma 4's: null for none
    given = {name: x for name, x in hf.items() if x is not None or name == nullable}
    return DEFAULTS.get(hf["model_type"], {}) | given


def _check_fields(hf, family):
    """Raises UnsupportedModel on a field that may change what the model computes."""
    known = KNOWN_FIELDS | set(family.reads.split())
    for field, value in hf.items():
        if value and field not in known and not field.startswith("_"):
            raise UnsupportedModel(
                f"{field}={value!r} is not supported: it may change what the model "
                "computes. If it does not, delete it from config.json."
            )
    field, activation = "hidden_act", "silu"
    if family.gemma:
        field, activation = "hidden_activation", "gelu_pytorch_tanh"
    only: dict[str, tuple] = {field: (activation,), "is_causal": (True,)}
    only["use_bidirectional_attention"] = False, "vision"  # of pictures alone
    require_values(hf, only | {"partial_rotary_factor": (1,)})


def _rope(hf, family, layers) -> tuple[float, Stretch | None]:
    """The rotary base and scaling of one kind of layer.

    transformers 4 has `rope_theta` and `rope_scaling`, 5 has `rope_parameters`, by kind
    of layer where there are two. Where several are there, they must agree, because
    releases of transformers differ in which one counts.
    """
    full, theta = layers == "full_attention", None
    new, old = hf.get("rope_parameters") or {}, hf.get("rope_scaling") or {}
    if family.gemma:
        if new.keys() - {*LAYERS}:
            raise UnsupportedModel(f"rope_parameters={new}: not by kind of layer.")
        new = new.get(layers) or {}
    if hf["model_type"] != "gemma4_text":  # whose base is in rope_parameters alone
        theta = hf.get("rope_theta" if full else "rope_local_base_freq")
    usual = {"rope_theta": theta or (1e6 if family.gemma and full else 1e4)}
    spellings = [x for x in (new, old if full else {}) if x]
    kinds = family.rope_kinds if full else ("default",)
    read = {_rope_settings(usual | x, kinds, family) for x in spellings or [{}]}
    if theta:
        read |= {(float(theta), stretch) for _, stretch in read}
    if len(read) > 1:
        raise UnsupportedModel(
            f"different rotary settings of {layers} layers: {read}. Delete the one "
            "that the model was not trained with."
        )
    return read.pop()


def _rope_settings(rope, kinds, family):
    """(base, scaling or None) of one spelling."""
    kind = rope.get("rope_type") or rope.get("type") or "default"
    known = {"rope_type", "rope_theta", "original_max_position_embeddings"}
    known |= set(STRETCHES.get(kind, {}).values())
    if not family.gemma:
        known |= {"type"}  # of transformers 4
    if rope.get("partial_rotary_factor") == 1:
        known |= {"partial_rotary_factor"}
    if kind not in kinds or rope.get("type", kind) != kind or rope.keys() - known:
        raise UnsupportedModel(
            f"rope settings {rope} are not supported, only of type {', '.join(kinds)}."
        )
    if kind == "default":
        return float(rope["rope_theta"]), None
    usual = {"partial_rotary_factor": 1.0}
    if kind == "proportional":
        usual["factor"] = 1.0
    stretch = Stretch.from_hf(usual | rope | {"rope_type": kind})
    return float(rope["rope_theta"]), stretch


def _full_sizes(hf, types):
    """(head width, key heads) of Gemma 4's full layers.

    The hub's files have a field for each. transformers 5 writes what differs from local
    layers under the number of each full layer instead.
    """
    if by_layer := hf.get("per_layer_config"):
        sizes = {int(layer): sizes for layer, sizes in by_layer.items()}
        full = hf | sizes.get(types.index("full_attention"), {})
        return full["head_dim"], full["num_key_value_heads"]
    few = hf.get("num_global_key_value_heads") if hf.get("attention_k_eq_v") else 0
    return hf.get("global_head_dim", 512), few or hf["num_key_value_heads"]


def _pattern(hf, gemma):
    """One layer in how many is global; all are but in Gemma."""
    kinds, layers = hf.get("layer_types"), hf["num_hidden_layers"]
    if not kinds:
        return hf.get("sliding_window_pattern", 6) if gemma else 1
    pattern = (kinds + ["full_attention"]).index("full_attention") + 1
    expected = [LAYERS[(i + 1) % pattern > 0] for i in range(layers)]
    if kinds != expected or (pattern > 1 and not gemma):
        raise UnsupportedModel(
            f"layer_types={kinds}: should be {layers}, one in {pattern} global."
        )
    return pattern


# Shapes of the real models, to compile programs for them where their weights are not.
_KNOWN = json.loads(pathlib.Path(__file__).with_name("known.json").read_text("utf-8"))
KNOWN = {name: ModelConfig.from_hf(hf) for name, hf in _KNOWN.items()}
# The towers of those that can see: `replace(KNOWN[name], vision=SEES[name])`.
SEES = {
    name: ModelConfig.from_hf(hf, vision=True).vision
    for name, hf in _KNOWN.items()
    if "vision_config" in hf
}
