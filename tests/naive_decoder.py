"""The truth for the decoder: plain NumPy in float64, one text at a time.

Written from the papers, from what Hugging Face files mean (names, matrices stored
(out, in)) and from what transformers' Gemma 4 was seen to do; it shares no code with
the package. tests/model/test_parity.py holds it to logits of transformers.
Axes: T tokens, N heads, H head width.
"""

import numpy as np

FULL = "full_attention"


def logits(tensors, hf, tokens):
    """Scores of the next token after each token.

    Args:
      tensors: {Hugging Face name: array}, as in a model.safetensors.
      hf: the parsed config.json.
      tokens: list of T ids, one text without padding.
    Returns:
      (T, V) float64.
    """
    t = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
    kind, D = hf["model_type"], hf["hidden_size"]
    plus = 1.0 if kind == "gemma3_text" else 0.0  # Gemma 3 stores norms less one
    embed = t["model.embed_tokens.weight"]
    x = embed[list(tokens)] * (D**0.5 if kind.startswith("gemma") else 1)
    inputs, made_before = per_layer_inputs(t, hf, tokens, x), {}
    for layer in range(hf["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        w = {n.removeprefix(prefix): y for n, y in t.items() if n.startswith(prefix)}
        w |= {name: y + plus for name, y in w.items() if "norm." in name}
        x = block(x, w, hf, layer, made_before)
        if inputs is not None:
            gated = gelu(x @ w["per_layer_input_gate.weight"].T) * inputs[:, layer]
            added = gated @ w["per_layer_projection.weight"].T
            x = x + rms(added, hf, w["post_per_layer_input_norm.weight"])
        x = x * w.get("layer_scalar", 1.0)
    head = embed if hf["tie_word_embeddings"] else t["lm_head.weight"]
    scores = rms(x, hf, t["model.norm.weight"] + plus) @ head.T
    cap = hf.get("final_logit_softcapping")
    return cap * np.tanh(scores / cap) if cap else scores


def log_softmax(scores):
    """Over the last axis, float64."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))


def logprobs(tensors, hf, tokens):
    """Log-probability of tokens[1:], each given all before it, (T-1,)."""
    scores = log_softmax(logits(tensors, hf, tokens))
    return scores[np.arange(len(tokens) - 1), list(tokens[1:])]


def per_layer_inputs(t, hf, tokens, x):
    """Gemma 4's small vector of each token for each layer, (T, layers, E), or None."""
    E = hf.get("hidden_size_per_layer_input")
    if not E:
        return None
    looked_up = t["model.embed_tokens_per_layer.weight"][list(tokens)] * E**0.5
    made = x @ t["model.per_layer_model_projection.weight"].T / x.shape[1] ** 0.5
    looked_up, made = (y.reshape(len(tokens), -1, E) for y in (looked_up, made))
    weight = t["model.per_layer_projection_norm.weight"]
    return (rms(made, hf, weight) + looked_up) / 2**0.5


def block(x, w, hf, layer, made_before):
    """One decoder block on T vectors."""
    gemma = hf["model_type"].startswith("gemma")
    attended = attention(
        rms(x, hf, w["input_layernorm.weight"]), w, hf, layer, made_before
    )
    if gemma:
        attended = rms(attended, hf, w["post_attention_layernorm.weight"])
    x = x + attended
    before = "pre_feedforward" if gemma else "post_attention"
    y = rms(x, hf, w[f"{before}_layernorm.weight"])
    gate = y @ w["mlp.gate_proj.weight"].T
    gate = gelu(gate) if gemma else gate / (1 + np.exp(-gate))
    fed = gate * (y @ w["mlp.up_proj.weight"].T) @ w["mlp.down_proj.weight"].T
    return x + (rms(fed, hf, w["post_feedforward_layernorm.weight"]) if gemma else fed)


def attention(x, w, hf, layer, made_before):
    """Each head looks back at the tokens it may see; keys may be another layer's."""
    kind = hf["layer_types"][layer] if "layer_types" in hf else FULL
    gemma4, N = hf["model_type"] == "gemma4_text", hf["num_attention_heads"]
    size, groups = sizes(hf, kind) if gemma4 else (hf["head_dim"], None)
    groups = groups or hf["num_key_value_heads"]
    rope = rope_of(hf, kind)

    def heads(name, count):
        y = x @ w[f"self_attn.{name}_proj.weight"].T
        y = y + w.get(f"self_attn.{name}_proj.bias", 0.0)
        return y.reshape(len(x), count, size)

    def turned(y, name):
        if f"self_attn.{name}_norm.weight" in w:
            y = rms(y, hf, w[f"self_attn.{name}_norm.weight"])
        return rotated(y, rope)

    if layer < hf["num_hidden_layers"] - (hf.get("num_kv_shared_layers") or 0):
        k = v = heads("k", groups)
        if not (gemma4 and hf["attention_k_eq_v"] and kind == FULL):
            v = heads("v", groups)
        v = rms(v, hf, 1.0) if gemma4 else v
        made_before[kind] = turned(k, "k"), v
    k, v = (np.repeat(y, N // groups, axis=1) for y in made_before[kind])
    scale = 1.0 if gemma4 else hf.get("query_pre_attn_scalar", size) ** -0.5
    scores = np.einsum("qnh,knh->nqk", turned(heads("q", N), "q"), k) * scale
    distance = np.arange(len(x))[:, None] - np.arange(len(x))
    window = len(x) if kind == FULL else hf["sliding_window"]
    allowed = (distance >= 0) & (distance < window)
    p = np.exp(log_softmax(np.where(allowed, scores, -np.inf)))
    mixed = np.einsum("nqk,knh->qnh", p, v).reshape(len(x), -1)
    return mixed @ w["self_attn.o_proj.weight"].T


def sizes(hf, kind):
    """(head width, key heads) of Gemma 4's layers, as either release writes them."""
    size, groups = hf["head_dim"], hf["num_key_value_heads"]
    if kind != FULL:
        return size, groups
    if "per_layer_config" in hf:
        here = hf["per_layer_config"][str(hf["layer_types"].index(FULL))]
        return here.get("head_dim", size), here.get("num_key_value_heads", groups)
    few = hf["num_global_key_value_heads"] if hf["attention_k_eq_v"] else None
    return hf["global_head_dim"], few or groups


def rope_of(hf, kind):
    """Base and scaling of a kind of layer, as transformers 4 or 5 writes them."""
    if "rope_parameters" in hf:
        return hf["rope_parameters"].get(kind, hf["rope_parameters"])
    if kind != FULL:
        return {"rope_theta": hf["rope_local_base_freq"]}
    return {"rope_theta": hf["rope_theta"]} | (hf.get("rope_scaling") or {})


def rotated(x, rope):
    """Turns each plane (x[i], x[i + half]) of (T, N, H) by position · its frequency."""
    half = x.shape[-1] // 2
    share = int(rope.get("partial_rotary_factor", 1.0) * 2 * half) // 2
    frequency = [
        stretched(rope["rope_theta"] ** (-i / half), rope) if i < share else 0.0
        for i in range(half)
    ]
    turn = np.exp(1j * np.arange(len(x))[:, None, None] * np.array(frequency))
    y = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([y.real, y.imag], axis=-1)


def stretched(frequency, rope):
    """A frequency after rope_scaling, in the words of Llama 3.1's release."""
    slow = frequency / rope.get("factor", 1.0)
    if rope.get("rope_type") != "llama3":
        return slow
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    original = rope["original_max_position_embeddings"]
    wavelength = 2 * np.pi / frequency
    if wavelength > original / low:
        return slow
    if wavelength < original / high:
        return frequency
    smooth = (original / wavelength - low) / (high - low)
    return (1 - smooth) * slow + smooth * frequency


def rms(x, hf, weight):
    """x divided by its root mean square over the last axis, times the weight."""
    size = np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + hf["rms_norm_eps"])
    return x / size * weight


def gelu(x):
    """GELU in its tanh approximation (1606.08415)."""
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
