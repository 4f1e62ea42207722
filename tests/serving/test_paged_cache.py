"""The paged cache: no block is lost, given twice or read with another's content."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from helpers.serving.paged_cache import BlockPool, OutOfBlocks

SIZE, BLOCKS = 3, 9
token = st.integers(0, 1)  # few, so that many texts begin alike
tokens = st.lists(token, min_size=1, max_size=11)


class Pool(RuleBasedStateMachine):
    """A pool beside the truth: what each place of the memory was computed from.

    The keys and values of a token depend on all tokens before it, so a place holds the
    right thing if it was written with exactly this beginning.
    """

    texts = Bundle("texts")

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(BLOCKS, SIZE)
        self.memory = [[None] * SIZE for _ in range(BLOCKS)]
        self.open, self.computed = [], {}

    def compute(self, text, count):
        """Computes a text's tokens up to `count`, as a prefill does."""
        for i in range(self.computed[id(text)], count):
            place = text.blocks[i // SIZE]
            self.memory[place][i % SIZE] = tuple(text.tokens[: i + 1])
        self.computed[id(text)] = max(count, self.computed[id(text)])
        self.pool.written(text, self.computed[id(text)])

    @rule(target=texts, tokens=tokens, part=st.floats(0, 1))
    def begin(self, tokens, part):
        before = list(self.pool.users), self.pool.free
        try:
            text, cached = self.pool.open(tokens)
        except OutOfBlocks:
            assert (list(self.pool.users), self.pool.free) == before
            assert -(-len(tokens) // SIZE) > self.pool.free
            return None
        assert 0 <= cached < len(tokens) and cached % SIZE == 0
        self.open.append(text)
        self.computed[id(text)] = cached
        self.compute(text, cached + round(part * (len(tokens) - cached)))
        return text

    @rule(text=texts)
    def go_on_computing(self, text):
        if text in self.open:
            self.compute(text, len(text.tokens))

    @rule(text=texts, token=token)
    def append(self, text, token):
        if text not in self.open:
            return
        self.compute(text, len(text.tokens))
        length, before = len(text.tokens), list(self.pool.users)
        try:
            place = self.pool.append(text, token)
        except OutOfBlocks:
            assert list(self.pool.users) == before and self.pool.free == 0
            assert len(text.tokens) == length
            return
        if place.copy_of is not None:
            self.memory[place.block] = list(self.memory[place.copy_of])
        assert self.pool.users[place.block] == 1, "others would read it"
        self.memory[place.block][place.offset] = tuple(text.tokens)
        self.computed[id(text)] = len(text.tokens)
        self.pool.written(text, len(text.tokens))

    @rule(target=texts, text=texts)
    def fork(self, text):
        if text not in self.open:
            return None
        self.compute(text, len(text.tokens))
        free, twin = self.pool.free, self.pool.fork(text)
        assert self.pool.free == free
        self.open.append(twin)
        self.computed[id(twin)] = self.computed[id(text)]
        return twin

    @rule(text=consumes(texts))
    def close(self, text):
        if text in self.open:
            self.pool.close(text)
            self.open.remove(text)

    @invariant()
    def every_text_reads_what_was_computed_for_it(self):
        for text in self.open:
            assert len(text.blocks) == -(-len(text.tokens) // SIZE)
            for i in range(self.computed[id(text)]):
                place = self.memory[text.blocks[i // SIZE]][i % SIZE]
                assert place == tuple(text.tokens[: i + 1])

    @invariant()
    def every_block_has_its_users_or_is_free(self):
        users = [sum(b in text.blocks for text in self.open) for b in range(BLOCKS)]
        assert users == self.pool.users
        assert users.count(0) == self.pool.free


class TestPool(Pool.TestCase):
    """The machine above, run by hypothesis."""

    settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


def opened(pool, text):
    """A text that is computed whole, and how much of it was cached."""
    made, cached = pool.open([ord(letter) for letter in text])
    pool.written(made, len(text))
    return made, cached


def test_a_prompt_that_was_closed_is_found_again_until_its_memory_is_needed():
    pool = BlockPool(4, 4)
    first, cached = opened(pool, "system: be brief")
    assert cached == 0 and pool.free == 0
    pool.close(first)
    again, cached = opened(pool, "system: be")
    assert cached == 8 and pool.free == 1
    pool.close(again)
    other, cached = opened(pool, "quite another 16")
    assert cached == 0
    pool.close(other)
    assert opened(pool, "system: be brief")[1] == 0


def test_beginnings_stay_longest():
    pool = BlockPool(3, 2)
    pool.close(opened(pool, "abcdef")[0])
    opened(pool, "xy")
    assert opened(pool, "abcd")[1] == 2, "the end, ef, was given away first"


def test_a_group_shares_its_prompt_and_pays_for_its_answers():
    pool = BlockPool(20, 4)
    group = [opened(pool, "a prompt of 18 tok")[0]]
    group += [pool.fork(group[0]) for _ in range(7)]
    assert pool.free == 15
    copied = [pool.append(text, 1).copy_of for text in group]
    assert pool.free == 15 - 7, "the last one to write goes on in the block they shared"
    assert copied.count(None) == 1
