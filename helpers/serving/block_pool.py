"""The memory of a paged KV cache: blocks, who uses them, and which prefixes they hold.

A rectangular cache keeps room for the longest answer beside every prompt. Here a text
gets blocks of a few tokens one by one as it grows, from one pool (PagedAttention,
2309.06180). Texts that begin alike share the full blocks of their beginning, and the
blocks of a text that was closed stay readable until their memory is needed.

Only the book-keeping is here: which block holds which tokens. The keys and values
themselves lie in arrays whose leading axis is the block (`serving.paged`).
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple


class OutOfBlocks(RuntimeError):
    """Every block is in use: close a text, or wait until one is closed."""


class Text:
    """A text in the cache: its tokens, and the blocks that hold them, in order.

    Made by `BlockPool.open` and `BlockPool.fork`; the pool changes it.
    """

    def __init__(self):
        self.tokens: list[int] = []
        self.blocks: list[int] = []
        self.is_open = True


class Place(NamedTuple):
    """Where a token's keys and values go.

    Attributes:
      block, offset: the block, and the place in it.
      copy_of: a block whose content has to be copied into `block` first; None if none.
    """

    block: int
    offset: int
    copy_of: int | None = None


class BlockPool:
    """A number of blocks, and the texts that lie in them.

    Args:
      blocks: how many there are.
      size: tokens in a block.
      keep: whether blocks that nobody uses stay readable for texts that begin alike.
    """

    def __init__(self, blocks: int, size: int, keep: bool = True):
        if blocks < 1 or size < 1:
            raise ValueError(f"{blocks} blocks of {size} tokens hold nothing.")
        self.size, self.keep = size, keep
        self.users = [0] * blocks
        self._empty = list(range(blocks))[::-1]
        self._unused: OrderedDict[int, None] = OrderedDict()  # readable, oldest first
        # A full block is known by the block before it and its own tokens. Names are
        # never given twice, so a block whose beginning was evicted is found no more.
        self._by_content: dict[tuple, int] = {}
        self._content: dict[int, tuple] = {}
        self._name: dict[int, int] = {}
        self._names = 0

    @property
    def free(self) -> int:
        """Blocks that can be had, those that are only kept included."""
        return len(self._empty) + len(self._unused)

    def open(self, tokens: Iterable[int]) -> tuple[Text, int]:
        """A text that begins with these tokens.

        Returns:
          The text, and how many of its tokens are in the cache already. At least one
          is not, for somebody has to compute what comes next. `written` says when the
          others are.
        Raises:
          ValueError: there is no token.
          OutOfBlocks: there are not enough blocks; nothing has changed then.
        """
        text = Text()
        text.tokens = [int(token) for token in tokens]
        if not text.tokens:
            raise ValueError("A text needs a token to begin with.")
        shared = self._shared(text.tokens)
        asleep = sum(self.users[block] == 0 for block in shared)
        count = -(-len(text.tokens) // self.size) - len(shared)
        if count > self.free - asleep:
            raise OutOfBlocks(
                f"{len(text.tokens)} tokens need {count} blocks of {self.size}, and "
                f"{self.free - asleep} are free."
            )
        for block in shared:
            self._use(block)
        text.blocks = shared + [self._take() for _ in range(count)]
        return text, len(shared) * self.size

    def append(self, text: Text, token: int) -> Place:
        """The place of a text's next token; a block of its own if others share it.

        Raises:
          OutOfBlocks: a new block is needed and none is free; nothing has changed then.
        """
        self._require_open(text)
        offset = len(text.tokens) % self.size
        copy_of = None
        if offset == 0:
            text.blocks.append(self._take())
        elif self.users[text.blocks[-1]] > 1:
            copy_of, text.blocks[-1] = text.blocks[-1], self._take()
            self._leave(copy_of)
        text.tokens.append(int(token))
        return Place(text.blocks[-1], offset, copy_of)

    def fork(self, text: Text) -> Text:
        """Another text that begins as this one does; free until one of them grows."""
        self._require_open(text)
        twin = Text()
        twin.tokens, twin.blocks = list(text.tokens), list(text.blocks)
        for block in twin.blocks:
            self._use(block)
        return twin

    def written(self, text: Text, count: int) -> None:
        """Notes that the first `count` tokens' keys and values are in the cache.

        From now on other texts find the full blocks among them.

        Raises:
          ValueError: the text has fewer tokens.
        """
        self._require_open(text)
        if count > len(text.tokens):
            raise ValueError(f"{count} of {len(text.tokens)} tokens cannot be written.")
        before = -1
        for i in range(count // self.size):
            block = text.blocks[i]
            if block not in self._content:
                content = (
                    before,
                    tuple(text.tokens[i * self.size : (i + 1) * self.size]),
                )
                if content not in self._by_content:
                    self._names += 1
                    self._by_content[content], self._content[block] = block, content
                    self._name[block] = self._names
                else:  # another text has computed the same meanwhile
                    block = self._by_content[content]
            before = self._name[block]

    def close(self, text: Text) -> None:
        """Gives a text's blocks back, the last first: beginnings are kept longest."""
        self._require_open(text)
        text.is_open = False
        for block in reversed(text.blocks):
            self._leave(block)

    def _shared(self, tokens):
        """The blocks that hold the tokens' beginning, never all of the tokens."""
        found, before = [], -1
        for start in range(0, len(tokens) - self.size, self.size):
            content = before, tuple(tokens[start : start + self.size])
            if content not in self._by_content:
                break
            found.append(self._by_content[content])
            before = self._name[found[-1]]
        return found

    def _take(self):
        """An empty block, or the one that nobody has used for longest."""
        if self._empty:
            block = self._empty.pop()
        elif self._unused:
            block, _ = self._unused.popitem(last=False)
            self._forget(block)
        else:
            raise OutOfBlocks(f"All {len(self.users)} blocks are in use.")
        self.users[block] = 1
        return block

    def _use(self, block):
        self._unused.pop(block, None)
        self.users[block] += 1

    def _leave(self, block):
        self.users[block] -= 1
        if self.users[block]:
            return
        if self.keep and block in self._content:
            self._unused[block] = None
        else:
            self._forget(block)
            self._empty.append(block)

    def _forget(self, block):
        if block in self._content:
            del self._by_content[self._content.pop(block)], self._name[block]

    def _require_open(self, text):
        if not text.is_open:
            raise ValueError("This text is closed: its blocks may hold another by now.")
