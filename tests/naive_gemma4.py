"""The truth for Gemma 4's decoder: plain NumPy in float64, one token at a time.

As naive_decoder.py, of which it uses nothing; written from what transformers' model of
that name was seen to do, and held to its logits by tests/model/test_parity.py.
"""

import numpy as np

FULL = "full_attention"


def logits(t, hf, tokens):
    """Scores of the next token after each, (T, V); arguments as in naive_decoder.

    Args:
      t: {Hugging Face name: float64 array}.
    """
    D, L = hf["hidden_size"], hf["num_hidden_layers"]
    E = hf["hidden_size_per_layer_input"]
    embed = t["model.embed_tokens.weight"]
    rows = [embed[token] * D**0.5 for token in tokens]
    inputs = [[None] * L for _ in tokens]
    if E:
        for i, token in enumerate(tokens):
            looked_up = t["model.embed_tokens_per_layer.weight"][token] * E**0.5
            made = t["model.per_layer_model_projection.weight"] @ rows[i] / D**0.5
            weight = t["model.per_layer_projection_norm.weight"]
            inputs[i] = [
                (
                    rms(made[E * n : E * n + E], hf, weight)
                    + looked_up[E * n : E * n + E]
                )
                / 2**0.5
                for n in range(L)
            ]
    made_before = {}
    for layer in range(L):
        own = {
            name.removeprefix(f"model.layers.{layer}."): x
            for name, x in t.items()
            if name.startswith(f"model.layers.{layer}.")
        }
        here = [of_token[layer] for of_token in inputs]
        rows = block(rows, here, own, hf, layer, made_before)
    rows = [rms(row, hf, t["model.norm.weight"]) for row in rows]
    head = embed if hf["tie_word_embeddings"] else t["lm_head.weight"]
    scores = np.array([head @ row for row in rows])
    cap = hf["final_logit_softcapping"]
    return cap * np.tanh(scores / cap) if cap else scores


def block(rows, inputs, own, hf, layer, made_before):
    """One decoder block on a list of T vectors."""
    normed = [rms(row, hf, own["input_layernorm.weight"]) for row in rows]
    attended = attention(normed, own, hf, layer, made_before)
    result = []
    for row, new, given in zip(rows, attended, inputs, strict=True):
        row = row + rms(new, hf, own["post_attention_layernorm.weight"])
        x = rms(row, hf, own["pre_feedforward_layernorm.weight"])
        fed = gelu(own["mlp.gate_proj.weight"] @ x) * (own["mlp.up_proj.weight"] @ x)
        fed = own["mlp.down_proj.weight"] @ fed
        row = row + rms(fed, hf, own["post_feedforward_layernorm.weight"])
        if given is not None:
            gated = gelu(own["per_layer_input_gate.weight"] @ row) * given
            added = own["per_layer_projection.weight"] @ gated
            row = row + rms(added, hf, own["post_per_layer_input_norm.weight"])
        result.append(row * own["layer_scalar"][0])
    return result


def attention(rows, own, hf, layer, made_before):
    """Each head looks back at the tokens it may see; keys may be another layer's."""
    kind = hf["layer_types"][layer]
    heads, size, groups = hf["num_attention_heads"], *sizes(hf, kind)
    rope = hf["rope_parameters"][kind]
    q_norm = own["self_attn.q_norm.weight"]
    q = [
        [turned(rms(x, hf, q_norm), i, rope) for x in parts]
        for i, parts in enumerate(split(own["self_attn.q_proj.weight"], rows, heads))
    ]
    if layer < hf["num_hidden_layers"] - hf["num_kv_shared_layers"]:
        k_norm = own["self_attn.k_norm.weight"]
        plain = split(own["self_attn.k_proj.weight"], rows, groups)
        k = [
            [turned(rms(x, hf, k_norm), i, rope) for x in parts]
            for i, parts in enumerate(plain)
        ]
        if not (hf["attention_k_eq_v"] and kind == FULL):
            plain = split(own["self_attn.v_proj.weight"], rows, groups)
        v = [[rms(x, hf, 1.0) for x in parts] for parts in plain]
        made_before[kind] = k, v
    k, v = made_before[kind]
    result = []
    for now in range(len(rows)):
        first = 0 if kind == FULL else max(0, now - hf["sliding_window"] + 1)
        mixed = []
        for head in range(heads):
            group = head // (heads // groups)
            scores = np.array(
                [q[now][head] @ k[past][group] for past in range(first, now + 1)]
            )
            p = np.exp(scores - scores.max())
            seen = np.array([v[past][group] for past in range(first, now + 1)])
            mixed.append(p / p.sum() @ seen)
        result.append(own["self_attn.o_proj.weight"] @ np.concatenate(mixed))
    assert len(result[0]) == hf["hidden_size"] and q[0][0].shape == (size,)
    return result


def sizes(hf, kind):
    """(head width, key heads) of a kind of layer, as either release writes them."""
    size, groups = hf["head_dim"], hf["num_key_value_heads"]
    if kind != FULL:
        return size, groups
    if "per_layer_config" in hf:
        own = hf["per_layer_config"][str(hf["layer_types"].index(FULL))]
        return own.get("head_dim", size), own.get("num_key_value_heads", groups)
    few = hf["num_global_key_value_heads"] if hf["attention_k_eq_v"] else None
    return hf["global_head_dim"], few or groups


def split(matrix, rows, count):
    """The matrix times each row, cut into so many heads."""
    return [(matrix @ row).reshape(count, -1) for row in rows]


def turned(x, position, rope):
    """Rotary positions, of the first planes only where a share of them is named."""
    half, angle = len(x) // 2, 0.0
    turning = int(rope.get("partial_rotary_factor", 1.0) * len(x)) // 2
    first, second = x[:half].copy(), x[half:].copy()
    for i in range(turning):
        angle = position * rope["rope_theta"] ** (-i / half) / rope.get("factor", 1.0)
        a, b = x[i], x[half + i]
        first[i] = a * np.cos(angle) - b * np.sin(angle)
        second[i] = b * np.cos(angle) + a * np.sin(angle)
    return np.concatenate([first, second])


def rms(x, hf, weight):
    """x divided by its root mean square, times the weight itself."""
    return x / np.sqrt(np.mean(x**2) + hf["rms_norm_eps"]) * weight


def gelu(x):
    """GELU in its tanh approximation (1606.08415)."""
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
