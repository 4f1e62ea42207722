"""What a `config.json` must say, and must not, for this decoder to be right."""

import math

from helpers.model.gemma4_vision_config import BESIDE, Gemma4VisionConfig
from helpers.model.rope_config import check_places, kind_of, spellings
from helpers.model.vision_config import UnsupportedModel, check_layers

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
    named = {ours: name for ours, (name, _) in BESIDE.items() if ours != "budget"}
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
