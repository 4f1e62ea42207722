"""What sampling refuses: inputs that would be answered, but as another question."""

import numpy as np

from helpers.batches.batch_checks import check_right_padded, check_rows
from helpers.runtime.ranges import require_positions

LEAST = 1e-6  # a temperature or a top_p below it is rounded to nonsense in float32
MOST = float(np.finfo(np.float32).max)  # a temperature above it is infinite there


def check_prompts(tokens, mask, config, room):
    """As `check_right_padded`; refuses prompts without a token, and too long ones.

    Args:
      config: the model's. room: the most tokens that may follow a prompt.
    """
    count = check_right_padded(tokens, mask, config.vocab_size)
    check_rows(count > 0, "Prompt {} is empty: an answer needs a token to go on from.")
    longest = int(count.max(initial=0))
    what = f"A prompt of {longest} and up to {room} behind it"
    require_positions(config, longest + room, what)


def check_limits(max_tokens, eos_ids, temperature, vocab, top_k=0, top_p=1.0):
    """Refuses settings of `sampling.generate` that mean nothing."""
    tempered = isinstance(temperature, (int, float, np.number)) and (
        temperature == 0 or LEAST <= temperature <= MOST
    )
    whole = all(hasattr(number, "__index__") for number in (top_k, max_tokens))
    sizes = whole and top_k >= 0 and max_tokens >= 1
    if not (tempered and LEAST <= top_p <= 1 and sizes):
        raise ValueError(
            f"temperature {temperature} must be 0 or from {LEAST} on, top_p {top_p} "
            f"in [{LEAST}, 1], and in whole numbers top_k {top_k} ≥ 0 and max_tokens "
            f"{max_tokens} ≥ 1."
        )
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
