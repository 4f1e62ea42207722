"""The shape of a decoder, read from a Hugging Face `config.json`."""

from dataclasses import dataclass

from helpers.model import config_checks, gemma4_config
from helpers.model.config_checks import FAMILIES, GEMMAS, NEEDED, NEEDED_BY
from helpers.model.gemma4_config import Gemma4Config
from helpers.model.gemma4_vision_config import Gemma4VisionConfig
from helpers.model.rope import Stretch
from helpers.model.rope_config import stretch_of, theta_of
from helpers.model.vision_config import UnsupportedModel, VisionConfig

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
        config_checks.known(self.family)
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
            config_checks.check_image_tokens(self.vision, self.vocab_size)

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
        config_checks.refuse_both_ways(hf)
        tower = _tower(hf) if vision else None
        if hf.get("model_type") == "gemma3":  # with vision; this is its text half
            hf = _text_half(hf)
        if hf.get("model_type") in ("gemma4", "gemma4_text"):
            hf = gemma4_config.text_half(hf)
        family = config_checks.known(hf.get("model_type"))
        config_checks.refuse_what_would_be_wrong(hf, family)
        config_checks.check_sizes(hf, NEEDED + NEEDED_BY.get(family, ()))
        config_checks.check_habits(hf, family)
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
    outer = gemma4_config.said_for_all(hf)
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
