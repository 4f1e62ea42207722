"""The truth for the decoder: plain NumPy in float64, one token and one head at a time.

Written from the papers and from what Hugging Face files mean (names, matrices stored
(out, in)); it shares no code with the package. Slow, and meant to be read.
"""

import naive_gemma4
import numpy as np


def logits(tensors, hf, tokens):
    """Scores of the next token after each token.

    Args:
      tensors: {Hugging Face name: array}, as in a model.safetensors.
      hf: the parsed config.json.
      tokens: list of T ids, one text without padding.
    Returns:
      (T, V) float64.
    """
    gemma = hf["model_type"] == "gemma3_text"
    t = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
    if hf["model_type"] == "gemma4_text":
        return naive_gemma4.logits(t, hf, tokens)
    embed = t["model.embed_tokens.weight"]
    rows = [
        embed[token] * (hf["hidden_size"] ** 0.5 if gemma else 1) for token in tokens
    ]
    for layer in range(hf["num_hidden_layers"]):
        own = Names(t, f"model.layers.{layer}.")
        rows = block(rows, own, hf, layer, gemma)
    rows = [rms(row, t["model.norm.weight"], hf, gemma) for row in rows]
    head = embed if hf["tie_word_embeddings"] else t["lm_head.weight"]
    return np.array([head @ row for row in rows])


def log_softmax(scores):
    """Over the last axis, float64."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))


def logprobs(tensors, hf, tokens):
    """Log-probability of tokens[1:], each given all before it, (T-1,)."""
    scores = log_softmax(logits(tensors, hf, tokens))
    return np.array([scores[i, token] for i, token in enumerate(tokens[1:])])


class Names:
    """The tensors of one layer, by the rest of their name; None where there is none."""

    def __init__(self, tensors, prefix):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name):
        return self.tensors.get(self.prefix + name)


def block(rows, own, hf, layer, gemma):
    """One decoder block on a list of T vectors."""
    normed = [rms(row, own["input_layernorm.weight"], hf, gemma) for row in rows]
    attended = attention(normed, own, hf, layer, gemma)
    if gemma:
        weight = own["post_attention_layernorm.weight"]
        attended = [rms(row, weight, hf, gemma) for row in attended]
    rows = [row + new for row, new in zip(rows, attended, strict=True)]
    before = "pre_feedforward" if gemma else "post_attention"
    result = []
    for row in rows:
        x = rms(row, own[f"{before}_layernorm.weight"], hf, gemma)
        gate = own["mlp.gate_proj.weight"] @ x
        gate = gelu_tanh(gate) if gemma else gate / (1 + np.exp(-gate))
        fed = own["mlp.down_proj.weight"] @ (gate * (own["mlp.up_proj.weight"] @ x))
        if gemma:
            fed = rms(fed, own["post_feedforward_layernorm.weight"], hf, gemma)
        result.append(row + fed)
    return result


def attention(rows, own, hf, layer, gemma):
    """Grouped-query attention; each head looks back at the tokens it may see."""
    heads, groups = hf["num_attention_heads"], hf["num_key_value_heads"]
    size = hf["head_dim"]
    local = gemma and hf["layer_types"][layer] == "sliding_attention"
    theta, stretch = theta_of(hf, local), stretch_of(hf, local)
    scale = (hf["query_pre_attn_scalar"] if gemma else size) ** -0.5

    def project(name, count, norm, position, x):
        y = own[f"self_attn.{name}_proj.weight"] @ x
        bias = own[f"self_attn.{name}_proj.bias"]
        parts = (y if bias is None else y + bias).reshape(count, size)
        if norm:
            weight = own[f"self_attn.{name}_norm.weight"]
            if weight is not None:
                parts = np.array([rms(part, weight, hf, gemma) for part in parts])
            parts = np.array([rope(part, position, theta, stretch) for part in parts])
        return parts

    q = [project("q", heads, True, i, x) for i, x in enumerate(rows)]
    k = [project("k", groups, True, i, x) for i, x in enumerate(rows)]
    v = [project("v", groups, False, i, x) for i, x in enumerate(rows)]
    result = []
    for now in range(len(rows)):
        first = max(0, now - hf["sliding_window"] + 1) if local else 0
        mixed = []
        for head in range(heads):
            group = head // (heads // groups)
            seen = range(first, now + 1)
            scores = np.array([q[now][head] @ k[past][group] * scale for past in seen])
            p = np.exp(scores - scores.max())
            p = p / p.sum()
            mixed.append(
                sum(w * v[past][group] for w, past in zip(p, seen, strict=True))
            )
        result.append(own["self_attn.o_proj.weight"] @ np.concatenate(mixed))
    return result


def theta_of(hf, local):
    """The rotary base, as transformers 4 or 5 writes it."""
    if "rope_parameters" in hf:
        rope = hf["rope_parameters"]
        kind = "sliding_attention" if local else "full_attention"
        return rope.get(kind, rope)["rope_theta"]
    return hf["rope_local_base_freq" if local else "rope_theta"]


def stretch_of(hf, local):
    """The rope_scaling of a kind of layer, as transformers 4 or 5 writes it."""
    if "rope_parameters" in hf:
        kind = "sliding_attention" if local else "full_attention"
        rope = hf["rope_parameters"]
        return rope.get(kind, rope)
    return {} if local else hf.get("rope_scaling") or {}


def rope(x, position, theta, stretch):
    """Turns the plane (x[i], x[i + half]) by position · its frequency."""
    half = len(x) // 2
    turned = np.empty(half, complex)
    for i in range(half):
        frequency = stretched(theta ** (-i / half), stretch)
        turned[i] = (x[i] + 1j * x[i + half]) * np.exp(1j * position * frequency)
    return np.concatenate([turned.real, turned.imag])


def stretched(frequency, stretch):
    """A frequency after rope_scaling, in the words of Llama 3.1's release."""
    kind = stretch.get("rope_type", "default")
    if kind == "default":
        return frequency
    slow = frequency / stretch["factor"]
    if kind == "linear":
        return slow
    low, high = stretch["low_freq_factor"], stretch["high_freq_factor"]
    original = stretch["original_max_position_embeddings"]
    wavelength = 2 * np.pi / frequency
    if wavelength > original / low:
        return slow
    if wavelength < original / high:
        return frequency
    smooth = (original / wavelength - low) / (high - low)
    return (1 - smooth) * slow + smooth * frequency


def rms(x, weight, hf, gemma):
    """x divided by its root mean square, times the weight (Gemma: 1 + weight)."""
    scale = weight + 1 if gemma else weight
    return x / np.sqrt(np.mean(x**2) + hf["rms_norm_eps"]) * scale


def gelu_tanh(x):
    """GELU in its tanh approximation (1606.08415)."""
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
