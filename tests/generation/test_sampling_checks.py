"""What sampling is asked wrongly, it refuses: each of these once got an answer."""

import jax
import numpy as np
import pytest
from tiny_models import VOCAB, cached_model

from helpers.generation import sessions
from helpers.generation.sampling import generate, row_keys

PROMPTS, MASK = (
    np.array([[2, 3, 4, 5], [6, 7, 0, 0]]),
    np.array([[1] * 4, [1, 1, 0, 0]]),
)
KEYS = row_keys(jax.random.key(0), 0, 2, 3)
LIMITS = {"max_tokens": 3, "eos_ids": (1,)}


def ask(prompts=PROMPTS, mask=MASK, keys=KEYS, **changes):
    return generate(cached_model(), prompts, mask, keys, **LIMITS | changes)


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"mask": changed(MASK, 1, 0)}, "Prompt 1 is empty"),
        ({"mask": changed(MASK, (0, 1), 0)}, "Prompt 0 is not padded on the right"),
        ({"mask": MASK[:, ::-1]}, "Prompt 1 is not padded on the right"),
        ({"mask": 2 * MASK}, "Prompt 0 is not padded on the right.*ones"),
        ({"mask": MASK[:, :3]}, r"mask has shape \(2, 3\)"),
        ({"prompts": PROMPTS / 1}, "tokens are float64.*whole numbers"),
        ({"prompts": changed(PROMPTS, (1, 0), VOCAB)}, "Prompt 1 has ids outside.*19"),
        ({"prompts": changed(PROMPTS, (0, 3), -1)}, "Prompt 0 has ids outside.*19"),
        ({"keys": KEYS[:1]}, r"shape \(1, 3\) for 2 prompts"),
        ({"keys": KEYS[:, 0]}, r"shape \(2,\) for 2 prompts"),
        ({"eos_ids": (1, VOCAB)}, r"eos_ids \[19\] are outside"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": 1e-30}, "temperature other than 0=1e-30"),
        ({"temperature": "hot"}, "temperature='hot'"),
        ({"temperature": 1e39}, r"temperature=1e\+39"),
        ({"eos_ids": (0.5,)}, r"eos_ids \[0.5\]"),
        ({"top_p": 1e-50}, "top_p=1e-50"),
        ({"top_p": float("nan")}, "top_p=nan"),
        ({"top_k": 2.5}, "top_k=2.5"),
        ({"max_tokens": 0}, "max_tokens=0"),
    ],
)
def test_what_would_be_answered_as_another_question_is_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        ask(**asked)


def test_ids_that_stand_in_the_padding_are_nobodys():
    """And a mask may be of any kind of ones and zeros."""
    foreign = np.where(MASK, PROMPTS, -7)
    for kind in (bool, np.float32, np.int64):
        ours = ask(foreign, MASK.astype(kind))
        np.testing.assert_array_equal(ours.tokens, ask().tokens)
        np.testing.assert_array_equal(ours.logprobs, ask().logprobs)


def prefill(size, prompts=PROMPTS, mask=MASK):
    return sessions.prefill(cached_model(), prompts, mask, 3, size)


def generate_turn(session, active, **changes):
    return sessions.generate(
        cached_model(), session, KEYS, np.array(active), **LIMITS | changes
    )[0]


def append(session, tokens, mask):
    """What is appended to answers 0 and 1 of the first prompt; to others nothing."""
    heard, real = np.zeros((2, 2, 3, 4), np.int32)
    heard[0, :2], real[0, :2] = tokens, mask
    return sessions.append_tokens(cached_model(), session, heard, real)


ALL, FIRST = np.ones((2, 3), bool), np.eye(1, 6, dtype=bool).reshape(2, 3)
HEARD = [[5, 6, 0, 0], [7, 0, 0, 0]], [[1, 1, 0, 0], [1, 0, 0, 0]]


def test_turns_and_what_is_appended_to_them_alternate():
    size = sessions.columns(3, 3, 4)
    session = generate_turn(prefill(size), FIRST)
    with pytest.raises(ValueError, match=r"Answer \(0, 0\) has had its turn.*append"):
        generate_turn(session, ALL)
    with pytest.raises(ValueError, match=r"Answer \(0, 1\) has had no turn"):
        append(session, *HEARD)
    session = generate_turn(session, ALL & ~FIRST)
    with pytest.raises(ValueError, match=r"Answer \(0, 2\) has had its turn"):
        generate_turn(append(session, *HEARD), ALL)


def test_a_cache_too_small_for_a_turn_is_refused():
    """Its columns would be written over earlier ones."""
    with pytest.raises(ValueError, match="3 columns, 0 of them used.* needs 4"):
        generate_turn(prefill(3), ALL, max_tokens=5)
    size = sessions.columns(1, 3, 4)
    with pytest.raises(ValueError, match="3 columns, 2 of them used.* needs 5"):
        append(generate_turn(prefill(size), ALL), *HEARD)


def test_what_is_appended_has_no_gaps_and_no_foreign_ids():
    session = generate_turn(prefill(sessions.columns(2, 3, 4)), ALL)
    with pytest.raises(
        ValueError, match=r"appended to \(0, 0\) is not padded on the r"
    ):
        append(session, HEARD[0], np.array(HEARD[1])[:, ::-1])
    with pytest.raises(ValueError, match=r"appended to \(0, 1\) has ids outside"):
        append(session, [[5] * 4, [VOCAB] * 4], HEARD[1])
