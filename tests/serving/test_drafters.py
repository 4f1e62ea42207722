"""Prompt lookup against a plain search; what any drafter has to be."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.serving.drafters import WORDS, Known, PromptLookup

ROOM, PROMPT = 9, 8


def searched(text):
    """Where the text goes on as it did before: the longest match, then the latest."""
    for count in range(min(WORDS, len(text) - 1), 0, -1):
        for place in range(len(text) - 1, count - 1, -1):
            if text[place - count : place] == text[-count:]:
                return place
    return None


@jax.jit
def looked_up(prompts, known):
    """Four tokens that prompt lookup proposes for each answer, greedily."""
    drafter = PromptLookup(4)
    state = drafter.begin(prompts, None, 1, ROOM)
    proposed, logits, _ = drafter.propose(state, known, None)
    assert logits is None
    return proposed


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=PROMPT),
    st.lists(st.integers(1, 3), min_size=1, max_size=ROOM),
)
def test_what_followed_the_same_words_is_proposed(prompt, answer):
    text = prompt + answer
    padded = jnp.array([prompt + [7] * (PROMPT - len(prompt))])
    tokens = jnp.array([[answer + [9] * (ROOM - len(answer))]])
    count, length = jnp.array([[len(answer)]]), jnp.array([len(prompt)])
    keys = jax.random.split(jax.random.key(0), 1)[None]
    proposed = looked_up(padded, Known(tokens, count, length, keys))
    assert proposed.shape == (1, 1, 4)
    place = searched(text)
    if place is not None:
        expected = text[place : place + 4]
        np.testing.assert_array_equal(proposed[0, 0, : len(expected)], expected)


def test_each_answer_of_a_group_is_looked_up_for_itself():
    drafter = PromptLookup(2)
    prompt = jnp.array([[1, 2, 3, 4, 5, 0], [5, 1, 6, 2, 7, 8]])
    tokens = jnp.array([[[2, 0, 0], [4, 0, 0]], [[1, 0, 0], [9, 2, 0]]])
    count, length = jnp.array([[1, 1], [1, 2]]), jnp.array([5, 6])
    known = Known(tokens, count, length, None)
    proposed, _, _ = drafter.propose(prompt, known, 1.0)
    np.testing.assert_array_equal(proposed, [[[3, 4], [5, 4]], [[6, 2], [7, 8]]])
