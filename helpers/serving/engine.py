"""Continuous batching: texts come and go while the model goes on, token by token.

A batch that waits for its longest answer leaves places empty. Here a place is filled
again as soon as an answer has ended (Orca, OSDI 2022). Every step reads a chunk of one
new prompt, and one token of every text that is being answered. Several answers to one
prompt read it once, and share its blocks until they differ. When the cache is full, the
text that came last gives its blocks back and waits. It is read again later, and its
answer is the same, except where bfloat16's rounding decides between two tokens.
"""

import dataclasses
from collections import deque
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from helpers.generation.next_token import draw
from helpers.runtime.ranges import require_positions
from helpers.serving import paged_cache
from helpers.serving.paged_cache import BlockPool, OutOfBlocks, Text


@dataclasses.dataclass(eq=False)
class Request:
    """A question to an engine, and its answer as it grows.

    Attributes:
      prompt: its tokens.
      max_tokens: the most tokens of the answer.
      seed: decides its random numbers, whatever is answered beside it.
      temperature: 0 is greedy.
      answer: tokens so far, the EOS included.
      ended: whether an EOS or the budget has ended it.
      read: tokens that were read in chunks. Those found in the cache do not count;
        those read again after a preemption do.
      preempted: how often it had to give its blocks back.
    """

    prompt: Sequence[int]
    max_tokens: int
    seed: int = 0
    temperature: float = 0.0
    answer: list[int] = dataclasses.field(default_factory=list)
    ended: bool = False
    read: int = 0
    preempted: int = 0


@dataclasses.dataclass(eq=False)
class _Running:
    """A request that has blocks: its text, and how many of its tokens are computed.

    twins: requests of the same prompt, which fork the text once it is computed.
    """

    request: Request
    text: Text
    computed: int
    twins: list[Request] = dataclasses.field(default_factory=list)


class Engine:
    """Answers requests with one model and one paged cache.

    Args:
      model: a Transformer. An engine is made for its weights as they are now.
      eos_ids: tokens that end an answer.
      blocks, size: of the cache: how many blocks, of how many tokens.
      places: texts that are answered at a time.
      longest: the most tokens of a text, prompt and answer.
      chunk: prompt tokens that are read in a step.

    Attributes:
      passes: how often the model was run, chunks of prompts included.

    Raises:
      helpers.runtime.ranges.TextTooLong: the model was made for texts shorter than
        `longest`.
    """

    def __init__(
        self, model, eos_ids, *, blocks, size=16, places=8, longest=128, chunk=32
    ):
        require_positions(model.config, longest, f"A text of longest={longest}")
        self.pool = BlockPool(blocks, size)
        self.pages = paged_cache.empty_pages(model, blocks, size)
        self.graph, self.weights = nnx.split(model)
        self.computed_with = jax.tree.leaves(self.weights)  # what the cache belongs to
        self.vocab, vision = model.config.vocab_size, model.config.vision
        self.image_token = vision.image_token if vision else None
        self.eos, self.places, self.longest = set(eos_ids), places, longest
        self.chunk, self.width = chunk, -(-longest // size)
        self.waiting: deque[list[Request]] = deque()  # groups, most of them of one
        self.running: list[_Running] = []
        self.passes = 0

    def submit(self, request: Request) -> Request:
        """Puts a request at the end of the queue.

        Raises:
          ValueError: it could never be answered: empty, foreign tokens, a picture, or
            longer than a text may be or than the whole cache.
        """
        return self.submit_group([request])[0]

    def submit_group(self, requests: Sequence[Request]) -> list[Request]:
        """Puts requests of one prompt at the end of the queue: it is read once for all.

        Raises:
          ValueError: see `submit`; or the prompts differ, or the places are fewer.
        """
        group = list(requests)
        if not 1 <= len(group) <= self.places:
            raise ValueError(
                f"A group of {len(group)}: there are {self.places} places."
            )
        for request in group:
            request.prompt = tuple(int(token) for token in request.prompt)  # a copy
        prompt, budgets = group[0].prompt, [request.max_tokens for request in group]
        if any(request.prompt != prompt for request in group):
            raise ValueError("The requests of a group have one prompt: these differ.")
        if not prompt or min(prompt) < 0 or max(prompt) >= self.vocab:
            raise ValueError(
                "A prompt is a list of one token or more, each of the model's "
                f"vocabulary of {self.vocab}: encode it with the model's own tokenizer."
            )
        if self.image_token in prompt:
            raise ValueError("This engine takes no pictures: ask in words alone.")
        most = min(self.longest, len(self.pool.users) * self.pool.size)
        if min(budgets) < 1 or len(prompt) + max(budgets) > most:
            raise ValueError(
                f"{len(prompt)} tokens and {max(budgets)} more: an answer has one or "
                f"more, and a text at most {most}. Shorten it, or enlarge the engine."
            )
        self.waiting.append(group)
        return group

    def step(self) -> list[Request]:
        """One step of all; returns the requests that got a token.

        Raises:
          ValueError: the model's weights have changed since the engine was made.
        """
        now = jax.tree.leaves(self.weights)
        if any(a is not b for a, b in zip(self.computed_with, now, strict=True)):
            raise ValueError(
                "The model was trained since this engine was made, and the cache was "
                "computed with the old weights: make another engine."
            )
        self._admit()
        fresh = self._prefill()
        return fresh + self._decode({id(request) for request in fresh})

    def run(self) -> None:
        """Steps until every request is answered."""
        while self.waiting or self.running:
            self.step()

    def _admit(self):
        """Gives waiting requests places and blocks, first come, first served."""
        while self.waiting:
            request, *twins = self.waiting[0]
            taken = sum(1 + len(each.twins) for each in self.running)
            if taken + 1 + len(twins) > self.places:
                return
            try:
                text, cached = self.pool.open([*request.prompt, *request.answer])
            except OutOfBlocks:
                return
            self.waiting.popleft()
            self.running.append(_Running(request, text, cached, twins))

    def _prefill(self):
        """Reads a chunk of the first text that is not computed yet."""
        each = next((x for x in self.running if x.computed < len(x.text.tokens)), None)
        if each is None:
            return []
        before = each.computed
        logits = self._read([each], self.chunk)
        each.request.read += each.computed - before
        if each.computed < len(each.text.tokens):
            return []
        twins = [
            _Running(twin, self.pool.fork(each.text), each.computed)
            for twin in each.twins
        ]
        at, each.twins = self.running.index(each) + 1, []
        self.running[at:at] = twins  # behind the text that they fork
        return self._sampled([each, *twins], jnp.repeat(logits, 1 + len(twins), axis=0))

    def _decode(self, fresh):
        """Reads the last token of every text that is being answered."""
        ready = [
            each
            for each in self.running
            if each.computed == len(each.text.tokens) and id(each.request) not in fresh
        ]
        for each in ready:
            self._grow(each)
        ready = [each for each in ready if each in self.running]
        return self._sampled(ready, self._read(ready, 1)) if ready else []

    def _grow(self, each):
        """Takes a place for the last token; the last to come make room."""
        while each in self.running:
            try:
                place = self.pool.append(each.text, each.request.answer[-1])
            except OutOfBlocks:
                youngest = self.running[-1]
                self._leave(youngest)
                youngest.request.preempted += 1
                self.waiting.appendleft([youngest.request, *youngest.twins])
                continue
            if place.copy_of is not None:
                self.pages = paged_cache.copied(self.pages, place.copy_of, place.block)
            return

    def _leave(self, each):
        self.pool.close(each.text)
        self.running.remove(each)

    def _read(self, several, width):
        """Reads up to `width` new tokens of some texts; logits of each (B, V)."""
        # Two programs are compiled: a chunk of one prompt, a token of each place.
        rows = 1 if width > 1 else self.places
        new, mask = np.zeros((2, rows, width), np.int32)
        table = np.zeros((rows, self.width), np.int32)
        seen = np.zeros(rows, np.int32)
        for row, each in enumerate(several):
            fresh = each.text.tokens[each.computed :][:width]
            new[row, : len(fresh)], mask[row, : len(fresh)] = fresh, 1
            table[row, : len(each.text.blocks)] = each.text.blocks
            seen[row] = each.computed
        logits, self.pages = paged_cache.read(
            self.graph, self.weights, self.pages, new, mask, table, seen
        )
        self.passes += 1
        for each, count in zip(several, mask.sum(axis=1), strict=False):
            each.computed += int(count)
            self.pool.written(each.text, each.computed)
        return logits

    def _sampled(self, several, logits):
        """Gives each text its next token; those that end leave."""
        seeds, places = np.zeros((2, len(logits)), np.uint32)
        temperatures = np.zeros(len(logits), np.float32)
        for row, each in enumerate(several):
            request = each.request
            seeds[row], places[row] = request.seed, len(request.answer)
            temperatures[row] = request.temperature
        chosen = np.asarray(_chosen(logits, seeds, places, temperatures))
        for each, token in zip(several, chosen, strict=False):
            request = each.request
            request.answer.append(int(token))
            full = len(request.answer) == request.max_tokens
            request.ended = full or int(token) in self.eos
            if request.ended:
                self._leave(each)
        return [each.request for each in several]


@jax.jit
def _chosen(logits_BV, seed_B, place_B, temperature_B):
    """A token of each row, from its request's own random numbers; greedy at 0."""

    def noise(seed, place):
        key = jax.random.fold_in(jax.random.key(0), seed)
        return jax.random.uniform(jax.random.fold_in(key, place))

    warm_B = temperature_B > 0
    divisor_B1 = jnp.where(warm_B, temperature_B, 1.0)[:, None]
    drawn_B = draw(logits_BV / divisor_B1, jax.vmap(noise)(seed_B, place_B))
    return jnp.where(warm_B, drawn_B, logits_BV.argmax(axis=-1))
