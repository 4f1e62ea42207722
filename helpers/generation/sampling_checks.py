"""What sampling refuses: inputs that would be answered, but as another question."""

from helpers.runtime.ranges import require, require_count

LEAST = 1e-6  # a temperature or a top_p below it is rounded to nonsense in float32
MOST = (2 - 2**-23) * 2.0**127  # of float32: a temperature above it is infinite there


def check_limits(max_tokens, eos_ids, temperature, vocab, top_k=0, top_p=1.0):
    """Refuses settings of `sampling.generate` that mean nothing."""
    if require("temperature", temperature, least=0, most=MOST):  # 0 is greedy
        require("temperature other than 0", temperature, least=LEAST)
    require("top_p", top_p, least=LEAST, most=1)
    require_count("top_k", top_k, least=0)
    require_count("max_tokens", max_tokens)
    if strange := [token for token in eos_ids if token not in range(vocab)]:
        raise ValueError(
            f"eos_ids {strange} are outside of the model's vocabulary of {vocab}: no "
            "answer could end with them. Pass those of its own tokenizer."
        )


def check_keys(keys, rows):
    """Refuses keys that are not one row for each of the prompts."""
    if keys.ndim != 2 or keys.shape[0] != rows or not keys.size:
        raise ValueError(
            f"keys_PG has shape {keys.shape} for {rows} prompts: pass at least one "
            "prompt, and a key for each answer, row_keys(key, step, prompts, group)."
        )
