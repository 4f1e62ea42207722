"""What data sources share: an order drawn from Grain, a share of it, and a state.

The order is a function of seed and position, so its whole state is one number. Process
i of n reads positions i, i + n, i + 2n, …: disjoint, and complete. Below stand
the checks of what a model is about to read.
"""

import functools
import itertools
import sys
from typing import Any

import grain
import numpy as np

from helpers.runtime import distributed
from helpers.runtime.ranges import require_count, require_positions
from helpers.runtime.run_identity import REMEDY, differences

TOKENS = ("tokens", "prompt", "completion")  # the arrays of token ids in a batch


SELDOM = 0.02  # of a chance of at most 1/4, for what teaches nothing at present
PACE = 0.5  # of the newest rewards in a running mean


class ImageMismatch(ValueError):
    """The image tokens of a prompt and the pictures given for it do not agree."""


class BatchSource:
    """Where the trainer's batches come from; subclass it.

    Attributes:
      metrics: numbers about the last batch.
      samples: some of what it contains, to be read: dicts of a "prompt", a "completion"
        and perhaps a "reward".
      longest: tokens of the longest text, its answer included; 0 if it is not known.
      limit: how many updates old its answers may be.
      model: what samples its answers, None if nothing does.
    """

    metrics: dict[str, float] = {}
    samples: list[dict] = []
    longest = 0
    limit = 0
    model: Any = None

    def __iter__(self):
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        """The next batch, by name; StopIteration at the end."""
        raise NotImplementedError

    def get_state(self) -> dict:
        """Where it stands, for JSON."""
        raise NotImplementedError

    def set_state(self, state: dict) -> None:
        """Goes on from a state; ValueError if it is that of another run."""
        raise NotImplementedError

    def set_states(self, states: list[dict]) -> None:
        """Goes on where another number of processes stopped, from all their states."""
        raise ValueError(f"Start {len(states)} processes, as before, or a new folder.")

    def send(self, wrt) -> None:
        """Before training: which variables change, for those who sample elsewhere."""

    def record(self, rewards_PG) -> None:
        """After the answers to a batch of prompts were scored."""


class Source(BatchSource):
    """A batch source over examples in memory.

    Args:
      run: what must be the same to continue: "batch" (per process), "seed", and more;
        what JSON can hold.
      epochs: how often to go through the examples; None for ever.
      lengths: how many tokens each example has.
      make: (rows) -> (batch, metrics); rows are lists of indices of examples.
      describe: () -> {name: text} of all that batches are made of; checksums suffice.
      pictures: an `images.Pictures`, which come with the batches; None: there are none.
    Raises:
      ValueError: no examples, or a number among the arguments that is no count.
    """

    def __init__(self, run, epochs, lengths, make, describe, pictures=None):
        require_count("batch", run["batch"])
        require_count("epochs", 1 if epochs is None else epochs)
        if not lengths:
            raise ValueError("There is no data: the list of examples or rows is empty.")
        self.longest, self._lengths = max(lengths), lengths
        self._make, self._describe, self._pictures = make, describe, pictures
        self._run = run | {"shard": list(distributed.share()), "epochs": epochs}
        self._before = 0  # examples of the order before this batch
        self._waiting: list[int] = []  # examples that are due before those of the order
        self._order = self._shuffled()

    def __next__(self):
        self._before = self._order.get_state()["next_index"]
        rows = self._draw()
        if not any(rows):
            raise StopIteration
        batch, metrics = self._make(rows)
        if self._pictures:
            batch["images"] = self._pictures.of_rows(rows)
        taken, count = self._order.get_state()["next_index"], self._run["shard"][1]
        self.metrics = metrics | {"epoch": taken * count / len(self._lengths)}
        return batch

    def places(self, drawn) -> list[int]:
        """Where in the order of all processes the examples of this batch stand."""
        index, count = self._run["shard"]
        return [(self._before + i) * count + index for i in range(drawn)]

    def _draw(self):
        """The rows of the next batch, of one example each; fewer at the end."""
        size = self._run["batch"]
        drawn, self._waiting = self._waiting[:size], self._waiting[size:]
        drawn += itertools.islice(self._order, size - len(drawn))
        return [[index] for index in drawn]

    @functools.cached_property
    def _identity(self):
        """What must be the same to continue; described once, when first asked for."""
        data = self._describe()
        if self._pictures:
            data["pictures"] = self._pictures.describe()
        return self._run | {"data": data}

    def get_state(self):
        """Return a JSON-able dict that says where this source stands."""
        return {
            "run": dict(self._identity),
            "order": self._order.get_state(),
            "waiting": list(self._waiting),
        }

    def set_state(self, state):
        """Continue from a state of a source made with the same arguments.

        Raises:
          ValueError: the state is that of other data or other arguments.
        """
        if changed := differences(state["run"], self._identity):
            raise ValueError(
                f"The saved data position is that of other batches: {changed}. {REMEDY}"
            )
        self._order.set_state(state["order"])
        self._waiting = list(state["waiting"])

    def set_states(self, states):
        """Continue where another number of processes stopped, from all their states.

        Every example still comes once per epoch: what is left is shared out anew. The
        global batch, `batch` times processes, must be as large as it was.

        Args:
          states: of process 0, 1, … of the saved run.
        Raises:
          ValueError: the states are those of other data or other arguments.
        """
        index, count = self._run["shard"]
        taken, n = [state["order"]["next_index"] for state in states], len(states)
        # Process i took the first taken[i] of the positions i, i + n, i + 2n, …: those
        # before the last one taken that nobody took are due first.
        end = max(0, *(i + n * (k - 1) + 1 for i, k in enumerate(taken)))
        late = [p for p in range(n * min(taken), end) if p // n >= taken[p % n]]
        in_turn = itertools.zip_longest(*(state["waiting"] for state in states))
        waiting = [x for turn in in_turn for x in turn if x is not None]
        waiting += map(self._example_at, late)
        run = states[0]["run"]
        run = run | {"shard": [index, count], "batch": run["batch"] * n / count}
        order = {"next_index": len(range(index, end, count))}
        self.set_state({"run": run, "order": order, "waiting": waiting[index::count]})

    def _shuffled(self):
        """Grain's iterator over this process's share of the examples."""
        (index, count), epochs = self._run["shard"], self._run["epochs"]
        length = sys.maxsize if epochs is None else epochs * len(self._lengths)
        positions = grain.MapDataset.range(length)[index::count]
        in_memory = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        return iter(positions.map(self._example_at).to_iter_dataset(in_memory))

    def _example_at(self, position):
        """The example at a position; the order is another in every epoch."""
        count = len(self._lengths)
        epoch, offset = divmod(position, count)
        return int(_permutation(self._run["seed"], epoch, count)[offset])


class Curriculum(Source):
    """Draws most often the examples whose answers are sometimes right.

    The chance of an example grows with p (1 - p), where p is a running mean of its
    rewards, from 0 to 1: only answers that differ teach anything (2502.12272). What is
    always right, or never, still comes now and then, as the policy changes.
    """

    def __init__(self, run, *arguments):
        super().__init__(run | {"curriculum": True}, *arguments)
        self.rates = np.full(len(self._lengths), 0.5)

    def _draw(self):
        size = len(super()._draw())  # so that the place in the order goes on
        index, count = self._run["shard"]
        rates = self.rates[index::count]
        p = rates * (1 - rates) + SELDOM
        rng = np.random.default_rng([self._run["seed"], self._before])
        places = rng.choice(len(p), size, size > len(p), p / p.sum())
        self._drawn = index + count * places
        return [[int(example)] for example in self._drawn]

    def record(self, rewards_PG):
        """Counts how often the answers to the last batch were right."""
        right_P = np.clip(rewards_PG, 0, 1).mean(axis=1)
        self.rates[self._drawn] += PACE * (right_P - self.rates[self._drawn])

    def get_state(self):
        """As of any source, with the rates."""
        return super().get_state() | {"rates": self.rates.tolist()}

    def set_state(self, state):
        """As of any source; another number of processes begins with equal rates."""
        super().set_state(state)
        self.rates = np.array(state.get("rates", self.rates))


@functools.lru_cache(maxsize=8)
def _permutation(seed, epoch, count):
    # NumPy's, because Grain's own `shuffle` takes 10 ms per index for two examples and
    # 0.1 ms for three hundred (measured, 0.2.18).
    return np.random.default_rng([seed, epoch]).permutation(count)


def require_fitting(models, batches: BatchSource) -> None:
    """Refuses batches whose texts are longer than those that a model was made for.

    Raises:
      helpers.runtime.ranges.TextTooLong: they are.
    """
    what = "The longest text of these batches, answer included"
    for model in models:
        require_positions(getattr(model, "config", None), batches.longest, what)


def require_readable(config, batch: dict) -> None:
    """Refuses a batch that the model would silently misread.

    XLA reads an id without an embedding as the last one, a prompt that begins with
    padding gets wrong positions, and losses take every number above 0 in a mask for 1.

    Args:
      config: of the model; None checks the loss mask only.
      batch: {name: array} on the host, its arrays of NumPy or of JAX.
    Raises:
      ImageMismatch: there are image tokens, and no pictures.
      ValueError: another of these.
    """
    if not np.isin(np.asarray(batch.get("loss_mask", 1)), (0, 1)).all():
        raise ValueError(
            "The loss mask has numbers other than 0 and 1, and every loss would count "
            "them as 0 or 1. Weigh answers by their advantages, or in an objective."
        )
    vocab = getattr(config, "vocab_size", None)
    if vocab is None:
        return
    ids = {name: np.asarray(batch[name]) for name in TOKENS if name in batch}
    for name, tokens in ids.items():
        _require_known(name, tokens, vocab)
    if "prompt_mask" in batch and "prompt" in ids:
        check_right_padded(ids["prompt"], batch["prompt_mask"])
    vision = getattr(config, "vision", None)
    if vision and "images" not in batch:
        # What a model says is no picture: its completions are not looked at.
        given = [tokens for name, tokens in ids.items() if name != "completion"]
        if any((tokens == vision.image_token).any() for tokens in given):
            raise ImageMismatch(
                "The batch has image tokens and no images: make it with pictures= and "
                "vision=, so that the model sees them."
            )


def _require_known(name, tokens, vocab):
    """Refuses ids that the model does not have."""
    foreign = tokens[(tokens < 0) | (tokens >= vocab)]
    if foreign.size:
        raise ValueError(
            f"The batch has token {foreign[0]} in {name!r}, the model has {vocab}: "
            "load the tokenizer from the model's own folder."
        )


def check_right_padded(tokens, mask):
    """Refuses prompts that have gaps.

    Args:
      tokens, mask: (P, T); the mask has ones, then zeros.
    Returns:
      How many tokens each prompt has, (P) int.
    Raises:
      ValueError: naming the prompt.
    """
    tokens, mask = np.asarray(tokens), np.asarray(mask)
    if tokens.shape != mask.shape or tokens.dtype.kind not in "iu":
        raise ValueError(
            f"Prompt tokens are {tokens.dtype}{tokens.shape}, their mask has shape "
            f"{mask.shape}: pass whole numbers, and a mask of the same shape."
        )
    count = (mask != 0).sum(axis=-1)
    real = np.arange(mask.shape[-1]) < count[:, None]
    _check_rows(mask == real, "is not padded on the right: mask it by ones, then zeros")
    return count


def check_prompts(tokens, mask, config, room):
    """As `check_right_padded`; refuses empty and too long prompts, and foreign ids.

    Args:
      config: the model's. room: the most tokens that may follow a prompt.
    """
    count = check_right_padded(tokens, mask)
    _require_known("prompt", np.asarray(tokens), config.vocab_size)
    _check_rows(count[:, None] > 0, "is empty: an answer needs a token to go on from")
    longest = int(count.max(initial=0))
    what = f"A prompt of {longest} and up to {room} behind it"
    require_positions(config, longest + room, what)


def _check_rows(fine, problem):
    """Raises ValueError with the index of the first prompt that is not fine."""
    if not fine.all():
        raise ValueError(f"Prompt {np.argmin(fine.all(axis=-1))} {problem}.")
