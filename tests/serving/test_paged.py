"""A text read from blocks gives the logits of a plain pass, whoever shares them."""

import jax.numpy as jnp
import numpy as np
import pytest
import tiny_models
from flax import nnx

from helpers.serving import BlockPool, paged

SIZE = 4


class Memory:
    """Texts in blocks, read by a model through tables."""

    def __init__(self, model, blocks=12):
        self.program, self.pool = nnx.split(model), BlockPool(blocks, SIZE)
        self.pages = paged.pages(model, blocks, SIZE)

    def read(self, text, count, width):
        """Logits (V,) after a text, of which the first `count` tokens are in place."""
        new = np.zeros((2, 1, width), np.int32)
        fresh = text.tokens[count:]
        new[0, 0, : len(fresh)], new[1, 0, : len(fresh)] = fresh, 1
        table = np.full((1, 6), 11, np.int32)  # beyond the text: anything
        table[0, : len(text.blocks)] = text.blocks
        logits, self.pages = paged.read(
            self.program, self.pages, *new, table, np.array([count])
        )
        self.pool.written(text, len(text.tokens))
        return np.asarray(logits[0])

    def goes_on(self, text, token):
        """Logits after one more token of a text."""
        place = self.pool.append(text, token)
        if place.copy_of is not None:
            both = jnp.array([place.copy_of]), jnp.array([place.block])
            self.pages = paged.copied(self.pages, *both)
        return self.read(text, len(text.tokens) - 1, 1)


def plain(model, tokens):
    tokens = np.array(tokens)[None, None]
    hidden, _ = model(tokens, np.arange(tokens.shape[-1])[None, None])
    return np.asarray(model.logits(hidden)[0, 0, -1])


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_forks_read_their_own_words_and_leave_those_of_others_alone(family):
    model = tiny_models.model(family, sharpness=3.0)
    memory = Memory(model)
    first, _ = memory.pool.open([3, 1, 4, 1, 5, 9])
    np.testing.assert_allclose(
        memory.read(first, 0, 8), plain(model, first.tokens), atol=2e-5
    )
    texts = [first, memory.pool.fork(first), memory.pool.fork(first)]
    for step in range(5):
        for i, text in enumerate(texts):
            logits = memory.goes_on(text, 2 + 3 * i + step)
            np.testing.assert_allclose(logits, plain(model, text.tokens), atol=2e-5)
    assert len({text.blocks[0] for text in texts}) == 1
    assert len({text.blocks[1] for text in texts}) == 3


def test_a_prompt_that_is_found_again_is_read_from_where_it_lay():
    model = tiny_models.model("llama", sharpness=3.0)
    memory = Memory(model)
    first, _ = memory.pool.open([3, 1, 4, 1, 5, 9, 2, 6, 5])
    memory.read(first, 0, 9)
    memory.pool.close(first)
    again, found = memory.pool.open([3, 1, 4, 1, 5, 9, 2, 6, 7, 7])
    assert found == 8
    np.testing.assert_allclose(
        memory.read(again, found, 8), plain(model, again.tokens), atol=2e-5
    )


def test_the_memory_takes_the_bytes_that_its_blocks_are_said_to():
    model = tiny_models.model("llama", dtype="bfloat16")
    c = model.config
    each = 2 * c.layers * c.kv_heads * c.head_dim * SIZE * 2  # keys and values, 2 bytes
    assert paged.pages(model, 7, SIZE).bytes == 8 * each
