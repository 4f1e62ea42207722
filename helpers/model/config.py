"""The shape of a decoder, read from a Hugging Face `config.json`.

Every field that a file may have is in a whitelist here. A field that is unknown, and
not empty, is an error, because it may change what the model computes.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from helpers.model.families import FAMILIES, SHARING, WITH_TOWERS, Family
from helpers.model.ops import STRETCHES, Stretch
from helpers.model.vision_config import (
    Gemma4VisionConfig,
    UnsupportedModel,
    VisionConfig,
)

# The two kinds of layer: one sees the last `window` tokens, the other the whole past.
KINDS = {"sliding_attention": "local", "full_attention": "full"}
LAYERS = tuple(reversed(KINDS))
MOST_LAYERS = 1000  # more than any model has
_SIZE, _COUNT = "a whole number above 0", "a whole number from 0 on"
_NUMBER, _POSITIVE = "a number from 0 on", "a number above 0"
_TRUTH, _CAUSAL, _ANY = "true or false", "true, the only order here", "anything"
NEEDED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)
FIELDS = dict.fromkeys(NEEDED, _SIZE) | {
    "num_key_value_heads": _SIZE,
    "head_dim": _SIZE,
    "max_position_embeddings": _SIZE,
    "original_max_position_embeddings": _SIZE,
    "rms_norm_eps": _NUMBER,
    "tie_word_embeddings": _TRUTH,
    "is_causal": _CAUSAL,
    "rope_theta": _POSITIVE,
    "rope_scaling": _ANY,
    "rope_parameters": _ANY,
    "partial_rotary_factor": _POSITIVE,
    "layer_types": _ANY,
    "hidden_act": _ANY,
}
GEMMA_FIELDS = {
    "sliding_window": _SIZE,
    "sliding_window_pattern": _SIZE,
    "rope_local_base_freq": _POSITIVE,
    "query_pre_attn_scalar": _POSITIVE,
    "hidden_activation": _ANY,
}
GEMMA4_FIELDS = {
    "global_head_dim": _SIZE,
    "num_global_key_value_heads": _SIZE,
    "attention_k_eq_v": _TRUTH,
    "num_kv_shared_layers": _COUNT,
    "use_double_wide_mlp": _TRUTH,
    "hidden_size_per_layer_input": _COUNT,
    "vocab_size_per_layer_input": _SIZE,
    "final_logit_softcapping": _NUMBER,
    "use_bidirectional_attention": _ANY,  # "vision": of pictures alone
    "per_layer_config": _ANY,
}
# What says nothing of the numbers that a decoder computes, or has no effect unless
# another field, which is unknown here, switches it on.
IGNORED = set(
    "model_type architectures transformers_version transformers.js_config dtype "
    "torch_dtype use_cache cache_implementation initializer_range pretraining_tp "
    "bos_token_id eos_token_id pad_token_id attention_dropout hidden_dropout "
    "return_dict output_attentions output_hidden_states problem_type id2label "
    "label2id num_labels tokenizer_class task_specific_params is_encoder_decoder "
    "chunk_size_feed_forward max_window_layers sliding_window sliding_window_pattern "
    "unsloth_version unsloth_fixed is_llama_config moe_intermediate_size "
    "top_k_experts expert_intermediate_size torchscript temperature top_k top_p "
    "repetition_penalty length_penalty num_beams max_length num_return_sequences "
    "diversity_penalty typical_p num_beam_groups encoder_no_repeat_ngram_size".split()
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
# The same of any Gemma 4.
GEMMA4_TEXT: dict[str, Any] = {
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
        with_keys = set(self.kinds[: len(self.kinds) - self.sharing])
        if not 0 <= self.sharing or with_keys != set(self.kinds):
            raise UnsupportedModel(
                f"num_kv_shared_layers={self.sharing} leaves no layer of each kind "
                "that has keys and values."
            )
        if self.full_head_dim % 2:
            raise UnsupportedModel(
                f"global_head_dim={self.full_head_dim} is odd: rotary positions rotate "
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
        if hf.get("use_bidirectional_attention") not in (None, False, "vision"):
            raise UnsupportedModel(
                f"use_bidirectional_attention={hf['use_bidirectional_attention']!r} is "
                "not supported: texts are causal here."
            )
        per_layer = hf.get("hidden_size_per_layer_input") or 0
        if per_layer and hf["vocab_size_per_layer_input"] != hf["vocab_size"]:
            raise UnsupportedModel(
                f"vocab_size_per_layer_input={hf['vocab_size_per_layer_input']} is not "
                f"vocab_size={hf['vocab_size']}: every token needs its vectors."
            )
        layers = hf["num_hidden_layers"]
        usual = ["sliding_attention"] * 5 + ["full_attention"]
        usual = [usual[i % 6] for i in range(layers - 1)] + ["full_attention"]
        types = hf.get("layer_types") or usual
        full_head_dim, full_kv_heads = _full_sizes(hf, types)
        return cls(
            kinds=tuple(KINDS[kind] for kind in types),
            full_head_dim=full_head_dim,
            full_kv_heads=full_kv_heads,
            keys_are_values=bool(hf.get("attention_k_eq_v")),
            sharing=hf.get("num_kv_shared_layers") or 0,
            double_wide=bool(hf.get("use_double_wide_mlp")),
            per_layer=per_layer,
            softcap=float(hf.get("final_logit_softcapping") or 0),
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
        family_of(self.family)
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
                f"head_dim={self.head_dim} is odd: rotary positions rotate pairs."
            )
        if isinstance(self.vision, Gemma4VisionConfig):
            self.vision.check_tokens(self.vocab_size)

    @property
    def is_gemma(self) -> bool:
        """Gemma scales embeddings, has GELU, and norms after blocks too."""
        return FAMILIES[self.family].gemma

    @property
    def norm_plus_one(self) -> bool:
        """Gemma 3 writes the weights of its norms as 1 + w, all others as w."""
        return FAMILIES[self.family].norm_plus_one

    @property
    def qk_norm(self) -> bool:
        """Gemma and Qwen3 normalise queries and keys; Qwen2.5 and Llama do not."""
        return FAMILIES[self.family].qk_norm

    @property
    def qkv_bias(self) -> bool:
        """Only Qwen2.5 adds a bias to queries, keys and values."""
        return FAMILIES[self.family].qkv_bias

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
        tower = None
        if vision:
            fourth = hf.get("model_type") == "gemma4"
            tower = (Gemma4VisionConfig if fourth else VisionConfig).from_hf(hf)
        hf = _text_config(hf)
        name = hf["model_type"]
        family = family_of(name)
        _check_fields(hf, name)
        gemma, fourth = family.gemma, name == "gemma4_text"
        theta, stretch = _rope(hf, "full_attention", 1e6 if gemma else 1e4)
        local_theta = 1e4
        if gemma:
            local_theta, _ = _rope(hf, "sliding_attention", 1e4)
        scale = 1 if fourth else hf.get("query_pre_attn_scalar", 0)
        return cls(
            family=name,
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
            rope_theta=theta,
            rope_local_theta=local_theta,
            stretch=stretch,
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
            "architectures": [FAMILIES[self.family].architecture],
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


def family_of(name) -> Family:
    """The family of this `model_type`; raises UnsupportedModel of an unknown one."""
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise UnsupportedModel(f"model_type {name!r} is not supported, only {known}.")
    return FAMILIES[name]


def _text_config(hf: dict) -> dict:
    """The decoder's part of config.json, with what transformers assumes filled in."""
    defaults: dict = {}
    if hf.get("model_type") in WITH_TOWERS:
        shared = ("quantization_config", "tie_word_embeddings", "is_causal")
        outer = {name: hf[name] for name in shared if hf.get(name) is not None}
        outer["model_type"] = WITH_TOWERS[hf["model_type"]]
        text = hf.get("text_config", {})
        if not isinstance(text, dict):
            raise UnsupportedModel(f"text_config={text!r} is not an object.")
        hf, defaults = text | outer, GEMMA_TEXT
    if hf.get("model_type") == "gemma4_text":
        empty = "hidden_size_per_layer_input"  # of which null means that there are none
        hf = {name: x for name, x in hf.items() if x is not None or name == empty}
        defaults = GEMMA4_TEXT
    return defaults | hf


def _check_fields(hf, name):
    """Raises on a field that is missing, unknown, or no value of its kind."""
    family = FAMILIES[name]
    known = FIELDS | (GEMMA_FIELDS if family.gemma else {})
    known |= GEMMA4_FIELDS if name == "gemma4_text" else {}
    for field in (*NEEDED, *family.required):
        if hf.get(field) is None:
            raise UnsupportedModel(f"config.json has no field {field!r}.")
    for field, value in hf.items():
        if value is None or (field in IGNORED and field not in known):
            continue
        if field not in known:
            if value and not field.startswith("_"):
                raise UnsupportedModel(
                    f"{field}={value!r} is not supported ({name}): it may change what "
                    "the model computes. If it does not, delete it from config.json."
                )
        elif not _is_valid(value, known[field]):
            raise UnsupportedModel(f"{field}={value!r} is not {known[field]}.")
    layers, types = hf["num_hidden_layers"], hf.get("layer_types") or ()
    if layers > MOST_LAYERS:
        raise UnsupportedModel(f"num_hidden_layers={layers} is above {MOST_LAYERS:,}.")
    if types and len(types) != layers:
        raise UnsupportedModel(f"layer_types has {len(types)} layers, not {layers}.")
    kinds = LAYERS if family.gemma else LAYERS[:1]
    if unknown := set(types) - set(kinds):
        raise UnsupportedModel(f"layer_types has {min(unknown)!r} layers ({name}).")
    field = "hidden_activation" if family.gemma else "hidden_act"
    usual = "gelu_pytorch_tanh" if family.gemma else "silu"
    if hf.get(field, usual) != usual:
        raise UnsupportedModel(f"{field}={hf[field]!r}: {name} here has {usual!r}.")


def _is_valid(value, kind):
    if kind == _ANY:
        return True
    if kind in (_TRUTH, _CAUSAL):
        return value is True or (kind == _TRUTH and value is False)
    whole = type(value) is int
    if kind in (_SIZE, _COUNT):
        return whole and value >= (kind == _SIZE)
    number = whole or type(value) is float
    return number and math.isfinite(value) and value >= 0 and (value or kind == _NUMBER)


def _rope(hf, layers, default) -> tuple[float, Stretch | None]:
    """The rotary base and scaling of one kind of layer.

    transformers 4 has `rope_theta` and `rope_scaling`, 5 has `rope_parameters`, by kind
    of layer where there are two. Where several are there, they must agree, because
    releases of transformers differ in which one counts.

    Args:
      default: the base where no field has one.
    """
    family, full = FAMILIES[hf["model_type"]], layers == "full_attention"
    alone = hf.get("rope_theta" if full else "rope_local_base_freq")
    scaling, parameters = hf.get("rope_scaling") or {}, hf.get("rope_parameters") or {}
    by_kind = any(kind in parameters for kind in LAYERS)
    if parameters and by_kind != family.gemma:
        how = "by kind of layer" if family.gemma else "one for all layers"
        raise UnsupportedModel(f"rope_parameters={parameters}: should be {how}.")
    if family.gemma:
        parameters = parameters.get(layers) or {}
        if "type" in scaling:  # read by transformers 4 only
            raise UnsupportedModel(f"rope_scaling={scaling}: rename type to rope_type.")
    if hf["model_type"] == "gemma4_text":
        if scaling or parameters.get("rope_theta") is None:
            raise UnsupportedModel(
                "Gemma 4 has its rotary settings in rope_parameters, with a rope_theta "
                "for each kind of layer, and no rope_scaling."
            )
        alone = None  # transformers does not read it there
    if (share := hf.get("partial_rotary_factor")) not in (None, 1):
        raise UnsupportedModel(f"partial_rotary_factor={share} is not supported.")
    given = [parameters, scaling if full else {}]
    kinds = family.rope_kinds if full else ("default",)
    read = [_rope_settings(x, hf, alone or default, layers, kinds) for x in given if x]
    if alone is not None or not read:
        read.append((float(alone or default), read[0][1] if read else None))
    if any(other != read[0] for other in read):
        raise UnsupportedModel(
            f"config.json has different rotary settings of {layers} layers: "
            f"{read}. Delete the one that the model was not trained with."
        )
    return read[0]


def _rope_settings(rope, hf, theta, layers, kinds):
    """(base, scaling or None) of one spelling."""
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind not in kinds or rope.get("type") not in (None, kind):
        raise UnsupportedModel(
            f"rope type {kind!r} of {layers} layers is not supported, only "
            f"{', '.join(kinds)}: {rope}."
        )
    usual = {"proportional": {"factor": 1.0, "partial_rotary_factor": 1.0}}
    rope = (
        {"rope_theta": theta}
        | usual.get(kind, {})
        | {name: x for name, x in rope.items() if x is not None}
    )
    needed = set(STRETCHES[kind].values()) if kind != "default" else set()
    unused = {"rope_type", "type", "partial_rotary_factor"}
    for name in sorted({"rope_theta"} | needed | rope.keys() - unused):
        known = name in needed or name == "rope_theta"
        known = known or name == "original_max_position_embeddings"
        if not known or not _is_valid(rope.get(name), _POSITIVE):
            raise UnsupportedModel(f"rope {kind!r}: {name} is {rope.get(name)!r}.")
    share = rope.get("partial_rotary_factor", 1)
    if share != 1 and (kind != "proportional" or not 0 < share <= 1):
        raise UnsupportedModel(f"partial_rotary_factor={share} is not supported.")
    if kind == "default":
        return float(rope["rope_theta"]), None
    stretch = Stretch.from_hf(rope | {"rope_type": kind})
    length = hf.get("original_max_position_embeddings")
    if kind == "llama3" and length not in (None, stretch.original):
        raise UnsupportedModel(
            f"original_max_position_embeddings={length} beside {stretch.original} in "
            "the rotary settings. Delete the one that the model was not trained with."
        )
    return float(rope["rope_theta"]), stretch


def _full_sizes(hf, types):
    """(head width, key heads) of Gemma 4's full layers.

    The hub's files have a field for each. transformers 5 writes what differs from local
    layers under the number of each full layer instead.
    """
    head_dim, kv_heads = hf["head_dim"], hf["num_key_value_heads"]
    if "per_layer_config" not in hf:
        few = hf.get("num_global_key_value_heads") if hf.get("attention_k_eq_v") else 0
        return hf.get("global_head_dim", 512), few or kv_heads
    usual = {"head_dim": head_dim, "num_key_value_heads": kv_heads}
    by_layer = {int(layer): sizes for layer, sizes in hf["per_layer_config"].items()}
    sizes = {
        kind: [
            usual | by_layer.get(i, {}) for i in range(len(types)) if types[i] == kind
        ]
        for kind in KINDS
    }
    (full, *others), local = sizes["full_attention"], sizes["sliding_attention"]
    if full.keys() != usual.keys() or any(own != full for own in others):
        local = [None]
    if any(own != usual for own in local):
        raise UnsupportedModel(
            f"per_layer_config={hf['per_layer_config']}: this knows one head_dim and "
            "num_key_value_heads for all full layers."
        )
    return full["head_dim"], full["num_key_value_heads"]


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
